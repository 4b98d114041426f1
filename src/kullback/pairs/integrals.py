"""Routes of two univariate distributions without a closed form: an integral, a series, or infinite; `registry` asks.

Some pairs are infinite whatever the parameters. A Cauchy has no mean, which Exponential, Gamma, Gumbel, Laplace ask
for, let alone a variance; its lower tail, like any power, makes E e^(−x) of a Gumbel infinite. A density that does not
vanish at 0 makes E 1/x of an InverseGamma infinite.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch import distributions as d
from torch.distributions import Distribution

from kullback._core.shapes import joint_shape
from kullback.divergences.kl import integral, is_infinite_everywhere, is_lattice
from kullback.pairs.nan_guard import nan_where_parameters_are_nan
from kullback.pairs.parameters import result_dtype, tensors_of
from kullback.pairs.registry import Rule, register
from kullback.pairs.support import contained, disjoint_by_class

_NO_MEAN, _NO_VARIANCE = "p has no mean", "p has no variance"
_NO_MOMENT, _NO_RECIPROCAL = "E e^(−x) is infinite under a power tail", "E 1/x is infinite: p's density at 0 is not 0"
INFINITE_PAIRS: dict[tuple[type[Distribution], type[Distribution]], str] = {
    (d.Cauchy, d.Gumbel): _NO_MOMENT,
    (d.Cauchy, d.Laplace): _NO_MEAN,
    (d.Cauchy, d.Normal): _NO_VARIANCE,
    (d.Exponential, d.InverseGamma): _NO_RECIPROCAL,
    (d.HalfCauchy, d.Exponential): _NO_MEAN,
    (d.HalfCauchy, d.Gamma): _NO_MEAN,
    (d.HalfCauchy, d.Gumbel): _NO_MEAN,
    (d.HalfCauchy, d.HalfNormal): _NO_VARIANCE,
    (d.HalfCauchy, d.InverseGamma): _NO_RECIPROCAL,
    (d.HalfCauchy, d.Laplace): _NO_MEAN,
    (d.HalfCauchy, d.Normal): _NO_VARIANCE,
    (d.HalfNormal, d.InverseGamma): _NO_RECIPROCAL,
    (d.StudentT, d.Gumbel): _NO_MOMENT,
}


def kl_infinite(p: Distribution, q: Distribution) -> Tensor:
    """Infinite in every element, NaN where a parameter is; the gradient is zero, so that `backward` still runs."""
    parameters = [*tensors_of(p), *tensors_of(q)]
    device = parameters[0].device if parameters else None
    shape = joint_shape(p.batch_shape, q.batch_shape)
    value = torch.full(shape, torch.inf, dtype=result_dtype(p, q), device=device)
    for parameter in parameters:
        if parameter.requires_grad:
            value = torch.where(value > 0, value, parameter.sum().to(value.dtype))
    return nan_where_parameters_are_nan(value, p, q)


for (_p, _q), _reason in INFINITE_PAIRS.items():
    register(_p, _q, method="infinite", source=_reason, finished=True)(kl_infinite)


def rule_for(p: Distribution, q: Distribution) -> Rule | None:
    """The rule for two univariate distributions; None for others."""
    by_class = disjoint_by_class(p, q)
    infinite = Rule(type(p), type(q), kl_infinite, "infinite", "p's support is not inside q's", finished=by_class)
    if by_class:
        return infinite
    of_p, of_q = is_lattice(p), is_lattice(q)
    if of_p is None or of_q is None:
        return None
    if of_p is not of_q or (contained(p, q) is False and is_infinite_everywhere(p, q)):
        return infinite
    if of_p:
        return Rule(type(p), type(q), integral, "series", "Σ p·(log p − log q) on panels of integers")
    return Rule(type(p), type(q), integral, "integral", "∫ p·(log p − log q) on graded Gauss–Legendre panels")
