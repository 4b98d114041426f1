"""The Bregman divergence of log Γ: the KL divergence of Gamma, Beta, Dirichlet and Wishart in their shapes.

    B(a, b) = lgamma(b) - lgamma(a) - (b-a)·ψ(a) = Σ_k h((b+k)/(a+k)),    h(r) = r - 1 - log r ≥ 0
    B(a, b) = [b·log(b/a) - b + a] + ½·h(b/a) + D_R(a, b)                  for a, b ≥ 12

The first line raises small arguments, the second is Stirling's main part and Binet's remainder; every term of both is
non-negative, so nothing cancels for a ≈ b, at any scale or ratio.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from kullback._core.special._derivatives import attach, split_point
from kullback._core.special._double_double import two_difference
from kullback._core.special._precision import widen
from kullback._core.special.binet_bregman import tail_bregman
from kullback._core.special.entropy import kl_div_value, log_bregman, log_ratio_pair
from kullback._core.special.polygamma import RAISE_TO, polygamma_positive


def _value_and_slope(a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
    """B and its derivative ψ(b) - ψ(a) for positive finite a, b."""
    gap, gap_low = two_difference(b, a)
    is_large = (a >= RAISE_TO) & (b >= RAISE_TO)
    raised_a, raised_b = torch.where(is_large, a, a + RAISE_TO), torch.where(is_large, b, b + RAISE_TO)
    tail, tail_slope = tail_bregman(raised_a, raised_b, gap)
    high, low = log_ratio_pair(raised_b, raised_a, gap, gap_low)
    value = kl_div_value(raised_b, raised_a, -gap, -gap_low)
    slope = (high + low) + (0.5 * (gap / raised_a) / raised_b + tail_slope)

    # h of the twelve steps and of the raised arguments, along a new dimension.
    count = torch.arange(RAISE_TO, dtype=a.dtype, device=a.device)
    a_k = torch.cat([a.unsqueeze(-1) + count, raised_a.unsqueeze(-1)], -1)
    b_k = torch.cat([b.unsqueeze(-1) + count, raised_b.unsqueeze(-1)], -1)
    gap_k, gap_low_k = (x.unsqueeze(-1).expand_as(a_k) for x in (gap, gap_low))
    h = log_bregman(a_k, b_k, gap_k, gap_low_k)
    value = value + (0.5 * h[..., RAISE_TO] + tail)
    slope_steps = (gap_k / a_k / b_k)[..., :RAISE_TO].sum(-1)
    return (
        value + torch.where(is_large, 0.0, h[..., :RAISE_TO].sum(-1)),
        slope + torch.where(is_large, 0.0, slope_steps),
    )


def lgamma_bregman(a: Tensor, b: Tensor) -> Tensor:
    """lgamma(b) - lgamma(a) - (b-a)·digamma(a) ≥ 0 for a, b > 0."""
    dtype, (a_wide, b_wide) = widen(a, b)
    (a0, a_step), (b0, b_step) = split_point(a_wide), split_point(b_wide)
    inside = (a0 > 0) & (b0 > 0) & torch.isfinite(a0) & torch.isfinite(b0)
    a_in, b_in = torch.where(inside, a0, 1.0), torch.where(inside, b0, 1.0)
    value, b_slope = _value_and_slope(a_in, b_in)
    # One end of the domain against its inside is infinitely far; both arguments at one end have no limit.
    infinite = (a0 >= 0) & (b0 >= 0) & (a0 != b0)
    value = torch.where(inside, value, torch.where(infinite, math.inf, math.nan).to(value.dtype))
    gap = b_in - a_in
    (trigamma_a, tetragamma_a), (trigamma_b,) = polygamma_positive([1, 2], a_in), polygamma_positive([1], b_in)
    # ψ'(a) is 1/a² there, which overflows where its product with the gap does not.
    first = [-torch.where(a_in < 1e-100, gap / a_in / a_in, gap * trigamma_a), b_slope]
    second = [trigamma_a - gap * tetragamma_a, -trigamma_a, trigamma_b]
    outside = torch.where(infinite, 0.0, math.nan).to(value.dtype)
    first, second = ([torch.where(inside, s, outside) for s in slopes] for slopes in (first, second))
    return attach(value, [a_step, b_step], first, second).to(dtype)


def multivariate_lgamma_bregman(a: Tensor, b: Tensor, dimension: int) -> Tensor:
    """The Bregman divergence of log Γ_d: Σ_{j<d} B(a - j/2, b - j/2), for a, b > (d-1)/2."""
    dtype, (a_wide, b_wide) = widen(a, b)
    halves = 0.5 * torch.arange(dimension, dtype=a_wide.dtype, device=a_wide.device)
    return lgamma_bregman(a_wide.unsqueeze(-1) - halves, b_wide.unsqueeze(-1) - halves).sum(-1).to(dtype)
