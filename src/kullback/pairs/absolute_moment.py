"""KL(p ‖ Laplace) from E|x − μ|, for p whose distribution function is elementary.

KL = A/b + log 2b − H(p), A = E|x − μ|, which is least for b = A. No p here is nearly a Laplace, so that the least value
is not small and nothing cancels. A is given in units of p's own scale s, and H(p) = log s + h.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor
from torch import distributions as d
from torch.distributions import Distribution

from kullback._core.special._derivatives import attach, split_point
from kullback.pairs.parameters import read
from kullback.pairs.products import settled
from kullback.pairs.ratios import log_ratio
from kullback.pairs.registry import register
from kullback.pairs.roundings import Answer, rounded
from kullback.special import log_ndtr_diff

_LARGEST = 700.0
_ROOT_2_OVER_PI = math.sqrt(2 / math.pi)


class Absolute(NamedTuple):
    """E|x − μ| = s·mean.

    Attributes:
        mean: In units of s; any number where it is infinite.
        scale: s.
        entropy: h.
        finite: Where it is finite; True for all.
        whole: E|x − μ| with derivatives of its own, where those of the product would cancel.
    """

    mean: Tensor
    scale: Tensor
    entropy: Tensor | float
    finite: Tensor | bool = True
    whole: Tensor | None = None


def _uniform(p: Distribution, m: Tensor) -> Absolute:
    """Inside the interval (z² + (1−z)²)/2, z the share of it below μ; outside the distance to its middle."""
    low, high = read(p, "low", "high")
    width = high - low
    below, above = (m - low) / width, (high - m) / width
    inside = (below >= 0) & (above >= 0)
    middle = torch.where(below > above, below - above, above - below) / 2
    squares = (below * below + above * above) / 2
    return Absolute(torch.where(inside, squares, middle), width, 0.0)


def _exponential(p: Distribution, m: Tensor) -> Absolute:
    """For z = rate·μ > 0 it is z − 1 + 2e^(−z), else 1 − z."""
    (rate,) = read(p, "rate")
    z = m * rate
    mean = torch.where(z > 0, z + (2 * torch.exp(-z.clamp_min(0.0)) - 1), 1 - z)
    return Absolute(mean, 1 / rate, 1.0)


def _half_normal(p: Distribution, m: Tensor) -> Absolute:
    """For z = μ/σ > 0 it is z·(2·erf(z/√2) − 1) + √(2/π)·(2e^(−z²/2) − 1), else √(2/π) − z."""
    (scale,) = read(p, "scale")
    z = m / scale
    up = z.clamp_min(0.0)
    above = up * (2 * torch.erf(up * math.sqrt(0.5)) - 1) + _ROOT_2_OVER_PI * (2 * torch.exp(-up * up / 2) - 1)
    mean = torch.where(z > 0, above, _ROOT_2_OVER_PI - z)
    return Absolute(mean, scale, 0.5 + 0.5 * math.log(math.pi / 2))


def _pareto(p: Distribution, m: Tensor) -> Absolute:
    """In units of scale/α, with z = α·(μ/scale − 1): an Exponential's for large α; infinite if α ≤ 1."""
    scale, alpha = read(p, "scale", "alpha")
    finite = alpha > 1
    alpha = torch.where(finite, alpha, 2.0)
    z, mean_above = alpha * ((m - scale) / scale), alpha / (alpha - 1)
    up = z > 0
    decay = (1 - alpha) * log_ratio(torch.where(up, m, scale), scale)
    mean = torch.where(up, z + mean_above * (2 * torch.exp(decay) - 1), mean_above - z)
    return Absolute(mean, scale / alpha, 1 + 1 / alpha, finite)


