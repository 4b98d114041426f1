"""Relative entropy terms p·log(p/q) and p·log(p/q) - p + q, accurate near p = q and at any ratio."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from kullback._core.special._derivatives import attach, split_point
from kullback._core.special._double_double import quotient, two_difference, two_product
from kullback._core.special._precision import widen
from kullback._core.special.exp_log import log1pmx_value


def _common_scale(p: Tensor, q: Tensor) -> Tensor:
    """A power of two that brings the larger argument to where products are exact."""
    larger = torch.maximum(p, q)
    tiny, huge = torch.full_like(p, 2.0**600), torch.full_like(p, 2.0**-600)
    return torch.where(larger < 2.0**-400, tiny, torch.where(larger > 2.0**400, huge, torch.ones_like(p)))


def _is_lost(p: Tensor, q: Tensor, scale: Tensor) -> Tensor:
    """Whether scaling pushed the smaller argument below the normal numbers, where it loses digits."""
    return (scale < 1) & (torch.minimum(p, q) * scale < torch.finfo(p.dtype).smallest_normal)


def log_ratio_pair(p: Tensor, q: Tensor, gap: Tensor, gap_low: Tensor) -> tuple[Tensor, Tensor]:
    """log(p/q) in two parts, for positive p, q whose difference gap + gap_low = p - q is known exactly."""
    w, w_low = quotient(gap, gap_low, q)
    near = torch.log1p(w), w_low / (1 + w)
    ratio, ratio_low = quotient(p, torch.zeros_like(p), q)
    far = torch.log(ratio), ratio_low / ratio
    is_near = (w > -0.5) & (w < 1)
    # A quotient that over- or underflows: both logarithms are large, their difference does not cancel.
    is_plain = (ratio > 2.0**-900) & (ratio < 2.0**900)
    low = torch.where(is_near, near[1], torch.where(is_plain, far[1], 0.0))
    return torch.where(is_near, near[0], torch.where(is_plain, far[0], torch.log(p) - torch.log(q))), low


def log_bregman(p: Tensor, q: Tensor, gap: Tensor, gap_low: Tensor) -> Tensor:
    """q/p - 1 - log(q/p) ≥ 0 for positive p, q whose difference gap + gap_low = q - p is known exactly."""
    w, w_low = quotient(gap, gap_low, p)
    near = -log1pmx_value(w) + w_low * (w / (1 + w))
    log_ratio, log_ratio_low = log_ratio_pair(p, q, -gap, -gap_low)
    far = (w + log_ratio) + (log_ratio_low + w_low)
    return torch.where((w > -0.6) & (w < 1.2), near, far)


def kl_div_value(p: Tensor, q: Tensor, gap: Tensor, gap_low: Tensor) -> Tensor:
    """p·log(p/q) - p + q for positive p, q whose difference gap + gap_low = q - p is known exactly."""
    w, w_low = quotient(gap, gap_low, p)
    near = p * (-log1pmx_value(w) + w_low * (w / (1 + w)))
    log_ratio, log_ratio_low = log_ratio_pair(p, q, -gap, -gap_low)
    part, part_low = two_product(p, log_ratio)
    part_low = torch.where(torch.isfinite(part_low), part_low, 0.0)
    far = (part + gap) + (part_low + gap_low + p * log_ratio_low)
    return torch.where((w > -0.6) & (w < 1.2), near, far)


class _Domain:
    """SciPy's conventions: the formula for p, q > 0, a limit at p = 0 ≤ q, infinity elsewhere, NaN for NaN."""

    def __init__(self, p: Tensor, q: Tensor) -> None:
        self.inside = (p > 0) & (q > 0)
        self.edge = (p == 0) & (q >= 0)
        self.missing = torch.isnan(p) | torch.isnan(q)
        self.p = torch.where(self.inside, p, 1.0)
        self.q = torch.where(self.inside, q, 1.0)

    def value(self, inside: Tensor, edge: Tensor) -> Tensor:
        outside = torch.where(self.missing, math.nan, math.inf).to(inside.dtype)
        return torch.where(self.inside, inside, torch.where(self.edge, edge, outside))

    def slope(self, inside: Tensor, edge: float = 0.0) -> Tensor:
        """A derivative: zero outside the domain, and a finite convention at p = 0 where the limit may be -inf."""
        outside = torch.where(self.missing, math.nan, torch.where(self.edge, edge, 0.0)).to(inside.dtype)
        return torch.where(self.inside, inside, outside)


def _log_ratio_anywhere(p: Tensor, q: Tensor) -> tuple[Tensor, Tensor]:
    """`log_ratio_pair` for every positive pair, subnormal, huge and infinite ones included."""
    scale = _common_scale(p, q)
    high, low = log_ratio_pair(p * scale, q * scale, *two_difference(p * scale, q * scale))
    lost = _is_lost(p, q, scale) | torch.isinf(p) | torch.isinf(q)
    return torch.where(lost, torch.log(p) - torch.log(q), high), torch.where(lost, 0.0, low)


def rel_entr(p: Tensor, q: Tensor) -> Tensor:
    """p·log(p/q); 0 at p = 0 ≤ q, inf outside the domain."""
    dtype, (p_wide, q_wide) = widen(p, q)
    (p0, p_step), (q0, q_step) = split_point(p_wide), split_point(q_wide)
    domain = _Domain(p0, q0)
    log_ratio, log_ratio_low = _log_ratio_anywhere(domain.p, domain.q)
    value = domain.value(domain.p * (log_ratio + log_ratio_low), torch.zeros_like(q0))
    ratio = domain.p / domain.q
    first = [domain.slope((log_ratio + 1) + log_ratio_low), domain.slope(-ratio)]
    second = [domain.slope(1 / domain.p), domain.slope(-1 / domain.q), domain.slope(ratio / domain.q)]
    return attach(value, [p_step, q_step], first, second).to(dtype)


def kl_div(p: Tensor, q: Tensor) -> Tensor:
    """p·log(p/q) - p + q; q at p = 0 ≤ q, inf outside the domain."""
    dtype, (p_wide, q_wide) = widen(p, q)
    (p0, p_step), (q0, q_step) = split_point(p_wide), split_point(q_wide)
    domain = _Domain(p0, q0)
    log_ratio, log_ratio_low = _log_ratio_anywhere(domain.p, domain.q)
    scale = _common_scale(domain.p, domain.q)
    p_scaled, q_scaled = domain.p * scale, domain.q * scale
    scaled = kl_div_value(p_scaled, q_scaled, *two_difference(q_scaled, p_scaled))
    # An argument lost by scaling: nothing cancels, each of the three terms is exact to its rounding.
    spread = domain.p * log_ratio + (domain.q - domain.p)
    inside = torch.where(_is_lost(domain.p, domain.q, scale), spread, scaled / scale)
    infinite = torch.isinf(p0) | torch.isinf(q0)
    value = domain.value(torch.where(infinite, math.inf, inside), q0)
    ratio = domain.p / domain.q
    first = [domain.slope(log_ratio + log_ratio_low), domain.slope((domain.q - domain.p) / domain.q, edge=1.0)]
    second = [domain.slope(1 / domain.p), domain.slope(-1 / domain.q), domain.slope(ratio / domain.q)]
    return attach(value, [p_step, q_step], first, second).to(dtype)
