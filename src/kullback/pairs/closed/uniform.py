"""KL(Uniform ‖ q). Expectations over an interval [l, h] of width w, midpoint m. Called by `pairs.dispatch`."""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.distributions import Exponential, Gamma, Gumbel, Normal, Pareto, Uniform

from kullback.densities.parameters import read
from kullback.pairs.closed.normal import OVERFLOWING_LOG, kl_to_normal
from kullback.pairs.registry import register
from kullback.special import binet, kl_div, log1mexp, log1pmx

_NEGENTROPY = 0.5 * math.log(2 * math.pi * math.e / 12)
_HALF_LOG_2PI = 0.5 * math.log(2 * math.pi)


@register(Uniform, Uniform, source="log(w_q/w_p) = log(1 + (Δhigh + Δlow)/w_p)")
def kl_uniform_uniform(p: Uniform, q: Uniform) -> Tensor:
    """The ends are subtracted from each other first: near equality the widths agree in most digits."""
    (low_p, high_p), (low_q, high_q) = read(p, "low", "high"), read(q, "low", "high")
    above, below = high_q - high_p, low_p - low_q
    value = torch.log1p((above + below) / (high_p - low_p))
    return value.masked_fill(torch.minimum(above, below) < 0, math.inf)


@register(Uniform, Normal, source="½log(πe/6) + KL(Normal of the same moments ‖ q)")
def kl_uniform_normal(p: Uniform, q: Normal) -> Tensor:
    """Standard deviation w/√12."""
    low, high = read(p, "low", "high")
    return kl_to_normal(_NEGENTROPY, (high - low) / math.sqrt(12), (low + high) / 2, *read(q, "loc", "scale"))


@register(Uniform, Gumbel, source="E z + E e^(−z) − log k, k = w/β, E e^(−z) = e^((μ − l)/β)·(1 − e^(−k))/k")
def kl_uniform_gumbel(p: Uniform, q: Gumbel) -> Tensor:
    """At least a constant, so that nothing is lost."""
    (low, high), (loc, scale) = read(p, "low", "high"), read(q, "loc", "scale")
    width, lowest = (high - low) / scale, (low - loc) / scale
    log_width = torch.log(width)
    mgf = torch.exp((log1mexp(-width) - log_width - lowest).clamp_max(OVERFLOWING_LOG))
    return mgf + (lowest + width / 2) - log_width


@register(Uniform, Exponential, source="rate·m − log(rate·w)")
def kl_uniform_exponential(p: Uniform, q: Exponential) -> Tensor:
    """At least 1 − log 2, so that nothing is lost."""
    (low, high), (rate,) = read(p, "low", "high"), read(q, "rate")
    value = rate * ((low + high) / 2) - torch.log(rate * (high - low))
    return value.masked_fill(low < 0, math.inf)


@register(
    Uniform,
    Gamma,
    source="b·φ(log(rate·m/b)) + (b−1)·A + ½log(2π/b) + R(b) + log(m/w), A = log m − E log x",
)
def kl_uniform_gamma(p: Uniform, q: Gamma) -> Tensor:
    """The cost of the means, Jensen's gap A, and Stirling's formula for Γ(b) with Binet's remainder R."""
    (low, high), (b, rate) = read(p, "low", "high"), read(q, "concentration", "rate")
    outside = low < 0
    low, high = low.masked_fill(outside, 1.0), high.masked_fill(outside, 2.0)
    middle, k = (low + high) / 2, _half_width_over_middle(low, high)
    rest = (b - 1) * _log_mean_excess(k) + binet(b) - torch.log(b.sqrt() * k) + (_HALF_LOG_2PI - math.log(2))
    return (kl_div(b, rate * middle) + rest).masked_fill(outside, math.inf)


@register(
    Uniform,
    Pareto,
    source="φ(log(αG)) + 1 + log(G·m/w) − A, G = E log(x/scale), A = log m − E log x",
)
def kl_uniform_pareto(p: Uniform, q: Pareto) -> Tensor:
    """No power of the scale is formed."""
    (low, high), (scale, alpha) = read(p, "low", "high"), read(q, "scale", "alpha")
    outside = low < scale
    low, high = torch.where(outside, scale, low), torch.where(outside, 2 * scale, high)
    middle, k = (low + high) / 2, _half_width_over_middle(low, high)
    excess = _log_mean_excess(k)
    above_scale = torch.log1p((middle - scale) / scale) - excess
    rest = torch.log(above_scale / k) - excess + (1 - math.log(2))
    return (kl_div(torch.ones_like(alpha), alpha * above_scale) + rest).masked_fill(outside, math.inf)


def _half_width_over_middle(low: Tensor, high: Tensor) -> Tensor:
    """The number k = w/2m, inside (0, 1): at the ends A has no slope, and 1 − x may have rounded a width away."""
    return ((high - low) / (high + low)).clamp(1e-30, 1 - 2**-53)


def _log_mean_excess(k: Tensor) -> Tensor:
    """A = log m − E log x ≥ 0 for x uniform on an interval of the half-line: 1 − atanh(k)/k − ½log(1 − k²)."""
    return (log1pmx(-k) - log1pmx(k)) / (2 * k) - torch.log1p(-k * k) / 2
