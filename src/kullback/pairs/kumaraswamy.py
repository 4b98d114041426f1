r"""KL(Kumaraswamy ‖ q).

With y = x^a for p = Kumaraswamy(a, b), L = −log y, v = −log(1−y) is exponential with rate b, and under q so is
g = −log(1 − y^ρ) with rate b_q, ρ = a_q/a. For θ = log ρ, φ(t) = eᵗ − 1 − t,

    KL = φ(log(b_q/b)) + (b_q − b)·E[g − v] + E[L]·φ(θ) + (b − 1)·E[D],    E[L] = γ + ψ(b+1),

D ≥ 0 the Bregman divergence of θ ↦ −log(1 − exp(−L·e^θ)) from 0 to θ; every term is of second order near equality. For
b < 1 the last two are E[L·φ(θ) − D] + b·E[D], both non-negative. For b ≥ 1 and b_q far from it the terms in b cancel;
there KL = log(b/b_q) − θ + (ρ − 1)·E[L] − (b − 1)/b + (b_q − 1)·E[g]. Expectations are trapezoidal sums in logit(y),
where integrands are analytic in a strip of half-width π/2 and decay exponentially: 400 nodes leave an error of 1e-14.

Against Beta(α, β), with θ = −log a so that g = −log(1−x),

    log q/p = c − (α/a − 1)·L − (β − b)·v − (β − 1)·(g − v) = c − (α/a − 1)·L − (β − 1)·g + (b − 1)·v.

Beta laws and Kumaraswamy laws meet at a = α = 1, b = β, where the first form has only small terms, and at a = α,
b = β = 1, where the second has; c is written accordingly. KL = −E log q/p, or E φ(log q/p) where that cancels.
"""

from __future__ import annotations

import functools

import torch
from torch import Tensor
from torch.distributions import Beta, Kumaraswamy, Uniform

from kullback._core.gauss_legendre import gauss_legendre
from kullback.integrate.gauss_kronrod import panels
from kullback.kernels.pointwise import Pointwise
from kullback.pairs.lgamma_near_one import EULER
from kullback.pairs.parameters import read
from kullback.pairs.programs_first import programs_first
from kullback.pairs.ratios import log_ratio
from kullback.pairs.registry import register
from kullback.pairs.second_order import keeps_digits
from kullback.pairs.visible import surely
from kullback.special import digamma, expm1mx, lgamma_bregman, log1pmx, trigamma

_COUNT = 400
# From this |log(b_q/b)| on nothing cancels that is not of the size of the divergence.
_FAR = 0.7
# Up to this |log a| a Kumaraswamy law may be next to uniform.
_FLAT = 0.7
_RULE = gauss_legendre(10)
# −log(1 − e⁻ˣ) = −log x + x/2 − x²/24 + x⁴/2880 − …: powers and coefficients after the first two terms.
_SERIES = [
    (2, -1 / 24),
    (4, 1 / 2880),
    (6, -1 / 181440),
    (8, 1 / 9676800),
    (10, -1 / 479001600),
    (12, 691 / 15692092416000),
]


@register(
    Kumaraswamy,
    Kumaraswamy,
    method="integral",
    source="φ(log b_q/b) + (b_q−b)·E[g−v] + E[L]·φ(θ) + (b−1)·E[D] by a trapezoidal rule in logit(xᵃ)",
)
def kl_kumaraswamy_kumaraswamy(p: Kumaraswamy, q: Kumaraswamy) -> tuple[Tensor, Tensor]:
    """See the head of this file; the error estimate compares with every second node."""
    a, b = read(p, "concentration1", "concentration0")
    a_q, b_q = read(q, "concentration1", "concentration0")
    a, b, a_q, b_q = torch.broadcast_tensors(a, b, a_q, b_q)  # type: ignore[no-untyped-call]
    theta, growth, is_steep = log_ratio(a_q, a), log_ratio(b_q, b), b >= 1
    apart = is_steep & (growth.detach().abs() > _FAR)
    weight, length, v = _nodes(b, theta)
    columns = theta, b, b_q, apart.to(b.dtype)
    terms = weight * _integrand(length, v, *(part.unsqueeze(-1) for part in columns))
    mean = EULER + digamma(b + 1)
    constant = torch.where(is_steep, mean * expm1mx(theta), (b - b_q) * theta) + expm1mx(growth)
    direct = torch.expm1(theta) * mean - theta - growth - (b - 1) / b
    value: Tensor = torch.where(apart, direct, constant) + terms.sum(-1)
    difference = (terms.sum(-1) - 2 * terms[..., ::2].sum(-1)).detach().abs()
    # The error of the rule squares when the nodes are doubled.
    error = torch.minimum(difference, difference * difference / value.detach().abs().clamp_min(1e-300))
    # What rounding left below 0 is taken off without its derivative, which is the Fisher information at equality.
    return value - value.detach().clamp_max(0.0), error + 1e-14 * value.detach().abs()


