"""Bregman divergences of log Γ at a point and at a larger one: their difference, without cancellation.

With B(a, b) = lgamma(b) − lgamma(a) − (b − a)·ψ(a), the divergence of Beta, Dirichlet and LKJ laws contains

    B(a, b) − B(a₀, b₀),    a₀ = a + s,  b₀ = b + t,

and each of the two nearly cancels the other where s ≪ a (one concentration outweighs all others). Both are sums over
k of h((b+k)/(a+k)), h(r) = r − 1 − log r; the first twelve terms are differenced one by one and Stirling's formula is
differenced for the rest. Everything follows from N = b·a₀ − b₀·a, which the caller knows exactly:

    with u = (b−a)/a, v = (b₀−a₀)/a₀, z = N/(a·b₀):    u − v = N/(a·a₀),    h(1+u) − h(1+v) = −log1pmx(z) + z·v.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from kullback._core.special.polygamma import BINET_SERIES, RAISE_TO
from kullback.pairs.ratios import log_ratio
from kullback.special import binet, digamma, log1pmx, trigamma


class Corners(NamedTuple):
    """The four arguments and the exact differences between them.

    Attributes:
        a: The smaller point, under p.
        b: The smaller point, under q.
        a0: a + s.
        b0: b + t.
        gap: b − a.
        gap0: b₀ − a₀.
        s: a₀ − a.
        t: b₀ − b.
        gap_s: t − s.
        n: b·a₀ − b₀·a.
    """

    a: Tensor
    b: Tensor
    a0: Tensor
    b0: Tensor
    gap: Tensor
    gap0: Tensor
    s: Tensor
    t: Tensor
    gap_s: Tensor
    n: Tensor

    def raised(self, k: Tensor | int) -> Corners:
        """All four arguments moved up by k; N moves by −k·(t − s)."""
        points = (self.a + k, self.b + k, self.a0 + k, self.b0 + k)
        return Corners(*points, self.gap, self.gap0, self.s, self.t, self.gap_s, self.n - k * self.gap_s)

    def steps(self) -> Corners:
        """The corners moved up by 0, 1, …, 11, along a new last dimension."""
        count = torch.arange(RAISE_TO, dtype=self.a.dtype, device=self.a.device)
        return Corners(*(field.unsqueeze(-1) for field in self)).raised(count)

    def is_large(self) -> Tensor:
        """Where Stirling's formula with its asymptotic series holds without raising."""
        return (self.a >= RAISE_TO) & (self.b >= RAISE_TO)


def _log_ratio(c: Corners) -> Tensor:
    """log(b·a₀ / (b₀·a)) = log1p(z)."""
    z = c.n / (c.a * c.b0)
    near = z.abs() < 0.5
    return torch.where(near, torch.log1p(torch.where(near, z, 0.0)), log_ratio(c.b, c.b0) - log_ratio(c.a, c.a0))


def _log_ratio_remainder(c: Corners) -> Tensor:
    """log1p(z) − z."""
    z = c.n / (c.a * c.b0)
    return torch.where(z.abs() < 0.5, log1pmx(z), _log_ratio(c) - z)


def h_difference(c: Corners) -> Tensor:
    """h(b/a) − h(b₀/a₀)."""
    return c.n / (c.a * c.b0) * (c.gap0 / c.a0) - _log_ratio_remainder(c)


