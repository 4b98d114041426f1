"""Divergences Σ p f(q/p) with a bounded f: Jensen–Shannon, skewed KL, total variation; `pairs` calls `f_divergence`.

With r = log p − log q and h = p f(q/p),

    Σ h = Σ p·g(r) + Σ q·g(r),    g = h/(p + q):

an expectation under p and one under q of the same bounded function, each in its own coordinate, so that neither has
to resolve the tail of the other.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from kullback.densities.registry import Reading
from kullback.divergences.expectations import over_components
from kullback.divergences.some_elements import disjoint, snapped, where_not
from kullback.integrate.problem import Integrand, Sample
from kullback.kernels.f_rows.exponential import expm1
from kullback.kernels.f_rows.generator import Generator, Larger
from kullback.kernels.f_rows.mixtures import js_generator, scaled_js_generator, skew_kl_generator

# e to the minus this is 0.
_LARGEST_RATIO = 800.0


class FDivergence(NamedTuple):
    """A divergence Σ p f(q/p).

    Attributes:
        term: g, the share of a unit of mass as a function of r.
        most: The value where p and q have nothing in common.
        crosses: Whether g has a kink at r = 0.
    """

    term: Callable[[Tensor], Tensor]
    most: float
    crosses: bool = False


def js() -> FDivergence:
    """½ KL(p ‖ m) + ½ KL(q ‖ m), m = (p + q)/2."""
    return FDivergence(_term(js_generator()), math.log(2.0))


def skew_kl(alpha: float) -> FDivergence:
    """KL(p ‖ αp + (1−α)q) for α > 0."""
    return FDivergence(_term(skew_kl_generator(alpha)), -math.log(alpha))


def scaled_js(beta: float) -> FDivergence:
    """[β KL(p ‖ m) + (1−β) KL(q ‖ m)]/(β(1−β)), m = βp + (1−β)q, for 0 < β < 1."""
    generator = scaled_js_generator(beta)
    return FDivergence(_term(generator), generator.only_p + generator.only_q)


def total_variation() -> FDivergence:
    """½ Σ |p − q|."""
    return FDivergence(_half_distance, 1.0, crosses=True)


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
        return torch.exp(sample.log_weight) * self._term(self._sign * sample.log_ratio)

    def slope(self, sample: Sample, close: Tensor) -> Tensor:
        """The term is at most of first order, and flat at large ratios."""
        del close
        size = sample.log_ratio.abs()
        return torch.where(size < _LARGEST_RATIO, size.clamp_max(1.0), 0.0)


def _term(generator: Generator) -> Callable[[Tensor], Tensor]:
    """The g of a generator f with f(1) = f'(1) = 0: not negative and of second order in r."""

    def term(r: Tensor) -> Tensor:
        r = r.clamp(-_LARGEST_RATIO, _LARGEST_RATIO)
        p_larger = r >= 0
        x = torch.where(p_larger, -r, r)
        # As a quotient: the derivative of a sigmoid near 1 is lost in 1 − σ.
        m, log_m = 1 / (1 + torch.exp(x)), -torch.log1p(torch.exp(x))
        if generator.from_q is None:
            return generator.from_p(Larger(m, log_m, x))
        from_p = generator.from_p(Larger(m, log_m, torch.where(p_larger, x, 0.0)))
        from_q = generator.from_q(Larger(m, log_m, torch.where(p_larger, 0.0, x)))
        return torch.where(p_larger, from_p, from_q)

    return term


def _half_distance(r: Tensor) -> Tensor:
    """½|p − q|/(p + q), which has a kink at r = 0."""
    x = torch.where(r >= 0, -r, r).clamp_min(-_LARGEST_RATIO)
    return -0.5 * expm1(x) / (1 + torch.exp(x))
