"""KL(FisherSnedecor ‖ q), any degrees of freedom.

With a = df1/2, b = df2/2, w = a/(a+b) and v = log x, every member has its mode in v at 0:

    log p(v) = C(a, b) − K(v; a, b),    K = (a+b)·[log(1 − w + w·e^v) − w·v] = a·φ(λ₁) + b·φ(λ₀),    φ(x) = eˣ − 1 − x,

where λ₁ = −log(w + (1−w)e^(−v)), λ₀ = −log(1 − w + w·e^v), and with Binet's remainder R of Stirling's formula
C = ½log(ab/(2π(a+b))) − R(a) − R(b) + R(a+b). K is homogeneous in (a, b), its gradient is (φ(λ₁), φ(λ₀)), and from
(a, b) to (α, β), s = α + β, it grows by exactly

    ΔK = (α − a)·φ(λ₁) + (β − b)·φ(λ₀) + s·log1pmx(g),    g = (w_q − w)·expm1(v)/(1 + w·expm1(v)).

KL = E[ΔK] − ΔC; near equality, where the two cancel, E φ(log q/p), log q/p = ΔC − ΔK. K is analytic in the strip
|Im v| < π and bends at log(b/a): panels of unit length there, growing ones in the tails.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.distributions import FisherSnedecor

from kullback.integrate.gauss_kronrod import panels
from kullback.kernels.pointwise import Pointwise
from kullback.pairs.parameters import read
from kullback.pairs.products import sum_of_products
from kullback.pairs.programs_first import programs_first
from kullback.pairs.ratios import log_ratio
from kullback.pairs.registry import register
from kullback.pairs.second_order import keeps_digits
from kullback.pairs.visible import surely
from kullback.special import binet, binet_bregman, expm1mx, log1pmx

# e^(−48) of p's mass is left out.
_REACH = 48.0
_OVERFLOW = 600.0


@register(
    FisherSnedecor,
    FisherSnedecor,
    method="integral",
    source="E[ΔK] − ΔC over v = log x, log p = C − K, K = (a+b)·log(1−w+w·eᵛ) − a·v; near equality E φ(log q/p)",
)
@programs_first
def kl_fisher_snedecor_fisher_snedecor(p: FisherSnedecor, q: FisherSnedecor) -> tuple[Tensor, Tensor]:
    """See the head of this file."""
    given = [df / 2 for df in (*read(p, "df1", "df2"), *read(q, "df1", "df2"))]
    a, b, alpha, beta = torch.broadcast_tensors(*given)  # type: ignore[no-untyped-call]
    v, kronrod, gauss = _nodes(*(value.detach() for value in (a, b, alpha, beta)))
    columns = [value.unsqueeze(-1) for value in (a, b, alpha, beta)]
    own, other = _level(v, *columns[:2]), _level(v, *columns[2:])
    density = torch.exp(_log_constant(a, b).unsqueeze(-1) - own)
    gap = sum_of_products((alpha, b), (-beta, a)) / (alpha + beta) / (a + b)
    rise = _rise(v, *columns, gap.unsqueeze(-1))
    constant = _constant_difference(a, b, alpha, beta)
    far, coarse = ((weight * density * rise).sum(-1) - constant for weight in (kronrod, gauss))
    apart = keeps_digits(far, (kronrod * density * rise.abs()).sum(-1) + constant.abs())
    if surely(apart):
        return far, (far - coarse).detach().abs()
    log_q_over_p = torch.where(apart.unsqueeze(-1), 0.0, constant.unsqueeze(-1) - rise)
    # Where p has no mass any more q may have some: there φ is taken of both densities, not of their ratio.
    beyond = log_q_over_p > 1
    inner, outer = (torch.where(side, log_q_over_p, 0.0) for side in (~beyond, beyond))
    density_q = torch.exp(_log_constant(alpha, beta).unsqueeze(-1) - other)
    second = torch.where(beyond, density_q - density * (1 + outer), density * expm1mx(inner))
    value = torch.where(apart, far, (kronrod * second).sum(-1))
    error = torch.where(apart, far - coarse, ((kronrod - gauss) * second).sum(-1)).detach().abs()
    return value, error


@Pointwise
def _level(v: Tensor, a: Tensor, b: Tensor) -> Tensor:
    """K, by which the density of v falls."""
    phi_success, phi_failure, _ = _powers(v, a, b)
    return a * phi_success + b * phi_failure


@Pointwise
def _rise(v: Tensor, a: Tensor, b: Tensor, *given: Tensor) -> Tensor:
    """ΔK, by its formula, or as a difference where that has the smaller terms; w_q − w is given, too."""
    alpha, beta, gap = given
    phi_success, phi_failure, ratio = _powers(v, a, b)
    other_success, other_failure, _ = _powers(v, alpha, beta)
    own, other = a * phi_success + b * phi_failure, alpha * other_success + beta * other_failure
    grown = (alpha - a) * phi_success + (beta - b) * phi_failure
    turned = (alpha + beta) * log1pmx(gap * ratio)
    return torch.where(own + other < grown.abs() + turned.abs(), other - own, grown + turned)


def _powers(v: Tensor, a: Tensor, b: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """φ(λ₁), φ(λ₀) and expm1(v)/(1 + w·expm1(v)), which is bounded on either side."""
    # As 1/(1 + b/a), not a/(a + b), whose two derivatives to a large a cancel.
    w, rest = 1 / (1 + b / a), 1 / (1 + a / b)
    up, down = v.clamp(max=_OVERFLOW), v.clamp(min=-_OVERFLOW)
    success = -torch.log1p(rest * torch.expm1(-down))
    failure = -torch.log1p(w * torch.expm1(up))
    # λ₁ = λ₀ + v; of the two the one whose logarithm is taken near 0 follows from the other.
    small, large = w < 0.5, w >= 0.5
    success, failure = (
        torch.where((v > 1) & small, up + failure, success),
        torch.where((v < -1) & large, success - down, failure),
    )
    success = torch.where(v > _OVERFLOW, -torch.log(w), success)
    failure = torch.where(v < -_OVERFLOW, -torch.log(rest), failure)
    success = torch.where(v < -_OVERFLOW, v + failure, success)
    failure = torch.where(v > _OVERFLOW, success - v, failure)
    right = v > 0
    growth = torch.expm1(torch.where(right, -v, v))
    ratio = torch.where(right, -growth / (1 + rest * growth), growth / (1 + w * growth))
    return expm1mx(success), expm1mx(failure), ratio


def _log_constant(a: Tensor, b: Tensor) -> Tensor:
    """C(a, b)."""
    # From the smaller of the two: the slopes of the logarithms to the larger one would cancel.
    least, most = torch.minimum(a, b), torch.maximum(a, b)
    spread = torch.log(least / (2 * math.pi)) - torch.log1p(least / most)
    return spread / 2 - binet(a) - binet(b) + binet(a + b)


def _constant_difference(a: Tensor, b: Tensor, alpha: Tensor, beta: Tensor) -> Tensor:
    """C(α, β) − C(a, b), each difference relatively accurate."""
    both, total = alpha + beta, a + b
    share = alpha / both * ((beta - b) / b) + beta / both * ((alpha - a) / a)
    near = share.abs() < 0.5
    # αβ/(α+β) from the smaller of the two: beside it the larger one's logarithms would cancel.
    (least, most), (least_q, most_q) = ((torch.minimum(x, y), torch.maximum(x, y)) for x, y in ((a, b), (alpha, beta)))
    apart = log_ratio(least_q, least) - torch.log1p(least_q / most_q) + torch.log1p(least / most)
    harmonic = torch.where(near, torch.log1p(torch.where(near, share, 0.0)), apart) / 2

    def remainder(x: Tensor, y: Tensor, gap: Tensor) -> Tensor:
        close = gap.detach().abs() < 0.5 * x.detach()
        step = torch.where(close, gap, 0.0)
        return torch.where(close, binet_bregman(x, torch.where(close, y, x)) + step * binet(x, 1), binet(y) - binet(x))

    own = remainder(a, alpha, alpha - a) + remainder(b, beta, beta - b)
    return harmonic - own + remainder(total, both, (alpha - a) + (beta - b))


def _reach(a: Tensor, b: Tensor) -> Tensor:
    """A v > 0 at which K is at least 48, and not much more.

    Up to the bend K ≥ (a/2)·φ(v), beyond it K grows by (b/2)·φ(−(v − bend)) or more.
    """
    g = 2 * _REACH / a
    rising = torch.minimum(torch.sqrt(2 * g), torch.where(g > 1.26, torch.log1p(2 * g), torch.inf))
    bend = torch.log(b / a).clamp_min(0.0)
    h = 2 * _REACH / b
    return torch.minimum(rising, bend) + torch.where(rising > bend, h + torch.sqrt(2 * h), 0.0)


def _nodes(a: Tensor, b: Tensor, alpha: Tensor, beta: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Nodes of v with two sets of weights: even panels between mode and bends, growing ones out to the reach of q."""
    left, right = -_reach(b, a), _reach(a, b)
    bend_p, bend_q = torch.log(b / a), torch.log(beta / alpha)
    low = torch.minimum(bend_p, bend_q).clamp_max(0.0).clamp(min=left)
    high = torch.maximum(bend_p, bend_q).clamp_min(0.0).clamp(max=right)
    left_q, right_q = torch.minimum(left, -_reach(beta, alpha)), torch.maximum(right, _reach(alpha, beta))
    v, k, g = panels(low, high, 10)
    parts = [(v, k, g)]
    for start, end, count in ((low, left, 8), (high, right, 8), (left, left_q, 4), (right, right_q, 4)):
        length = (end - start).abs()
        unit = length.clamp(1e-300, 1.0).unsqueeze(-1)
        u, k, g = panels(torch.zeros_like(start), torch.asinh(length / unit.squeeze(-1)), count)
        side = torch.sign(end - start).unsqueeze(-1)
        slope = unit * torch.cosh(u)
        parts.append((start.unsqueeze(-1) + side * unit * torch.sinh(u), k * slope, g * slope))
    return tuple(torch.cat([part[i] for part in parts], -1) for i in range(3))  # type: ignore[return-value]