def _log_normal(p: Distribution, m: Tensor) -> Absolute:
    """With z = (log μ − loc)/σ, w = z − σ, M = E x: A = (μ − M)·(2Φ(z) − 1) + 2M·(Φ(z) − Φ(w)).

    ∂A/∂μ = 2Φ(z) − 1, ∂A/∂loc = M·(1 − 2Φ(w)), ∂A/∂σ = σ·∂A/∂loc + 2M·φ(w): what A's terms lose of these by
    cancelling, if μ and M are far apart, is all of them.
    """
    loc, sigma = read(p, "loc", "scale")
    m, loc, sigma = torch.broadcast_tensors(m, loc, sigma)  # type: ignore[no-untyped-call]
    (m0, m_step), (loc0, loc_step), (s, s_step) = split_point(m), split_point(loc), split_point(sigma)
    positive, half = m0 > 0, s * s / 2
    finite = (half < _LARGEST) & (loc0 + half < _LARGEST)
    s, loc0, half = torch.where(finite, s, 1.0), torch.where(finite, loc0, 0.0), torch.where(finite, half, 0.5)
    above = torch.where(positive, m0, 1.0)
    z = (torch.log(above) - loc0) / s
    w, mean_x = z - s, torch.exp(loc0 + half)
    erf_z, erf_w = (torch.where(positive, torch.erf(y * math.sqrt(0.5)), -1.0) for y in (z, w))
    bell_z, bell_w = (torch.where(positive, torch.exp(-y * y / 2) * _ROOT_2_OVER_PI, 0.0) for y in (z, w))
    beyond = torch.expm1((s * z - half).clamp_max(_LARGEST)) * erf_z
    value = torch.where(positive, mean_x * (beyond + 2 * torch.exp(log_ndtr_diff(w, z))), mean_x - m0)
    by_loc, bell = -mean_x * erf_w, mean_x * bell_w
    rise = z / s + 1
    second = (
        *(bell_z / (s * above), -bell_z / s, -bell_z * z / s),
        *(by_loc + bell / s, s * by_loc + bell * rise),
        (s * s + 1) * by_loc + bell * (s + z * rise),
    )
    whole = attach(value, [m_step, loc_step, s_step], [erf_z, by_loc, s * by_loc + bell], second)
    mean = value * torch.exp(-loc0) / s
    return Absolute(mean, sigma * torch.exp(loc), 0.5 + 0.5 * math.log(2 * math.pi), finite, whole)


_FAMILIES: dict[type[Distribution], tuple[Callable[[Distribution, Tensor], Absolute], str]] = {
    d.Exponential: (_exponential, "E|x−μ| = (z − 1 + 2e^(−z))/rate, z = rate·μ > 0"),
    d.HalfNormal: (_half_normal, "E|x−μ| = σ·[z(2·erf(z/√2) − 1) + √(2/π)(2e^(−z²/2) − 1)], z = μ/σ > 0"),
    d.LogNormal: (_log_normal, "E|x−μ| = (μ − E x)(2Φ(z) − 1) + 2·E x·(Φ(z) − Φ(z−σ)), z = (log μ − loc)/σ"),
    d.Pareto: (_pareto, "E|x−μ| = μ − E x + 2μ(scale/μ)^α/(α−1), μ > scale; infinite if α ≤ 1"),
    d.Uniform: (_uniform, "E|x−μ| = ((μ−low)² + (high−μ)²)/2w inside, |m − μ| outside"),
}


def kl_to_laplace(p: Distribution, q: d.Laplace) -> Answer:
    """The part of the scales and the rest; see the head of this file."""
    loc, scale = read(q, "loc", "scale")
    family = next(family for family in type(p).__mro__ if family in _FAMILIES)
    mean, own, entropy, finite, whole = _FAMILIES[family][0](p, loc)
    log_scales = log_ratio(own, scale)
    ratio = mean * (own / scale) if whole is None else whole / scale
    finite = finite & (ratio < torch.inf)
    ratio = torch.where(finite, ratio, 1.0)
    shape = (math.log(2) - entropy) - log_scales
    return rounded(settled(torch.where(finite, ratio + shape, torch.inf)), ratio + 2 + log_scales.abs())


for _p, (_, _source) in _FAMILIES.items():
    register(_p, d.Laplace, source=f"E|x−μ|/b + log 2b − H(p), {_source}")(kl_to_laplace)
