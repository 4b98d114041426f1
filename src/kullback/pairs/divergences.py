"""The divergences beside KL of two distributions, by rows of classes, within a family or by the engine; `api` calls.

Each has one value per batch element, in the parameters' own precision, and is differentiable.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import NoReturn

import torch
from torch import Tensor
from torch.distributions import (
    Bernoulli,
    Categorical,
    Distribution,
    Multinomial,
    OneHotCategorical,
    TransformedDistribution,
)

from kullback._core.errors import NoRouteError, explain_problem
from kullback._core.shapes import check_class_counts, joint_shape
from kullback.densities.parameters import gives_logits, working
from kullback.densities.reading import read
from kullback.densities.registry import Reading
from kullback.divergences import f_divergence as f
from kullback.divergences.expectations import check_normalised
from kullback.divergences.renyi import renyi as renyi_by_engine
from kullback.divergences.some_elements import constant
from kullback.kernels.f_rows import js_rows, renyi_rows, scaled_js_rows, skew_kl_rows, total_variation_rows
from kullback.kernels.f_rows.ratios import root
from kullback.kernels.row_op import RowOp
from kullback.kernels.sides import Encoding
from kullback.pairs import registry
from kullback.pairs.as_known_family import as_known_family
from kullback.pairs.checks import check_pair
from kullback.pairs.dispatch import kl_divergence
from kullback.pairs.geometric_mixture import renyi_in_family
from kullback.pairs.nan_guard import nan_where_parameters_are_nan
from kullback.pairs.parameters import result_dtype
from kullback.pairs.structure import kl_transformed_transformed

Formula = Callable[[Distribution, Distribution], Tensor | None]
OfReadings = Callable[[Reading, Reading], tuple[Tensor, Tensor]]

# Beyond this exponent e is infinite.
_LARGEST_EXPONENT = math.log(torch.finfo(torch.float64).max)
# So close to order 1 a geometric mixture is p to within its roundings, and an integral knows more.
_NEAR_ONE = 1e-4


def jeffreys(p: Distribution, q: Distribution) -> Tensor:
    """KL(p ‖ q) + KL(q ‖ p), both non-negative."""
    return kl_divergence(p, q) + kl_divergence(q, p)


def js(p: Distribution, q: Distribution) -> Tensor:
    """½ KL(p ‖ m) + ½ KL(q ‖ m), m = (p + q)/2."""
    return _bounded("js", p, q, f.js(), js_rows)


def js_distance(p: Distribution, q: Distribution, unit: float) -> Tensor:
    """The root of the divergence in multiples of `unit` nats."""
    return root(js(p, q) / unit)


def skew_kl(p: Distribution, q: Distribution, alpha: float) -> Tensor:
    """KL(p ‖ αp + (1−α)q)."""
    if alpha == 0.0:
        return kl_divergence(p, q)
    return _bounded("skew_kl", p, q, f.skew_kl(alpha), skew_kl_rows, alpha)


def scaled_js(p: Distribution, q: Distribution, beta: float) -> Tensor:
    """[β KL(p ‖ m) + (1−β) KL(q ‖ m)]/(β(1−β)), m = βp + (1−β)q, and its limits."""
    if beta in (0.0, 1.0):
        return kl_divergence(p, q) if beta == 0.0 else kl_divergence(q, p)
    return _bounded("scaled_js", p, q, f.scaled_js(beta), scaled_js_rows, beta)


def total_variation(p: Distribution, q: Distribution) -> Tensor:
    """½ Σ |p − q|."""
    return _bounded("total_variation", p, q, f.total_variation(), total_variation_rows)


def renyi(p: Distribution, q: Distribution, alpha: float) -> Tensor:
    """The divergence log ∫ p^α q^(1−α) / (α−1) and its limits."""
    return (
        kl_divergence(p, q)
        if alpha == 1.0
        else _answer("renyi", p, q, functools.partial(_renyi, alpha=alpha), additive=True)
    )


def hellinger(p: Distribution, q: Distribution) -> Tensor:
    """√(1 − ∫√(pq)) = √(1 − e^(−D/2)), D Rényi's divergence of order ½."""
    return _answer(
        "hellinger",
        p,
        q,
        functools.partial(_renyi, alpha=0.5),
        additive=True,
        finish=lambda d: root(-torch.expm1(-d / 2)),
    )


def chi2(p: Distribution, q: Distribution) -> Tensor:
    """∫ (p−q)²/q = e^D − 1, D Rényi's divergence of order 2; beyond the number range it is infinite."""
    return _answer("chi2", p, q, functools.partial(_renyi, alpha=2.0), additive=True, finish=_expm1)


def _expm1(divergence: Tensor) -> Tensor:
    beyond = divergence > _LARGEST_EXPONENT
    return torch.where(beyond, math.inf, torch.expm1(torch.where(beyond, 0.0, divergence)))


def _bounded(
    name: str, p: Distribution, q: Distribution, divergence: f.FDivergence, rows: RowOp, *numbers: float
) -> Tensor:
    def formula(p: Distribution, q: Distribution) -> Tensor | None:
        by_rows = _by_rows(p, q, rows, *numbers)
        if by_rows is not None:
            return by_rows
        return _by_engine(p, q, functools.partial(f.f_divergence, divergence=divergence), divergence.most)

    return _answer(name, p, q, formula)


def _renyi(p: Distribution, q: Distribution, alpha: float) -> Tensor | None:
    """In working precision; None for a pair that has no route of its own."""
    found = _by_rows(p, q, renyi_rows, alpha)
    if found is None:
        found = _by_trials(p, q, alpha)
    if found is None and 0 < alpha < math.inf and (p.event_shape or abs(alpha - 1) >= _NEAR_ONE):
        found = renyi_in_family(p, q, alpha)
    if found is not None:
        return found
    return _by_engine(p, q, functools.partial(renyi_by_engine, alpha=alpha), math.inf)


