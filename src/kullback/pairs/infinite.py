"""Pairs that are infinite whatever the parameters: p's tail, or its mass at an end, is too heavy for −log q.

A Cauchy has no mean, which Exponential, Gamma, Gumbel, Laplace ask for, let alone a variance; its lower tail, like any
power, makes E e^(−x) of a Gumbel infinite. A density that does not vanish at 0 makes E 1/x of an InverseGamma infinite.
"""

from __future__ import annotations

from torch import Tensor
from torch import distributions as d
from torch.distributions import Distribution

from kullback.pairs.dispatch import infinite_everywhere
from kullback.pairs.registry import register

_NO_MEAN, _NO_VARIANCE = "p has no mean", "p has no variance"
_NO_MOMENT, _NO_RECIPROCAL = "E e^(−x) is infinite under a power tail", "E 1/x is infinite: p's density at 0 is not 0"
_PAIRS: dict[tuple[type[Distribution], type[Distribution]], str] = {
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
    """Infinite everywhere, with a zero gradient."""
    return infinite_everywhere(p, q)


for (_p, _q), _reason in _PAIRS.items():
    register(_p, _q, method="infinite", source=_reason, decides_support=True)(kl_infinite)
