"""KL(Uniform ‖ q). Expectations over an interval [l, h] of width w, midpoint m. Called by `pairs.dispatch`."""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.distributions import (
    Beta,
    ContinuousBernoulli,
    Exponential,
    Gamma,
    Gumbel,
    Normal,
    Pareto,
    Uniform,
)

from kullback.densities.parameters import read, working
from kullback.pairs.closed.beta import beta_op
from kullback.pairs.closed.continuous_bernoulli import minus_mean_log_density
from kullback.pairs.closed.normal import kl_to_normal, phi_of_log_mean
from kullback.pairs.registry import register
from kullback.special import binet, kl_div, log1mexp, log1pmx, rel_entr

_NEGENTROPY = 0.5 * math.log(2 * math.pi * math.e / 12)
_HALF_LOG_2PI = 0.5 * math.log(2 * math.pi)


@register(Uniform, Uniform, source="log(w_q/w_p) = log(1 + (Δhigh + Δlow)/w_p)")
def kl_uniform_uniform(p: Uniform, q: Uniform) -> Tensor:
    """The ends are subtracted from each other first: near equality the widths agree in most digits."""
    (low_p, high_p), (low_q, high_q) = read(p, "low", "high"), read(q, "low", "high")
    outside = (low_p < low_q) | (high_p > high_q)
    beyond = torch.where(outside, 0.0, (high_q - high_p) + (low_p - low_q))
    return torch.where(outside, math.inf, torch.log1p(beyond / (high_p - low_p)))


@register(Uniform, Normal, source="½log(πe/6) + KL(Normal of the same moments ‖ q)")
def kl_uniform_normal(p: Uniform, q: Normal) -> Tensor:
    """Standard deviation w/√12."""
    low, high = read(p, "low", "high")
    return kl_to_normal(_NEGENTROPY, (high - low) / math.sqrt(12), (low + high) / 2, *read(q, "loc", "scale"))


@register(Uniform, Gumbel, source="φ(S − z) + S + 1 − log 2k, S = log(sinh k/k), k = w/2β, z = (m − μ)/β")
def kl_uniform_gumbel(p: Uniform, q: Gumbel) -> Tensor:
    """E e^(−z) = e^(S − z), for a wide interval measured from its lower end; S − log k has a positive minimum."""
    (low, high), (loc, scale) = read(p, "low", "high"), read(q, "loc", "scale")
    width = (high - low) / scale
    log_width = torch.log(width)
    rest = log1mexp(-width) - log_width
    log_mgf = rest - (low - loc) / scale
    return phi_of_log_mean(log_mgf) + (width / 2 + rest) + (1 - log_width)


@register(Uniform, Exponential, source="φ(log(rate·m)) + 1 + log(m/w)")
def kl_uniform_exponential(p: Uniform, q: Exponential) -> Tensor:
    """On the half-line m/w ≥ ½, so that the last terms are at least 1 − log 2; elsewhere ½ keeps the slopes finite."""
    (low, high), (rate,) = read(p, "low", "high"), read(q, "rate")
    middle_in_widths = (low / (high - low) + 0.5).clamp_min(0.5)
    value = kl_div(torch.ones_like(rate), rate * ((low + high) / 2)) + (torch.log(middle_in_widths) + 1)
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


@register(
    Uniform,
    Beta,
    source="KL(Beta(1, 1) ‖ q) − log w − (a−1)·(1 + E log x) − (b−1)·(1 + E log(1−x))",
)
def kl_uniform_beta(p: Uniform, q: Beta) -> Tensor:
    """On [0, 1] itself everything but the first term is 0."""
    low, high = read(p, "low", "high")
    concentration = working(q._dirichlet.concentration)
    outside = (low < 0) | (high > 1)
    low, high = torch.where(outside, 0.0, low), torch.where(outside, 1.0, high)
    a, b = concentration[..., 0], concentration[..., 1]
    to_low, to_high = _mean_log_plus_one(torch.stack([low, 1 - high]), torch.stack([high, 1 - low])).unbind()
    value = beta_op(torch.ones_like(concentration), concentration) - torch.log1p(-(low + (1 - high)))
    return (value - (a - 1) * to_low - (b - 1) * to_high).masked_fill(outside, math.inf)


@register(
    Uniform,
    ContinuousBernoulli,
    source="log((e^η − 1)/η) − η·m − log w, η the logit",
)
def kl_uniform_continuous_bernoulli(p: Uniform, q: ContinuousBernoulli) -> Tensor:
    """The width is compared with 1."""
    low, high = read(p, "low", "high")
    outside = (low < 0) | (high > 1)
    low, high = torch.where(outside, 0.0, low), torch.where(outside, 1.0, high)
    cross = minus_mean_log_density(q, (low + high) / 2, ((1 - low) + (1 - high)) / 2)
    return torch.where(outside, math.inf, cross - torch.log1p(-(low + (1 - high))))


def _half_width_over_middle(low: Tensor, high: Tensor) -> Tensor:
    """The number k = w/2m, inside (0, 1): at the ends A has no slope, and 1 − x may have rounded a width away."""
    return ((high - low) / (high + low)).clamp(1e-30, 1 - 2**-53)


def _log_mean_excess(k: Tensor) -> Tensor:
    """A = log m − E log x ≥ 0 for x uniform on an interval of the half-line: 1 − atanh(k)/k − ½log(1 − k²)."""
    return (log1pmx(-k) - log1pmx(k)) / (2 * k) - torch.log1p(-k * k) / 2


def _mean_log_plus_one(low: Tensor, high: Tensor) -> Tensor:
    """E log x + 1 on an interval inside [0, 1], exactly 0 on all of it."""
    width, one = high - low, torch.ones_like(low)
    ends = (rel_entr(high, one) - rel_entr(low, one)) / width.clamp_min(0.5)
    centred = torch.log((low + high).clamp_min(1e-100) / 2) - _log_mean_excess(_half_width_over_middle(low, high)) + 1
    return torch.where(width > 0.5, ends, centred)
