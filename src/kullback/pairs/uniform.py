"""KL(Uniform ‖ q). Expectations over an interval [l, h] of width w, midpoint m."""

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
    HalfNormal,
    Normal,
    Pareto,
    Uniform,
)

from kullback._core.special._double_double import minus, two_difference, two_sum
from kullback._core.special._precision import horner
from kullback.pairs.lgamma_near_one import EULER
from kullback.pairs.moments import exact, kl_to_normal, known_to, multiple
from kullback.pairs.parameters import gives_logits, read
from kullback.pairs.products import mean_term, settled, sum_of_products
from kullback.pairs.ratios import log_ratio
from kullback.pairs.registry import register
from kullback.pairs.roundings import Answer, rounded
from kullback.special import binet, digamma, expm1mx, kl_div, lgamma_bregman, log1mexp, rel_entr

_NEGENTROPY = 0.5 * math.log(2 * math.pi * math.e / 12)
# 1/√12, and what follows its double.
_ROOT_TWELFTH = (0.28867513459481287, 1.6725140369678172e-17)
_HALF_LOG_2PI = 0.5 * math.log(2 * math.pi)

# log m − E log x = Σ_{j≥1} k^(2j)/(2j(2j+1)) with k = (h−l)/(h+l): below 1e-18 of the first term from j = 30 for k ≤ ½.
_JENSEN = [1 / (2 * j * (2 * j + 1)) for j in range(1, 31)]
# sinh(k)/k − 1 in powers of k².
_SINHC = [1 / math.factorial(2 * j + 1) for j in range(1, 10)]


@register(Uniform, Uniform, source="log(w_q/w_p) = log(1 + (Δhigh + Δlow)/w_p)")
def kl_uniform_uniform(p: Uniform, q: Uniform) -> Tensor:
    """The ends are subtracted from each other first: near equality the widths agree in most digits."""
    low_p, high_p = read(p, "low", "high")
    low_q, high_q = read(q, "low", "high")
    inside = (low_p >= low_q) & (high_p <= high_q)
    beyond = torch.where(inside, (high_q - high_p) + (low_p - low_q), 0.0)
    return torch.log1p(beyond / (high_p - low_p))


@register(Uniform, Normal, source="½log(πe/6) + KL(Normal of the same moments ‖ q)")
def kl_uniform_normal(p: Uniform, q: Normal) -> Tensor:
    """The midpoint's offset is summed in twice the precision: wide intervals and large locations cancel in it."""
    low, high = read(p, "low", "high")
    (loc,) = read(q, "loc")
    total, rest = two_sum(low.detach(), high.detach())
    offset = known_to((low + high) / 2 - loc, minus((total / 2, rest / 2), exact(loc.detach())))
    width, lost = two_difference(high, low)
    sd, sd_lost = multiple(width, _ROOT_TWELFTH)
    sd_lost = sd_lost + _ROOT_TWELFTH[0] * lost.detach()
    return kl_to_normal(_NEGENTROPY, (sd, sd_lost), offset, q)


@register(Uniform, HalfNormal, source="E x²/2σ² + ½log(π/2) + log(σ/w), E x² = m² + w²/12")
def kl_uniform_half_normal(p: Uniform, q: HalfNormal) -> Answer:
    """On the half-line m ≥ w/2, so that E x²/w² ≥ ⅓, and the least value over σ is at least 0.17."""
    low, high = read(p, "low", "high")
    (scale,) = read(q, "scale")
    inside = low >= 0
    low, high = torch.where(inside, low, 0.0), torch.where(inside, high, 1.0)
    width = high - low
    middle = low / width + 0.5
    square = (middle * middle + 1 / 12) * (width / scale) ** 2
    log_widths = log_ratio(width, scale)
    return rounded(settled(square / 2 + 0.5 * math.log(math.pi / 2) - log_widths), square + 1 + log_widths.abs())


@register(Uniform, Gumbel, source="φ(S − z) + S + 1 − log 2k, S = log(sinh k/k), k = w/2β, z = (m − μ)/β")
def kl_uniform_gumbel(p: Uniform, q: Gumbel) -> Tensor:
    """E e^(−z) = e^(S − z), for a wide interval measured from its lower end; S − log k has a positive minimum."""
    low, high = read(p, "low", "high")
    loc, scale = read(q, "loc", "scale")
    half = (high - low) / scale / 2
    narrow = half < 1
    log_sinhc = _log_sinhc(half)
    middle = ((low - loc) + (high - loc)) / scale / 2
    wide = torch.where(narrow, 1.0, half)
    from_low = log1mexp(-2 * wide) - torch.log(2 * wide) - (low - loc) / scale
    log_mgf = torch.where(narrow, log_sinhc - middle, from_low)
    return settled(expm1mx(log_mgf) + log_sinhc + (1 - torch.log(2 * half)))


