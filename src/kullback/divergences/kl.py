"""KL(p ‖ q) of univariate distributions by the engine; `pairs` calls `integral`."""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.distributions import Distribution

from kullback._core.exponential import expm1mx
from kullback._core.shapes import joint_shape
from kullback.densities.density import Density
from kullback.densities.mixture import inside_log_prob
from kullback.densities.point import at, same_end
from kullback.densities.reading import read
from kullback.densities.registry import Reading
from kullback.densities.tails import diverges
from kullback.divergences.expectations import check_normalised, over_components
from kullback.divergences.some_elements import at_some, constant, ends, equal_parameters, where_not
from kullback.integrate.problem import Integrand, Sample
from kullback.kernels.levels import is_traced

# The square of less underflows in float64.
_TINY = 1e-150
# A value beyond this is infinite for every purpose, and one beyond the other has no error estimate.
_INFINITE, _UNSURE = 1e250, 1e150
_ENDLESS = 1e30
# The logarithm of a mass that is less than any rounding.
_NO_MASS = -45.0


class LogRatio(Integrand):
    """p·(log p − log q), or p·φ(log q − log p) with φ(r) = eʳ − 1 − r, nowhere negative.

    The second needs all of q's mass inside p's support and keeps its digits where p and q are close. Its derivatives
    need more: that q's mass stays there. Where the ends of a support are parameters, the first is differentiated.
    """

    grows_as_log_q = True

    def value(self, sample: Sample, close: Tensor) -> Tensor:
        """The integrand."""
        weight, r = torch.exp(sample.log_weight), sample.log_ratio
        first_order = torch.where(weight > 0, -weight * r, 0.0)
        if not is_traced() and not bool(close.any()):
            return first_order
        return torch.where(close, weight * expm1mx(torch.where(close, r, 0.0)), first_order)

    def differentiated(self, sample: Sample, *, moving_ends: bool) -> Tensor | None:
        """The integrand that derivatives are taken of, if another."""
        return -torch.exp(sample.log_weight) * sample.log_ratio if moving_ends else None

    def log_size(self, sample: Sample) -> Tensor:
        """Log of p·(1 + |r|)."""
        return sample.log_weight + torch.log1p(sample.log_ratio.abs())

    def slope(self, sample: Sample, close: Tensor) -> Tensor:
        """1, or |r| where the integrand is of second order."""
        return torch.where(close, sample.log_ratio.abs(), 1.0)


def is_lattice(distribution: Distribution) -> bool | None:
    """Whether a distribution is one of counts; None if it has neither a density nor a mass function on the integers."""
    found = None if distribution.event_shape else read(distribution, distribution.batch_shape)
    return None if found is None else found.lattice


def is_infinite_everywhere(p: Distribution, q: Distribution) -> bool:
    """Whether supports and tails make KL(p ‖ q) infinite for every element; False where values cannot be looked at."""
    shape = joint_shape(p.batch_shape, q.batch_shape)
    first, second = read(p, shape), read(q, shape)
    return (
        first is not None and second is not None and not is_traced() and bool(infinite_by_support(first, second).all())
    )


def integral(p: Distribution, q: Distribution) -> tuple[Tensor, Tensor]:
    """KL(p ‖ q) and an estimate of its error in working precision, for the broadcast batch shape."""
    shape = joint_shape(p.batch_shape, q.batch_shape)
    first, second = read(p, shape), read(q, shape)
    assert first is not None
    assert second is not None
    for side in (first, second):
        check_normalised(side)
    first, second = _constant_where_tiny(first, second)
    densities = _fixed(first, second)
    without_density, limit = _at_infinity(first, second)
    if first.lattice:  # counts so large that sums over them overflow
        without_density = without_density | (densities[0].marks[0].value()[..., 1] > _INFINITE)
    extreme, has_all_mass = without_density | _infinite(*densities), _has_all_mass(*densities)
    limit = torch.where(without_density, limit, math.inf)
    value, error = where_not(extreme, limit, first, second, _finite, has_all_mass)
    return value.reshape(shape), error.reshape(shape)