def _series_terms(a: Tensor, b: Tensor, gap: Tensor) -> tuple[Tensor, Tensor]:
    """Binet's remainder R for a, b ≥ 12 without its first term 1/(12x): Bregman divergence and R'(b) − R'(a).

    With x = 1/a, y = 1/b, every power gives polynomials with positive terms: y^m − x^m + m·gap·x^(m+1) =
    gap²x²y·Σ_{i<m} (m−i)·x^(m−1−i)·y^i and x^(m+1) − y^(m+1) = gap·x·y·Σ_{i≤m} x^(m−i)·y^i.
    """
    x, y = 1 / a, 1 / b
    power, homogeneous, weighted = torch.ones_like(x), torch.ones_like(x), torch.ones_like(x)
    divergence, slope = torch.zeros_like(x), torch.zeros_like(x)
    for m in range(1, 2 * len(BINET_SERIES)):
        power = power * y
        following = x * homogeneous + power
        if m % 2 and m > 1:
            divergence = divergence + BINET_SERIES[m // 2] * weighted
            slope = slope + (BINET_SERIES[m // 2] * m) * following
        homogeneous = following
        weighted = x * weighted + homogeneous
    return (gap * x) * ((gap * y) * x) * divergence, (gap * x) * y * slope


def _curvature_terms(x: Tensor) -> Tensor:
    """R''(x) for x ≥ 12 without its first term 1/(6x³)."""
    inverse = 1 / x
    square = inverse * inverse
    total = torch.zeros_like(x)
    for k in reversed(range(1, len(BINET_SERIES))):
        total = total * square + BINET_SERIES[k] * (2 * k + 1) * (2 * k + 2)
    return total * inverse**5


def stirling_difference(c: Corners) -> Tensor:
    """D(a, b) − D(a₀, b₀), D the divergence of −½·log x + R(x) (log Γ without x·log x − x); a, b ≥ 12."""
    u, v, gap = c.gap / c.a, c.gap0 / c.a0, c.n / (c.a * c.a0)
    # Of 1/(12x): u²/b − v²/b₀, by differences where the two are of one size, else these would cancel in their turn.
    alike = (c.t < 0.5 * c.b0) & (gap.abs() <= 0.5 * v.abs())
    first = torch.where(alike, (gap * (u + v) + v * v * (c.t / c.b0)) / c.b, u * (u / c.b) - v * (v / c.b0)) / 12
    rest = _series_terms(c.a, c.b, c.gap)[0] - _series_terms(c.a0, c.b0, c.gap0)[0]
    return 0.5 * h_difference(c) + (first + rest)


def main_difference(c: Corners) -> Tensor:
    """M(a, b) − M(a₀, b₀) for Stirling's main part M(a, b) = b·log(b/a) − b + a.

    Its first order cancels: N²/(a·a₀·b₀) − (t − s)·v + b·log1pmx(z) − t·log1pmx(v).
    """
    v = c.gap0 / c.a0
    near = v.abs() < 0.5
    v_remainder = torch.where(near, log1pmx(torch.where(near, v, 0.0)), log_ratio(c.b0, c.a0) - v)
    first = c.n / c.a * (c.n / (c.a0 * c.b0)) - c.gap_s * v
    return first + c.b * _log_ratio_remainder(c) - c.t * v_remainder


def bregman_difference(c: Corners) -> Tensor:
    """B(a, b) − B(a₀, b₀)."""
    is_large = c.is_large()
    high = c.raised(torch.where(is_large, 0.0, float(RAISE_TO)))
    steps = h_difference(c.steps()).sum(-1)
    return main_difference(high) + stirling_difference(high) + torch.where(is_large, 0.0, steps)


def slope_differences(c: Corners) -> tuple[Tensor, Tensor]:
    """The derivatives of B(a, b) − B(a₀, b₀) along both arguments of each: those under p, those under q.

    −[(b−a)·ψ'(a) − (b₀−a₀)·ψ'(a₀)] and [ψ(b) − ψ(a)] − [ψ(b₀) − ψ(a₀)]: as they stand where nothing cancels, namely for
    small points that are far apart and do not outweigh s and t.
    """
    is_far = (c.gap.abs() > 0.5 * c.a) | (c.gap0.abs() > 0.5 * c.a0)
    direct = is_far & ((c.s > c.a) | (c.t > c.b))
    direct_p = c.gap0 * trigamma(c.a0) - c.gap * trigamma(c.a)
    direct_q = (digamma(c.b) - digamma(c.a)) - (digamma(c.b0) - digamma(c.a0))
    slope_p = torch.where(direct & (c.a < RAISE_TO), direct_p, -_slope_p(c))
    return slope_p, torch.where(direct & ~c.is_large(), direct_q, _slope_q(c))


def _slope_p(c: Corners) -> Tensor:
    """(b−a)·ψ'(a) − (b₀−a₀)·ψ'(a₀)."""
    is_large = c.a >= RAISE_TO
    high = c.raised(torch.where(is_large, 0.0, float(RAISE_TO)))
    apart, v = high.n / (high.a * high.a0), high.gap0 / high.a0
    inverse_s = high.s / (high.a * high.a0)
    total = apart + 0.5 * _inverse_differences(high)[0]
    total = total + (apart / high.a**2 + v * inverse_s * (1 / high.a + 1 / high.a0)) / 6
    total = total + (high.gap * _curvature_terms(high.a) - high.gap0 * _curvature_terms(high.a0))
    steps = _inverse_differences(c.steps())[0].sum(-1)
    return total + torch.where(is_large, 0.0, steps)


def _slope_q(c: Corners) -> Tensor:
    """[ψ(b) − ψ(a)] − [ψ(b₀) − ψ(a₀)]."""
    is_large = c.is_large()
    high = c.raised(torch.where(is_large, 0.0, float(RAISE_TO)))
    half = _inverse_differences(high)[1]
    inverse_s, inverse_t = high.s / (high.a * high.a0), high.t / (high.b * high.b0)
    outer = high.gap0 / (high.a0 * high.b0)
    total = _log_ratio(high) + 0.5 * half
    total = total + (half * (1 / high.a + 1 / high.b) + outer * (inverse_s + inverse_t)) / 12
    total = total + (_series_terms(high.a, high.b, high.gap)[1] - _series_terms(high.a0, high.b0, high.gap0)[1])
    steps = _inverse_differences(c.steps())[1].sum(-1)
    return total + torch.where(is_large, 0.0, steps)


def _inverse_differences(c: Corners) -> tuple[Tensor, Tensor]:
    """(b−a)/a² − (b₀−a₀)/a₀² and (b−a)/(a·b) − (b₀−a₀)/(a₀·b₀)."""
    apart, v = c.n / (c.a * c.a0), c.gap0 / c.a0
    return apart / c.a + v * (c.s / (c.a * c.a0)), apart / c.b + v * (c.t / (c.b * c.b0))


def curvature(a: Tensor, b: Tensor, gap: Tensor, step_p: Tensor, step_q: Tensor) -> Tensor:
    """The second-order form of B(a, b) along two displacements: with τ = ψ', τ(a) − (b−a)·τ'(a), −τ(a) and τ(b)."""
    trigamma_a = trigamma(a)
    # ψ'' by Stirling's formula and Binet's remainder.
    second = -1 / a**2 - 1 / a**3 + binet(a, 3)
    curved_p = trigamma_a - gap * second
    return curved_p * step_p * step_p - 2 * trigamma_a * step_p * step_q + trigamma(b) * step_q * step_q