@register(Uniform, Exponential, source="Uniform ‖ Gamma with b = 1")
def kl_uniform_exponential(p: Uniform, q: Exponential) -> Tensor:
    """An Exponential is a Gamma of concentration 1."""
    (rate,) = read(q, "rate")
    return _uniform_gamma(p, torch.ones_like(rate), rate)


@register(
    Uniform, Gamma, source="b·φ(log(rate·m/b)) + (b−1)·A + ½log(2π/b) + R(b) − log 2k, A = log m − E log x, k = w/2m"
)
def kl_uniform_gamma(p: Uniform, q: Gamma) -> Tensor:
    """See `_uniform_gamma`."""
    return _uniform_gamma(p, *read(q, "concentration", "rate"))


@register(Uniform, Pareto, source="αG − log(2kα) − A, G = E log(x/scale), A = log m − E log x, k = w/2m")
def kl_uniform_pareto(p: Uniform, q: Pareto) -> Tensor:
    """G = log(l/scale) + (h·log(h/l) − h + l)/w, or log(m/scale) − A if wide; no power of the scale is formed."""
    low, high = read(p, "low", "high")
    scale, alpha = read(q, "scale", "alpha")
    inside = low >= scale
    low, high = torch.where(inside, low, scale), torch.where(inside, high, 2 * scale)
    width, total, excess = high - low, low + high, _log_mean_excess(low, high)
    narrow = width < total / 2
    from_low = log_ratio(low, scale) + kl_div(torch.where(narrow, high, 2.0), torch.where(narrow, low, 1.0)) / width
    above_scale = torch.where(narrow, from_low, log_ratio(total / 2, scale) - excess)
    return alpha * above_scale - torch.log(alpha * 2 * (width / total)) - excess


@register(
    Uniform,
    Beta,
    source="n·KL(mean_q ‖ m) + (a−1)A(x) + (b−1)A(1−x) + Stirling's rest; about a = b = 1 by Bregman terms",
)
def kl_uniform_beta(p: Uniform, q: Beta) -> Tensor:
    """−E log q(x) by Stirling, exact with Binet's remainder R; around the flat Beta by its Bregman divergence."""
    low, high = read(p, "low", "high")
    a, b = read(q, "concentration1", "concentration0")
    inside = (low >= 0) & (high <= 1)
    low, high = torch.where(inside, low, 0.25), torch.where(inside, high, 0.75)
    width, low_gap, high_gap = high - low, 1 - low, 1 - high
    flat = (a - 1).abs().maximum((b - 1).abs()) < 0.5
    return torch.where(
        flat,
        _near_flat_beta(low, high, torch.where(flat, a, 1.0), torch.where(flat, b, 1.0)),
        _stirling_beta(a, b, (low, high), (high_gap, low_gap), width),
    )


@register(
    Uniform,
    ContinuousBernoulli,
    source="|η|·d − log(|η|w) + log(1 − e^(−|η|)), η the logit, d from m to the heavier end",
)
def kl_uniform_continuous_bernoulli(p: Uniform, q: ContinuousBernoulli) -> Tensor:
    """For small |η| the normaliser is log(sinh(η/2)/(η/2)), and the width is compared with 1."""
    low, high = read(p, "low", "high")
    inside = (low >= 0) & (high <= 1)
    low, high = torch.where(inside, low, 0.25), torch.where(inside, high, 0.75)
    logit = _logit(q)
    spread = logit.isfinite()
    logit = torch.where(spread, logit, 1.0)
    log_width = _log_unit_width(low, high, 1 - high)
    small = logit.abs() < 1
    near_logit = torch.where(small, logit, 0.0)
    near = _log_sinhc(near_logit / 2) + near_logit / 2 * ((1 - high) - low) - log_width
    size = torch.where(small, 1.0, logit.abs())
    to_end = torch.where(logit < 0, low + high, (1 - low) + (1 - high)) / 2
    far = size * to_end - torch.log(size) - log_width + log1mexp(-size)
    return torch.where(spread, torch.where(small, near, far), torch.inf)