def _constant_where_tiny(p: Reading, q: Reading) -> tuple[Reading, Reading]:
    """Elements with a parameter whose square is 0 in float64 have no derivatives, because those would be 0·∞."""
    sizes = [t.detach().abs() for side in (p, q) for t in side.parameters if not side.lattice]
    tiny = sum(((size > 0) & (size < _TINY) for size in sizes), torch.zeros_like(p.parameters[0], dtype=torch.bool))
    if not is_traced() and not bool(tiny.any()):
        return p, q
    return p.mapped(lambda t: torch.where(tiny, t.detach(), t)), q.mapped(lambda t: torch.where(tiny, t.detach(), t))


@torch.no_grad()
def _at_infinity(p: Reading, q: Reading) -> tuple[Tensor, Tensor]:
    """Which elements have an infinite parameter, so that no density is left, and the limit there.

    The limit is 0 for equal parameters and infinity otherwise. Logarithms of probabilities and of weights may be −∞.
    """
    infinite = torch.zeros_like(p.parameters[0], dtype=torch.bool)
    for side in (p, q):
        for parameter in () if side.searched else side.parameters:
            size = parameter if side.lattice or side.components else parameter.abs()
            infinite = infinite | (size == math.inf)
    return infinite, torch.where(equal_parameters(p, q), 0.0, math.inf)


def _finite(p: Reading, q: Reading, has_all_mass: Tensor) -> tuple[Tensor, Tensor]:
    found = over_components(p, q, LogRatio(), may_be_close=has_all_mass)
    value, error = found.value, found.error
    # Where nobody sees how the integrand ends, and what is seen grows beyond all numbers of use, it diverges.
    endless = error.isinf() & (value.detach() > _ENDLESS)
    value = torch.where((value > _INFINITE) | endless, math.inf, value)
    value = torch.where(value < 0, 0.0, value)  # not clamp_min, whose slope at 0 is 0
    sure = value.detach() < _UNSURE
    error = torch.where(sure, error, math.inf)
    if value.requires_grad and not is_traced() and not bool(sure.all()):
        # Derivatives of the others may overflow, and 0·∞ is NaN: they are left out of the graph.
        return at_some(sure, (constant(0.0, p, q)[0] + value.detach(), error), p, q, _finite, has_all_mass)
    return value, error


def _fixed(p: Reading, q: Reading) -> tuple[Density, Density, Tensor]:
    """Both densities with constant parameters, and a tensor of their dtype and shape."""
    first, second = (side.mapped(torch.Tensor.detach).density() for side in (p, q))
    return first, second, p.parameters[0].detach().unsqueeze(-1)


def infinite_by_support(p: Reading, q: Reading) -> Tensor:
    """Which elements have an infinite KL(p ‖ q) by supports and tails."""
    return _infinite(*_fixed(p, q))


@torch.no_grad()
def _infinite(first: Density, second: Density, like: Tensor) -> Tensor:
    (low_p, high_p), (low_q, high_q) = ends(first, like), ends(second, like)
    infinite = (low_p < low_q) | (high_p > high_q) | (first.lattice != second.lattice)
    if first.tails is not None and second.tails is not None and not first.lattice:
        infinite = infinite | ((low_p == low_q) & diverges(first.tails[0], second.tails[0], like))
        infinite = infinite | ((high_p == high_q) & diverges(first.tails[1], second.tails[1], like))
    return infinite.squeeze(-1)


@torch.no_grad()
def _has_all_mass(p: Density, q: Density, like: Tensor) -> Tensor:
    """Where p's support holds all of q's mass, up to less than a rounding."""
    found = torch.full_like(like, not p.kinks, dtype=torch.bool)  # a mixture of supports that differ may have gaps
    for own, other, end_p, end_q in zip((p.low, p.high), (q.low, q.high), ends(p, like), ends(q, like), strict=True):
        if same_end(own, other):
            continue
        same = end_p == end_q
        if not p.lattice and (is_traced() or not bool(same.all())):
            same = same | _ends_in_no_mass(end_p, q)
        found = found & same
    return found.squeeze(-1)


def _ends_in_no_mass(end: Tensor, q: Density) -> Tensor:
    """Whether q has next to nothing beyond an end of p's support: its density there times the distance to its mass."""
    finite = end.isfinite()
    at_end = at(torch.where(finite, end, 0.0))
    log_mass = torch.stack([at_end.log_distance(mark.value()[..., 1:2]) for mark in q.marks]).amax(0)
    return finite & (inside_log_prob(q, at_end) + log_mass < _NO_MASS)