@register(
    Kumaraswamy,
    Uniform,
    source="φ(−log b) + φ(−log a) + (1 − 1/a)·(ψ(2) − ψ(b+1)) + log(high − low)",
)
def kl_kumaraswamy_uniform(p: Kumaraswamy, q: Uniform) -> Tensor:
    """Far from a = 1 the last two terms are log a − (1 − 1/a)·(γ + ψ(b+1)); the width is 1 + (high − 1) − low."""
    a, b = read(p, "concentration1", "concentration0")
    low, high = read(q, "low", "high")
    inside = (low <= 0) & (high >= 1)
    excess = torch.where(inside, (high - 1) - low, 0.0)
    t = torch.log(a)
    near = t.abs() < _FLAT
    inner = torch.where(near, t, 0.0)
    close = expm1mx(-inner) + torch.expm1(-inner) * _digamma_rise(b)
    apart = t + torch.expm1(-t) * (EULER + digamma(b + 1))
    return expm1mx(-torch.log(b)) + torch.where(near, close, apart) + torch.log1p(excess)


def _digamma_rise(b: Tensor) -> Tensor:
    """ψ(b+1) − ψ(2); next to b = 1 by the integral of ψ′ between."""
    near = (b - 1).abs() < 0.5
    step = torch.where(near, b - 1, 0.0)
    slope = sum((weight * trigamma(2 + u * step) for u, weight in zip(*_RULE, strict=True)), torch.zeros_like(step))
    return torch.where(near, step * slope, digamma(b + 1) - (1 - EULER))


@register(
    Kumaraswamy,
    Beta,
    method="integral",
    source="−E log(q/p) over logit(xᵃ), E log x and E log(1−xᵃ) in closed form; near equality E φ(log q/p)",
)
@functools.partial(programs_first, slopes=True)
def kl_kumaraswamy_beta(p: Kumaraswamy, q: Beta) -> tuple[Tensor, Tensor]:
    """See the head of this file; the error is estimated from Gauss's nodes among Kronrod's."""
    given = [*read(p, "concentration1", "concentration0"), *read(q, "concentration1", "concentration0")]
    a, b, alpha, beta = torch.broadcast_tensors(*given)  # type: ignore[no-untyped-call]
    theta, one = -torch.log(a), torch.ones_like(a)
    by_first = (a - 1).abs() + (alpha - 1).abs() < (b - 1).abs() + (beta - 1).abs()
    constant = torch.where(
        by_first,
        log_ratio(beta, b) - torch.log(a) - _log_beta_excess(alpha, beta),
        log_ratio(alpha, a) - log_ratio(b, one) - _log_beta_excess(beta, alpha),
    )
    s, kronrod, gauss = _long_nodes(b.detach(), theta.detach())
    slope = (alpha - a) / a
    terms = slope * (EULER + digamma(b + 1)), (beta - b) / b
    # g − v is small where y is, and tends to −θ for y → 1.
    base = torch.where(b >= 1, 0.0, theta)
    shifts = _weighted_shift(s, theta.unsqueeze(-1), b.unsqueeze(-1))
    means = [(weight * shifts).sum(-1) - base for weight in (kronrod, gauss)]
    far, coarse = (terms[0] + terms[1] + (beta - 1) * mean - constant for mean in means)
    size = constant.abs() + terms[0].abs() + terms[1].abs() + ((beta - 1) * means[0]).abs()
    apart = keeps_digits(far, size)
    if surely(apart):
        return far, (far - coarse).detach().abs()
    columns = theta, b, beta, slope, constant, by_first.to(b.dtype), apart.to(b.dtype)
    second = _weighted_rest(s, *(value.unsqueeze(-1) for value in columns))
    value = torch.where(apart, far, (kronrod * second).sum(-1))
    error = torch.where(apart, far - coarse, ((kronrod - gauss) * second).sum(-1)).detach().abs()
    return value, error