def read_pair(p: Distribution, q: Distribution) -> tuple[Reading, Reading] | None:
    """The densities of two univariate distributions; None if one of them has none."""
    shape = joint_shape(p.batch_shape, q.batch_shape)
    first, second = read(p, shape), read(q, shape)
    if first is None or second is None:
        return None
    for side in (first, second):
        check_normalised(side)
    return first, second


def _by_engine(p: Distribution, q: Distribution, divergence: OfReadings, most: float) -> Tensor | None:
    """An integral or a sum; `most` for counts against a density, which have nothing in common."""
    readings = read_pair(p, q)
    if readings is None:
        return None
    same = readings[0].lattice == readings[1].lattice
    value = (divergence if same else functools.partial(constant, most))(*readings)[0]
    return value.reshape(joint_shape(p.batch_shape, q.batch_shape))


def _by_rows(p: Distribution, q: Distribution, op: RowOp, *numbers: float) -> Tensor | None:
    """A kernel on the classes of two distributions; None for those without."""
    own, other = _classes(p), _classes(q)
    if own is None or other is None or isinstance(p, Bernoulli) != isinstance(q, Bernoulli):
        return None
    check_class_counts(own[0], other[0], "Logits(p.logits), Logits(q.logits)")
    return op((own[0], other[0]), (own[1], other[1]), *numbers)


def _classes(distribution: Distribution) -> tuple[Tensor, Encoding] | None:
    if isinstance(distribution, OneHotCategorical):
        distribution = distribution._categorical
    logits = isinstance(distribution, Bernoulli | Categorical) and gives_logits(distribution)
    if isinstance(distribution, Categorical):
        return distribution.logits if logits else distribution.probs, Encoding(linear=not logits)
    if not isinstance(distribution, Bernoulli):
        return None
    given = working(distribution.logits if logits else distribution.probs)
    outcomes = [-torch.nn.functional.softplus(-given), -torch.nn.functional.softplus(given)]
    return torch.stack(outcomes if logits else [given, 1 - given], -1), Encoding(linear=not logits)


def _by_trials(p: Distribution, q: Distribution, alpha: float) -> Tensor | None:
    """Several trials are as many times one; None unless both have the same number of them."""
    if isinstance(p, Multinomial) and isinstance(q, Multinomial):
        one = _by_rows(p._categorical, q._categorical, renyi_rows, alpha)
        assert one is not None
        return p.total_count * one if p.total_count == q.total_count else torch.full_like(one, math.inf)
    return None


def _answer(
    name: str,
    p: Distribution,
    q: Distribution,
    formula: Formula,
    *,
    additive: bool = False,
    finish: Callable[[Tensor], Tensor] | None = None,
) -> Tensor:
    """The formula's value in the parameters' own precision and in the broadcast batch shape.

    Args:
        name: The public function, for messages.
        p: The first distribution.
        q: The second.
        formula: The value in working precision; None where it does not know the pair.
        additive: Whether the formula's value for independent dimensions is the sum of theirs.
        finish: What the divergence is as a function of the formula's value.
    """
    shape = check_pair(p, q)
    value = _inside(*_simpler(p, q), formula, additive=additive)
    if value is None:
        _refuse(name, p, q, additive=additive)
    value = nan_where_parameters_are_nan(value if finish is None else finish(value), p, q)
    # Adding 0 makes 0 of −0.
    return (value + 0.0).to(result_dtype(p, q)).expand(shape)


def _simpler(p: Distribution, q: Distribution) -> tuple[Distribution, Distribution]:
    """The distributions by their names, before the last maps that both have: no divergence sees a bijection."""
    p, q = as_known_family(p), as_known_family(q)
    if not (isinstance(p, TransformedDistribution) and isinstance(q, TransformedDistribution)):
        return p, q
    before = kl_transformed_transformed(p, q)
    return (p, q) if before is None else (as_known_family(before.p), as_known_family(before.q))


def _inside(p: Distribution, q: Distribution, formula: Formula, *, additive: bool) -> Tensor | None:
    """The formula of the pair itself, else of what its wrappers hold; a bijection of both sides changes nothing."""
    value = formula(p, q)
    if value is not None:
        return value
    rule = registry.find(type(p), type(q))
    inner = rule.formula(p, q) if rule is not None and rule.method == "structure" else None
    if not isinstance(inner, registry.Reduced) or inner.plus is not None:  # two terms are a property of KL
        return None
    shape = check_pair(inner.p, inner.q)
    event = shape[len(shape) - inner.summed :]
    if event.numel() != 1 and not additive:
        return None
    value = _inside(inner.p, inner.q, formula, additive=additive)
    if value is None or not inner.summed:
        return value
    return nan_where_parameters_are_nan(value, inner.p, inner.q).expand(shape).sum(tuple(range(-inner.summed, 0)))


def _refuse(name: str, p: Distribution, q: Distribution, *, additive: bool) -> NoReturn:
    several = bool(p.event_shape) and not additive
    raise NoRouteError(
        explain_problem(
            f"{name}() has no closed form, integral or series for these two distributions"
            + (": over several dimensions there is none." if several else "."),
            got=f"p = {type(p).__name__}, q = {type(q).__name__}, event shape {tuple(p.event_shape)}",
            expected="univariate distributions, mixtures of them, or vectors of classes",
            instead="kl(p, q), jeffreys(p, q), renyi(p, q, 0.5) or hellinger(p, q), which add up over independent "
            "dimensions and know Gaussians and Dirichlet distributions"
            if several
            else "an average over samples of p of what p.log_prob(x) and q.log_prob(x) say; of KL itself kl(p, q)",
        )
    )
