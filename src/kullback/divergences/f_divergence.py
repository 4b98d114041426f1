"""Divergences Σ p f(q/p) with a bounded f: Jensen–Shannon, skewed KL, total variation; `pairs` calls `f_divergence`.

With r = log p − log q and h = p f(q/p),

    Σ h = Σ p·g(r) + Σ q·g(r),    g = h/(p + q):

an expectation under p and one under q of the same bounded function, each in its own coordinate, so that neither has
to resolve the tail of the other. A new divergence is a `FDivergence` beside `js`: its g and its largest value.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from kullback._core.special.exp_log import log1pmx
from kullback.densities.registry import Reading
from kullback.divergences.expectations import over_components
from kullback.divergences.some_elements import disjoint, snapped, where_not
from kullback.integrate.problem import Integrand, Sample

# e to the minus this is 0.
_LARGEST_RATIO = 800.0


class FDivergence(NamedTuple):
    """A divergence Σ p f(q/p).

    Attributes:
        term: g, not negative, as a function of r = log p − log q.
        most: The value where p and q have nothing in common.
        crosses: Whether g has a kink at r = 0.
    """

    term: Callable[[Tensor], Tensor]
    most: float
    crosses: bool = False


def js() -> FDivergence:
    """½ KL(p ‖ m) + ½ KL(q ‖ m), m = (p + q)/2."""
    return FDivergence(_js, math.log(2.0))


def skew_kl(alpha: float) -> FDivergence:
    """KL(p ‖ αp + (1−α)q) for α > 0."""
    return FDivergence(functools.partial(_skewed, alpha=alpha), -math.log(alpha))


def scaled_js(beta: float) -> FDivergence:
    """[β KL(p ‖ m) + (1−β) KL(q ‖ m)]/(β(1−β)), m = βp + (1−β)q, for 0 < β < 1."""
    rest = 1 - beta
    return FDivergence(
        lambda r: _skewed(r, beta) / rest + _skewed(-r, rest) / beta, -math.log(beta) / rest - math.log1p(-beta) / beta
    )


def total_variation() -> FDivergence:
    """½ Σ |p − q|."""
    return FDivergence(lambda r: torch.tanh(r.abs() / 2) / 2, 1.0, crosses=True)


def f_divergence(p: Reading, q: Reading, divergence: FDivergence) -> tuple[Tensor, Tensor]:
    """The divergence and an estimate of its error, one for each element."""

    def formula(p: Reading, q: Reading) -> tuple[Tensor, Tensor]:
        over_p = over_components(p, q, _Weighted(divergence.term, -1.0), crosses=divergence.crosses, ends=True)
        over_q = over_components(q, p, _Weighted(divergence.term, 1.0), crosses=divergence.crosses, ends=True)
        value, error = over_p.value + over_q.value, over_p.error + over_q.error
        return torch.where(value > divergence.most, divergence.most, value), error

    value, error = where_not(disjoint(p, q), divergence.most, p, q, formula)
    return snapped(p, q, value), error


class _Weighted(Integrand):
    """A density times a term; `sign` makes log p − log q of the log-ratio that this density sees."""

    def __init__(self, term: Callable[[Tensor], Tensor], sign: float) -> None:
        self._term, self._sign = term, sign

    def value(self, sample: Sample, close: Tensor) -> Tensor:
        """The integrand."""
        del close
        r = (self._sign * sample.log_ratio).clamp(-_LARGEST_RATIO, _LARGEST_RATIO)
        return torch.exp(sample.log_weight) * self._term(r)

    def slope(self, sample: Sample, close: Tensor) -> Tensor:
        """The term is at most of first order, and flat at large ratios."""
        del close
        size = sample.log_ratio.abs()
        return torch.where(size < _LARGEST_RATIO, size.clamp_max(1.0), 0.0)


def _js(r: Tensor) -> Tensor:
    """[u·r + log(1 − u²)]/4, u = tanh(r/2), whose terms are of second order; for large |r| by e^(−|r|)."""
    near = r.abs() < 1
    small = torch.where(near, r, 0.0)
    u = torch.tanh(small / 2)
    size = torch.where(r > 0, r, -r)
    below = torch.exp(-size)
    far = math.log(2.0) - torch.log1p(below) - size * below / (1 + below)
    return torch.where(near, (u * small + torch.log1p(-u * u)) / 4, far / 2)


def _skewed(r: Tensor, alpha: float) -> Tensor:
    """(p·log(p/m) − p + m)/(p + q), m = αp + (1−α)q, by w = m/p − 1 where that is of the size of 1."""
    beta = 1 - alpha
    p_larger = r >= 0
    size = torch.where(p_larger, r, -r)
    below = torch.exp(-size)
    w = beta * torch.expm1(-r.clamp_min(-2.0 + math.log(beta) if beta > 0 else -1.0))
    near = (w > -0.5) & (w < 1)
    share = torch.where(p_larger, 1.0, below) / (1 + below)
    log_m_over_p = torch.where(p_larger, torch.log(alpha + beta * below), size + torch.log(beta + alpha * below))
    far = -beta * torch.tanh(r / 2) - share * log_m_over_p
    return torch.where(near, -share * log1pmx(torch.where(near, w, 0.0)), far)