def _at_nodes(s: Tensor, theta: Tensor, b: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """At s = logit(y): L, v, g − v, and the density of s."""
    length, v = _logarithms(s)
    length = length.clamp_min(1e-300)
    return length, v, -_log_ratio_of_gaps(length, theta), b * torch.exp(-length - b * v)


@Pointwise
def _weighted_shift(s: Tensor, theta: Tensor, b: Tensor) -> Tensor:
    """G − v under the density of s; with θ added for b < 1."""
    _, _, shift, density = _at_nodes(s, theta, b)
    return density * (shift + torch.where(b >= 1, 0.0, theta))


@Pointwise
def _weighted_rest(s: Tensor, theta: Tensor, b: Tensor, beta: Tensor, *given: Tensor) -> Tensor:
    """φ(log q/p) under the density of s; 0 where it is skipped."""
    slope, constant, by_first, skipped = given
    length, v, shift, density = _at_nodes(s, theta, b)
    first, other = (beta - b) * v + (beta - 1) * shift, (beta - 1) * (v + shift) - (b - 1) * v
    log_q_over_p = constant - slope * length - torch.where(by_first != 0, first, other)
    return density * expm1mx(torch.where(skipped != 0, 0.0, log_q_over_p))


def _log_beta_excess(x: Tensor, y: Tensor) -> Tensor:
    """log(y·B(x, y)), 0 at x = 1, where it is the difference of two steps of log Γ from 1 and from 1 + y."""
    step = (x - 1) * (digamma(y + 1) + EULER)
    return lgamma_bregman(torch.ones_like(x), x) - lgamma_bregman(y + 1, y + x) - step


def _long_nodes(b: Tensor, theta: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Nodes of s = logit(y) with two sets of weights: even panels where −log(1−x) bends, growing ones in the tail."""
    low, exponent = -b.clamp_min(1.0).log() - 48.0, 48.0 / b
    high = torch.where(exponent > 40, exponent, torch.log(torch.expm1(exponent.clamp_max(40.0))))
    middle = torch.minimum(high, theta.clamp_min(0.0) + 10.0)
    s, kronrod, gauss = panels(low, middle, 20)
    u, *weights = panels(torch.zeros_like(b), torch.asinh(high - middle), 8)
    outer = [weight * torch.cosh(u) for weight in weights]
    nodes = torch.cat([s, middle.unsqueeze(-1) + torch.sinh(u)], -1)
    return nodes, torch.cat([kronrod, outer[0]], -1), torch.cat([gauss, outer[1]], -1)


def _nodes(b: Tensor, theta: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Weights under p, L and v at fixed nodes s = logit(y); they follow the parameters without a derivative."""
    scale, reach = b.detach().clamp_min(1.0).log(), theta.detach().clamp_min(0.0)
    low = -scale - 42.0
    high = torch.where(b.detach() >= 1, 40.0 - scale, 37.0 + reach)
    step = ((high - low) / _COUNT).unsqueeze(-1)
    s = low.unsqueeze(-1) + step * (torch.arange(_COUNT, dtype=b.dtype, device=b.device) + 0.5)
    length, v = _logarithms(s)
    b = b.unsqueeze(-1)
    return b * step * torch.exp(-length - b * v), length, v


def _logarithms(s: Tensor) -> tuple[Tensor, Tensor]:
    """L = −log y and v = −log(1−y) at s = logit(y), each to its own last digit: L + s would lose v for small y."""
    tail = torch.log1p(torch.exp(-s.abs()))
    return torch.where(s > 0, tail, tail - s), torch.where(s > 0, tail + s, tail)


@Pointwise
def _integrand(x: Tensor, v: Tensor, *given: Tensor) -> Tensor:
    """(b_q−b)·(g − v) + (b−1)·D for b ≥ 1, apart (b_q−1)·g; below, where g − v tends to −θ, with that and L·φ(θ)."""
    theta, b, b_q, apart = given
    shift, curved, other = _integrands(x, theta)
    gap = b_q - b
    steep = torch.where(apart != 0, (b_q - 1) * (shift + v), gap * shift + (b - 1) * curved)
    return torch.where(b >= 1, steep, gap * (theta + shift) + other + b * curved)


def _integrands(x: Tensor, theta: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """At x = L: g − v, the divergence D, and L·φ(θ) − D."""
    x, theta = torch.broadcast_tensors(x, theta)  # type: ignore[no-untyped-call]
    phi = expm1mx(theta)
    grown, z, middle = _relative_gap(x, theta)
    log_ratio_z = _log_ratio_of_gaps(x, theta)
    close = theta.abs() < 1
    inner = torch.where(close, theta, 0.0)
    z_inner = torch.where(close & middle, z, 0.0)
    remainder = expm1mx(-x * torch.expm1(inner)) - x * expm1mx(inner)
    near = torch.where(middle, -log1pmx(z_inner), z - log_ratio_z) + remainder / grown
    general = torch.where(close, near, theta * x / grown - log_ratio_z)
    short = torch.maximum(x, x * torch.exp(theta)) < 0.5
    t, u = torch.where(short, theta, 0.0), torch.where(short, x, 0.0)
    tail = sum((c * u**k * expm1mx(k * t) for k, c in _SERIES), torch.zeros_like(u))
    half = 0.5 * u * expm1mx(t)
    return -log_ratio_z, torch.where(short, half + tail, general), torch.where(short, half - tail, x * phi - general)


def _relative_gap(x: Tensor, theta: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """e^L − 1, z = (1 − exp(−L·e^θ))/(1 − e^(−L)) − 1, and where z is small."""
    grown = torch.expm1(x)
    z = -torch.expm1(-x * torch.expm1(theta)) / grown
    return grown, z, z.abs() < 0.5


def _log_ratio_of_gaps(x: Tensor, theta: Tensor) -> Tensor:
    """V − g = log[(1 − exp(−L·e^θ))/(1 − e^(−L))] at x = L."""
    _, z, middle = _relative_gap(x, theta)
    apart = torch.log(-torch.expm1(-x * torch.exp(theta))) - torch.log(-torch.expm1(-x))
    return torch.where(middle, torch.log1p(torch.where(middle, z, 0.0)), apart)