def _uniform_gamma(p: Uniform, b: Tensor, rate: Tensor) -> Tensor:
    """The cost of the means, with rate·(l+h) − 2b exact, Jensen's gap A, and Stirling's formula for Γ(b)."""
    low, high = read(p, "low", "high")
    inside = low >= 0
    low, high = torch.where(inside, low, 1.0), torch.where(inside, high, 2.0)
    total = low + high
    difference = sum_of_products((rate, low), (rate, high), (-2 * b, torch.ones_like(b)))
    near = difference.abs() <= b
    relative = torch.where(near, difference, 0.0) / (2 * b)
    log_means = torch.where(near, torch.log1p(relative), log_ratio(rate, b) + torch.log(total / 2))
    rest = (b - 1) * _log_mean_excess(low, high) + binet(b) + _HALF_LOG_2PI
    return mean_term(b, rate * (total / 2), log_means) + (rest - torch.log(b.sqrt() * 2 * ((high - low) / total)))


def _log_mean_excess(low: Tensor, high: Tensor) -> Tensor:
    """A = log m − E log x ≥ 0 for x uniform on [low, high], low ≥ 0; 1 − log 2 at low = 0."""
    total = low + high
    k = (high - low) / total
    narrow = k < 0.5
    square = torch.where(narrow, k, 0.0) ** 2
    series = square * horner(square, _JENSEN)
    wide = torch.where(narrow, 1.0, k)
    upper, lower = (torch.where(narrow, 1.0, 2 * end / total) for end in (high, low))
    direct = 1 - (rel_entr(upper, 1.0) - rel_entr(lower, 1.0)) / (2 * wide)
    return torch.where(narrow, series, direct)


def _log_sinhc(k: Tensor) -> Tensor:
    """log(sinh k / k), even, non-negative."""
    size = torch.where(k < 0, -k, k)
    small = size < 1
    square = torch.where(small, size, 0.0) ** 2
    large = torch.where(small, 1.0, size)
    return torch.where(
        small,
        torch.log1p(square * horner(square, _SINHC)),
        large + log1mexp(-2 * large) - torch.log(2 * large),
    )


def _near_flat_beta(low: Tensor, high: Tensor, a: Tensor, b: Tensor) -> Tensor:
    """With log B(a, b) = [D(1→a) + D(1→b) − D(2→a+b)] − (a−1) − (b−1), which vanishes at a = b = 1."""
    low_gap, high_gap = 1 - low, 1 - high
    total, lost = two_sum(a, b)
    # What the sum is rounded by counts as soon as a and b are within its root of 1.
    of_sum = lgamma_bregman(2.0, total) + (digamma(total) - (1 - EULER)) * lost.detach()
    bregman = lgamma_bregman(1.0, a) + lgamma_bregman(1.0, b) - of_sum
    from_zero, from_one = _mean_log_plus_one(low, high), _mean_log_plus_one(high_gap, low_gap)
    return bregman - (a - 1) * from_zero - (b - 1) * from_one - _log_unit_width(low, high, high_gap)


def _log_unit_width(low: Tensor, high: Tensor, high_gap: Tensor) -> Tensor:
    """log(h − l) for an interval inside [0, 1], from what it leaves out where that is less."""
    outer = low + high_gap
    wide = outer < 0.5
    return torch.where(wide, torch.log1p(-torch.where(wide, outer, 0.0)), torch.log(high - low))


def _mean_log_plus_one(low: Tensor, high: Tensor) -> Tensor:
    """E log x + 1 on an interval inside [0, 1], exactly 0 on all of it."""
    wide = high - low > 0.5
    ends = (rel_entr(high, 1.0) - rel_entr(low, 1.0)) / torch.where(wide, high - low, 1.0)
    return torch.where(wide, ends, torch.log((low + high) / 2) - _log_mean_excess(low, high) + 1)


def _stirling_beta(a: Tensor, b: Tensor, x: tuple[Tensor, Tensor], gap: tuple[Tensor, Tensor], width: Tensor) -> Tensor:
    """The ends of the interval, and the ends measured from 1."""
    n, m, m_gap = a + b, (x[0] + x[1]) / 2, (gap[0] + gap[1]) / 2
    means = kl_div(a, n * m) + kl_div(b, n * m_gap)
    jensen = (a - 1) * _log_mean_excess(*x) + (b - 1) * _log_mean_excess(*gap)
    shape = torch.log(m / a.sqrt() * (m_gap / b.sqrt()) * n.sqrt() / width)
    return means + jensen + (shape + _HALF_LOG_2PI + binet(a) + binet(b) - binet(n))


def _logit(q: ContinuousBernoulli) -> Tensor:
    """log(λ/(1−λ)), infinite at the ends, from whichever parameter was given."""
    if gives_logits(q):
        return read(q, "logits")[0]
    (probs,) = read(q, "probs")
    inside = (probs > 0) & (probs < 1)
    safe = torch.where(inside, probs, 0.5)
    return torch.where(inside, log_ratio(safe, 1 - safe), torch.inf)
