"""What a divergence Σ p f(q/p) takes from each unit of mass, as a function of the log-ratio alone.

With r = log p − log q and h = p f(q/p),

    Σ h = Σ p·g(r) + Σ q·g(r),    g = h/(p + q):

an expectation under p and one under q of the same function. Wherever f and its dual are finite at 0, g is bounded, so
each part is integrated where its own law has its mass, and no law's tail has to be resolved by the other's nodes.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import softplus

from kullback.kernels.f_rows.exponential import expm1
from kullback.kernels.f_rows.generator import Generator, Larger
from kullback.kernels.recorder import Recorder, active_recorder
from kullback.pairs.visible import hidden
from kullback.special import expm1mx

Term = Callable[[Tensor], Tensor]
# e to the minus this is 0.
_FAR = 800.0
# Log-ratios of something to nothing are larger than this.
FARTHEST = 1e20
# From here on the exponentials of a power term are multiplied with its weight as logarithms.
_WIDE, _BEYOND = 30.0, 700.0


def term_of(generator: Generator) -> Term:
    """The g of a generator f with f(1) = f'(1) = 0: non-negative and of second order in r."""

    def term(r: Tensor) -> Tensor:
        r = r.clamp(-_FAR, _FAR)
        p_larger = r >= 0
        x = torch.where(p_larger, -r, r)
        # As a quotient: the derivative of a sigmoid near 1 is lost in 1 − σ.
        m, log_m = 1 / (1 + torch.exp(x)), -torch.log1p(torch.exp(x))
        if generator.from_q is None:
            return generator.from_p(Larger(m, log_m, x))
        from_p = generator.from_p(Larger(m, log_m, torch.where(p_larger, x, 0.0)))
        from_q = generator.from_q(Larger(m, log_m, torch.where(p_larger, 0.0, x)))
        return torch.where(p_larger, from_p, from_q)

    return term


def js_term(r: Tensor) -> Tensor:
    """½·[x·tanh x − log cosh x], x = r/2.

    In powers of t = tanh x it is ½·Σ t^(2k)/(2k(2k−1)); from t = 0.1 on nothing cancels in ½·[log 2 − log(1+e) −
    2x·e/(1+e)], e = e^(−2x).
    """
    recorder = None if hidden() else active_recorder()
    if recorder is not None:
        found: Tensor = _Instruction.apply(recorder, r)
        return found
    return _js_formula(r)


class _Instruction(torch.autograd.Function):
    """The term as an instruction of a recorded program, and its derivative r·e/(2(1 + e)²), e = e^−|r|, as another."""

    @staticmethod
    def forward(ctx: Any, recorder: Recorder, r: Tensor) -> Tensor:
        ctx.recorder = recorder
        ctx.save_for_backward(r)
        return recorder.instruction("js_term", r, _js_formula)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[None, Tensor]:
        (r,) = ctx.saved_tensors
        return None, grad * ctx.recorder.instruction("js_slope", r, _js_slope)


def _js_slope(r: Tensor) -> Tensor:
    e = torch.exp(-r.abs())
    return torch.where(e == 0, 0.0, r * e / (2 * (1 + e) ** 2))


def _js_formula(r: Tensor) -> Tensor:
    size = torch.where(r >= 0, r, -r).clamp_max(_FAR)
    small = size < _TURN
    t = torch.tanh(torch.where(small, size, 0.0) / 2)
    square = t * t
    series = torch.full_like(square, _JS_SERIES[-1])
    for coefficient in reversed(_JS_SERIES[:-1]):
        series = torch.addcmul(torch.full_like(square, coefficient), series, square)
    size = torch.where(small, _TURN, size)
    e = torch.exp(-size)
    apart = math.log(2.0) - torch.log1p(e) - size * e / (1 + e)
    return torch.where(small, series * square, apart) / 2


# Where tanh is 0.1, and from the ninth term on nothing is left.
_TURN = 2 * math.atanh(0.1)
_JS_SERIES = [1 / (2 * k * (2 * k - 1)) for k in range(1, 10)]


def half_distance(r: Tensor) -> Tensor:
    """½|p − q|/(p + q), which has a kink at r = 0."""
    x = torch.where(r >= 0, -r, r).clamp_min(-_FAR)
    return -0.5 * expm1(x) / (1 + torch.exp(x))


def excess(r: Tensor) -> Tensor:
    """(p − q)⁺/p, which has a kink at r = 0."""
    larger = r > 0
    return torch.where(larger, -expm1(-torch.where(larger, r, 0.0).clamp_max(_FAR)), 0.0)


def even_share(r: Tensor) -> Tensor:
    """The logarithm of p/(p + q)."""
    return -softplus(-r)


def power_term(log_weight: Tensor, r: Tensor, a: float, log_share: Term = even_share) -> Tensor:
    """e^log_weight·s(r)·[φ(−r) + φ(ar)/a], φ(x) = eˣ − 1 − x: what makes up (∫ p^(1+a) q^(−a) − 1)/a.

    For a large log-ratio its parts, e^(ar) with the weight in one exponent.
    """
    weight = torch.exp(log_weight)
    size = r.abs()
    wide = size * max(a, 1.0) > _WIDE
    inner, outer = torch.where(wide, 0.0, r), torch.where(wide, r, _WIDE).clamp(-FARTHEST, FARTHEST)
    share = log_share(torch.where(wide, outer, inner))
    part = weight * torch.exp(share)
    close = (expm1mx(-inner) + expm1mx(a * inner) / a) * part
    grown = a * outer
    growth = torch.exp((log_weight + grown + share).clamp_max(_BEYOND)) - part
    if abs(a) * _WIDE < 1:  # next to order 1 the ratio's power is next to 1, however large the ratio
        little = grown.abs() < 1
        growth = torch.where(little, part * expm1(torch.where(little, grown, 0.0)), growth)
    apart = weight * torch.exp(torch.where(wide, share - outer, 0.0)) - part + growth / a
    return torch.where(wide, apart, close)
