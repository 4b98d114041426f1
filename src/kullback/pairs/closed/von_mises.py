"""KL(VonMises ‖ q).

With F = log I₀, A = F' = I₁/I₀ and concentrations x of p, y of q the divergence is

    [F(y) − F(x) − (y − x)·A(x)] + 2y·A(x)·sin²(Δμ/2),

a Bregman divergence and the part of the locations, both non-negative.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.distributions import VonMises

from kullback._core.gauss_legendre import gauss_legendre
from kullback._core.special._debye import hankel, is_far_above
from kullback._core.special._derivatives import attach, split_point
from kullback._core.special._double_double import two_difference
from kullback.kernels.special import bessel_ratio_curvature, bessel_ratio_slope
from kullback.pairs.parameters import read
from kullback.pairs.ratios import log_ratio
from kullback.pairs.registry import register
from kullback.special import bessel_ratio, expm1mx, log_iv, log_ive

# Within this ratio of concentrations the remainder integral is exact to rounding with 16 nodes.
_NEAR = 4.0
# Up to here log I₀ itself, beyond it e^(−x)·I₀ keeps the digits.
_SCALED_FROM = 10.0
_HUGE = 1e100
_RULE = gauss_legendre(16)


@register(VonMises, VonMises, source="Bregman divergence of log I₀ + 2κ_q·(I₁/I₀)(κ_p)·sin²(Δμ/2)")
def kl_von_mises_von_mises(p: VonMises, q: VonMises) -> Tensor:
    """Locations count modulo 2π: their difference is taken with its rounding error, the sine does the rest."""
    loc_p, x = read(p, "loc", "concentration")
    loc_q, y = read(q, "loc", "concentration")
    _, lost = two_difference(loc_p.detach(), loc_q.detach())
    half = (loc_p - loc_q) / 2
    sine = torch.sin(half) + torch.cos(half) * (lost / 2)
    return log_i0_bregman(x, y) + 2 * y * bessel_ratio(0.0, x) * sine * sine


def log_i0_bregman(x: Tensor, y: Tensor) -> Tensor:
    """F(y) − F(x) − (y − x)·A(x), never negative, without cancellation.

    Where squares of both would overflow, F(x) = x − ½log(2πx) to the last digit and ½φ(log y/x) is left of it.
    """
    x, y = torch.broadcast_tensors(x, y)  # type: ignore[no-untyped-call]
    huge = torch.minimum(x, y) > _HUGE
    limit = expm1mx(log_ratio(torch.where(huge, y, 1.0), torch.where(huge, x, 1.0))) / 2
    return torch.where(huge, limit, _bregman(*(torch.where(huge, 1.0, t) for t in (x, y))))


def _bregman(x: Tensor, y: Tensor) -> Tensor:
    (x0, x_step), (y0, y_step) = split_point(x), split_point(y)
    gap = y0 - x0
    ratio_x, ratio_y = bessel_ratio(0.0, x0), bessel_ratio(0.0, y0)
    slope_x, slope_y = bessel_ratio_slope(0.0, x0), bessel_ratio_slope(0.0, y0)
    near = (y0 <= _NEAR * x0) & (x0 <= _NEAR * y0)
    near_gap = torch.where(near, gap, 0.0)
    nodes = torch.tensor(_RULE.nodes, dtype=x0.dtype, device=x0.device)
    weights = torch.tensor(_RULE.weights, dtype=x0.dtype, device=x0.device)
    between = x0.unsqueeze(-1) + near_gap.unsqueeze(-1) * nodes
    slopes = bessel_ratio_slope(0.0, between) * weights
    remainder = near_gap * near_gap * (slopes * (1 - nodes)).sum(-1)
    # Far apart the terms stand as they are; at large concentration with e^(−x)·I₀ and 1 − A, the leading parts gone.
    short_x, short_y = _complement(x0, ratio_x), _complement(y0, ratio_y)
    plain = log_iv(0.0, y0) - log_iv(0.0, x0) - gap * ratio_x
    scaled = log_ive(0.0, y0) - log_ive(0.0, x0) + gap * short_x
    large = torch.maximum(x0, y0) >= _SCALED_FROM
    rise = torch.where(large, short_x - short_y, ratio_y - ratio_x)
    value = torch.where(near, remainder, torch.where(large, scaled, plain))
    first = [-gap * slope_x, torch.where(near, near_gap * slopes.sum(-1), rise)]
    second = [slope_x - gap * bessel_ratio_curvature(0.0, x0), -slope_x, slope_y]
    return attach(value, [x_step, y_step], first, second)


def _complement(x: Tensor, ratio: Tensor) -> Tensor:
    """1 − A(x), by Hankel's series where A is close to 1."""
    zero = torch.zeros_like(x)
    far = is_far_above(zero, x)
    return torch.where(far, (0.5 - hankel(zero, torch.where(far, x, 100.0))[1]) / x, 1 - ratio)
