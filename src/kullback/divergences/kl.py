"""KL(p ‖ q) of univariate distributions by the engine; `pairs` calls `integral`."""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.distributions import Distribution

from kullback._core.shapes import joint_shape
from kullback.densities.density import Density
from kullback.densities.mixture import inside_log_prob
from kullback.densities.point import Point
from kullback.densities.reading import read
from kullback.densities.registry import Reading
from kullback.densities.tails import diverges
from kullback.divergences.mixtures import over_components
from kullback.divergences.normalised import check_normalised
from kullback.integrate.problem import Sample
from kullback.kernels.levels import is_traced
from kullback.special import expm1mx

# A value beyond this is infinite for every purpose, and one beyond the other has no error estimate.
_INFINITE, _UNSURE = 1e250, 1e150
_ENDLESS = 1e30
# The logarithm of a mass that is less than any rounding.
_NO_MASS = -45.0


class LogRatio:
    """p·(log p − log q), or p·φ(log q − log p) with φ(r) = eʳ − 1 − r, nowhere negative.

    The second needs all of q's mass inside p's support and keeps its digits where p and q are close. Its derivatives
    need more: that q's mass stays there. Where the ends of a support are parameters, the first is differentiated.
    """

    def __init__(self, *, moving_ends: bool) -> None:
        self._moving_ends = moving_ends

    def value(self, sample: Sample, close: Tensor) -> Tensor:
        """The integrand."""
        weight, r = torch.exp(sample.log_weight), sample.log_ratio
        first_order = torch.where(weight > 0, -weight * r, 0.0)
        return torch.where(close, weight * expm1mx(torch.where(close, r, 0.0)), first_order)

    def differentiated(self, sample: Sample) -> Tensor | None:
        """The integrand that derivatives are taken of, if another."""
        return -torch.exp(sample.log_weight) * sample.log_ratio if self._moving_ends else None

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
    if first is None or second is None or is_traced():
        return False
    with torch.no_grad():
        return bool(_supports(first, second)[0].all())


def infinite_by_support(p: Reading, q: Reading) -> Tensor:
    """Which elements have an infinite KL(p ‖ q) by supports and tails."""
    with torch.no_grad():
        return _supports(p, q)[0]


def integral(p: Distribution, q: Distribution) -> tuple[Tensor, Tensor]:
    """KL(p ‖ q) and an estimate of its error in working precision, for the broadcast batch shape."""
    shape = joint_shape(p.batch_shape, q.batch_shape)
    first, second = read(p, shape), read(q, shape)
    assert first is not None
    assert second is not None
    for side in (first, second):
        check_normalised(side)
    value, error = kl_of_readings(with_finite_gradients(first), with_finite_gradients(second))
    return value.reshape(shape), error.reshape(shape)


def with_finite_gradients(reading: Reading) -> Reading:
    """The reading whose parameters receive 0 where a derivative is no number, as far outside of what is promised."""
    if is_traced() or not any(t.requires_grad for t in reading.parameters):
        return reading
    return reading.mapped(_finite_gradient)


def _finite_gradient(parameter: Tensor) -> Tensor:
    if not parameter.requires_grad:
        return parameter
    own = parameter.view_as(parameter)  # a hook on the parameter itself would stay with its owner
    own.register_hook(lambda g: torch.where(g.isfinite(), g, 0.0))  # type: ignore[no-untyped-call]
    return own


def kl_of_readings(p: Reading, q: Reading) -> tuple[Tensor, Tensor]:
    """The same for parameters, one number for each element."""
    with torch.no_grad():
        infinite, same, moving_ends = _supports(p, q)
    integrand = LogRatio(moving_ends=moving_ends)
    if is_traced():
        p, q = (side.mapped(lambda t: torch.where(infinite, t.detach(), t)) for side in (p, q))
        value, error = _finite(p, q, integrand, same)
        return torch.where(infinite, math.inf, value), torch.where(infinite, 0.0, error)
    rows = torch.nonzero(~infinite).squeeze(-1)
    if len(rows) == len(infinite):
        return _finite(p, q, integrand, same)
    # Infinite elements belong to the graph, too: their gradient is 0.
    value = p.parameters[0]
    for parameter in (*p.parameters, *q.parameters):
        value = torch.where(infinite, value, parameter)
    value = torch.where(torch.ones_like(infinite), math.inf, value)
    error = torch.zeros_like(value.detach())
    if len(rows):
        found = _finite(p.mapped(lambda t: t[rows]), q.mapped(lambda t: t[rows]), integrand, same[rows])
        value, error = value.index_put((rows,), found[0]), error.index_put((rows,), found[1])
    return value, error


def _finite(p: Reading, q: Reading, integrand: LogRatio, same: Tensor) -> tuple[Tensor, Tensor]:
    found = over_components(p, q, integrand, may_be_close=same)
    value, error = found.value, found.error
    # Where nobody sees how the integrand ends, and what is seen grows beyond all numbers of use, it diverges.
    endless = error.isinf() & (value.detach() > _ENDLESS)
    value = torch.where((value > _INFINITE) | endless, math.inf, value.clamp_min(0.0))
    return value, torch.where(value < _UNSURE, error, math.inf)


def _supports(p: Reading, q: Reading) -> tuple[Tensor, Tensor, bool]:
    """Where KL is infinite by supports and tails, where the supports agree, and whether their ends are parameters."""
    first, second = p.mapped(torch.Tensor.detach).density(), q.mapped(torch.Tensor.detach).density()
    like = p.parameters[0].detach().unsqueeze(-1)
    (low_p, high_p), (low_q, high_q) = (_ends(side, like) for side in (first, second))
    infinite = (low_p < low_q) | (high_p > high_q) | (first.lattice != second.lattice)
    low, high = low_p == low_q, high_p == high_q
    if first.tails is not None and second.tails is not None and not first.lattice:
        infinite = infinite | (low & diverges(first.tails[0], second.tails[0], like))
        infinite = infinite | (high & diverges(first.tails[1], second.tails[1], like))
    same = low & high
    if not first.lattice and not second.lattice and (is_traced() or not bool(same.all())):
        low, high = low | _ends_in_no_mass(low_p, second, like), high | _ends_in_no_mass(high_p, second, like)
        same = low & high
    if first.kinks:  # a mixture of supports that differ may have gaps
        same = torch.zeros_like(same)
    moving = any(isinstance(end, Tensor) for side in (first, second) for end in (side.low, side.high))
    return infinite.squeeze(-1), same.squeeze(-1), moving and not first.lattice


def _ends_in_no_mass(end: Tensor, q: Density, like: Tensor) -> Tensor:
    """Whether q has next to nothing beyond an end of p's support: its density there times the distance to its mass."""
    finite = end.isfinite()
    zero = torch.zeros_like(like)
    at_end = Point(torch.where(finite, end, 0.0), zero, zero, torch.full_like(zero, -math.inf))
    log_mass = torch.stack([at_end.log_distance(mark.value()[..., 1:2]) for mark in q.marks]).amax(0)
    return finite & (inside_log_prob(q, at_end) + log_mass < _NO_MASS)


def _ends(density: Density, like: Tensor) -> tuple[Tensor, Tensor]:
    low, high = (torch.as_tensor(end, dtype=like.dtype, device=like.device) for end in (density.low, density.high))
    return low.expand_as(like), high.expand_as(like)
