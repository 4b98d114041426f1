"""Divergences from a mixture: skewed KL and the Jensen-Shannon family.

KL(p || αp + βq) with α + β = 1 is Σ p f(q/p) with f(t) = w - log(1 + w), w = β(t - 1).
"""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor

from kullback._core.special import expm1mx, log1pmx
from kullback.kernels.f_rows.exponential import expm1
from kullback.kernels.f_rows.generator import Generator, Larger, f_divergence
from kullback.kernels.f_rows.ratios import root
from kullback.kernels.sides import Side


def skew_kl_value(p: Side, q: Side, alpha: float) -> Tensor:
    """KL(p || αp + (1-α)q)."""
    return f_divergence(p, q, skew_kl_generator(alpha))


def skew_kl_generator(alpha: float) -> Generator:
    """The f of KL(p || αp + (1-α)q)."""
    beta = 1.0 - alpha
    return Generator(
        lambda c: c.m * _skewed(c.x, alpha, beta),
        lambda c: c.m * _skewed_dual(c.x, alpha, beta),
        only_p=_skewed_at_zero(alpha, beta),
        only_q=beta,
        slope_p=None if beta > 0 else 0.0,
        slope_q=-beta * beta / alpha if alpha > 0 else None,
    )


def scaled_js_value(p: Side, q: Side, beta: float) -> Tensor:
    """KL(p || m)/(1-β) + KL(q || m)/β with m = βp + (1-β)q; each part is 0 in the limit in which it is 0/0."""
    return f_divergence(p, q, scaled_js_generator(beta))


def scaled_js_generator(beta: float) -> Generator:
    """The f of `scaled_js_value`."""
    rest = 1.0 - beta
    return Generator(
        lambda c: c.m * (_per_share(_skewed, c.x, beta, rest) + _per_share(_skewed_dual, c.x, rest, beta)),
        lambda c: c.m * (_per_share(_skewed_dual, c.x, beta, rest) + _per_share(_skewed, c.x, rest, beta)),
        only_p=_minus_log_per_rest(beta, rest),
        only_q=_minus_log_per_rest(rest, beta),
        slope_p=None,
        slope_q=None,
    )


def scaled_js_weights(beta: float) -> tuple[float, float, float]:
    """β and what multiplies KL(p || m) and KL(q || m); meaningless at the ends."""
    return beta, (1.0 / (1.0 - beta) if beta < 1.0 else 0.0), (1.0 / beta if beta > 0.0 else 0.0)


def js_value(p: Side, q: Side) -> Tensor:
    """½ KL(p || m) + ½ KL(q || m), m = (p + q)/2."""
    return f_divergence(p, q, js_generator())


def js_generator() -> Generator:
    """The f of the Jensen-Shannon divergence."""
    half = math.log(2.0) / 2
    return Generator(_js, None, half, half, None, None)


def js_distance_value(p: Side, q: Side, unit: float) -> Tensor:
    """The root of the divergence in multiples of `unit` nats."""
    return root(js_value(p, q) / unit)


def _js(c: Larger) -> Tensor:
    return 0.5 * c.m * (_skewed(c.x, 0.5, 0.5) + _skewed_dual(c.x, 0.5, 0.5))


def _skewed(x: Tensor, alpha: float, beta: float) -> Tensor:
    """f(eˣ) = w - log(1 + w), w = β(eˣ - 1) in [-β, 0]."""
    if alpha == 0.0:
        return expm1mx(x)
    w = beta * expm1(x)
    near = w > -0.5
    # 1 + w = α + βeˣ keeps a small α that 1 - β has lost.
    far = w - torch.log(alpha + beta * torch.exp(x))
    return torch.where(near, -log1pmx(torch.where(near, w, 0.0)), far)


def _skewed_dual(x: Tensor, alpha: float, beta: float) -> Tensor:
    """f*(s) = s (w - log(1 + w)), w = β(1/s - 1), s = eˣ; for large w as β(1-s) + s log(s / (β + αs))."""
    if beta == 0.0:
        return torch.zeros_like(x) * x
    s = torch.exp(x)
    w = beta * torch.expm1(-x.clamp(min=-700.0))
    near = w < 1
    far = -beta * expm1(x) + s * (x - torch.log(beta + alpha * s))
    return torch.where(near, -s * log1pmx(torch.where(near, w, 0.0)), far)


def _skewed_at_zero(alpha: float, beta: float) -> float:
    """f(0) = -log α - β = β²/2 + β³/3 + ..., 64 terms of which leave 1e-19 at β = ½."""
    if beta <= 0.5:
        return sum(beta**k / k for k in range(2, 66))
    return -math.log(alpha) - beta if alpha > 0 else math.inf


def _per_share(half: Callable[[Tensor, float, float], Tensor], x: Tensor, alpha: float, beta: float) -> Tensor:
    value = half(x, alpha, beta)
    return value if beta == 0.0 else value / beta


def _minus_log_per_rest(share: float, rest: float) -> float:
    """-log(share) / rest for share + rest = 1."""
    if share == 0.0:
        return math.inf
    if rest == 0.0:
        return 1.0
    return -(math.log1p(-rest) if rest < 0.5 else math.log(share)) / rest
