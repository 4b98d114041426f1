"""Gradients of A KL(p || m) + B KL(q || m), m = αp + βq with α + β = 1, of rows.

The derivative with respect to p is, up to a constant that drops out where p is normalised, a function h of log q/p.
Where most classes have the same ratio t and few make up for it, h differs between them by less than it is rounded to.
It is therefore taken about t: with P and Q the shares of p and q in m there, P = α/(α + βt), and w = log(q/p) - log t,

    h(log q/p) - h(log t) = (A Q + B α/β P) σ - A (σ - log(1 + σ)),    1 + σ = 1/(P + Q eʷ),

σ being the relative change of p/m. Nothing of this is rounded at the size of what is subtracted, and a class with
nearly all of p, of which t is taken, has an entry that is a sum over the others.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from kullback._core.special import log1pmx
from kullback.kernels.f_rows.exponential import expm1
from kullback.kernels.f_rows.pair import Frozen, Pair, read_pair
from kullback.kernels.kl_rows.reference import kl_gradients
from kullback.kernels.sides import Side

_FAR = 300.0  # of log t: beyond, h is taken about 1
_LEAST = 1e-290  # a smaller share is taken for this one: σ, at most one over it, would overflow

Gradients = Callable[..., Sequence[Tensor | None]]


def mixture_gradients(weights: Callable[..., tuple[float, float, float]]) -> Gradients:
    """`(needs, p, q, *options) -> ∂/∂p, ∂/∂q`, each to logits, or to weights where the side is linear.

    Args:
        weights: From the options to α, A and B.
    """

    def gradients(needs: Sequence[bool], p: Side, q: Side, *options: Any) -> Sequence[Tensor | None]:
        share, a, b = weights(*options)
        if share == 0.0:
            return _times(a, kl_gradients(needs, p, q))
        if share == 1.0:
            return _times(b, kl_gradients(needs[::-1], q, p))[::-1]
        pair = read_pair(p, q, Frozen(a != 0.0, b != 0.0, False, False))
        shares = max(share, _LEAST), 1.0 - share
        return (
            _to_first(pair, p, shares, (a, b)) if needs[0] else None,
            _to_first(pair.swapped(), q, shares[::-1], (b, a)) if needs[1] else None,
        )

    return gradients


def _times(factor: float, gradients: Sequence[Tensor | None]) -> list[Tensor | None]:
    return [None if g is None else factor * g for g in gradients]


def _to_first(pair: Pair, side: Side, shares: tuple[float, float], weights: tuple[float, float]) -> Tensor:
    (share, rest), (a, b) = shares, weights
    shared = pair.in_p & pair.in_q
    pivot = torch.where(shared, pair.p.detach(), -1.0).argmax(-1, keepdim=True)
    ratio = pair.log_ratio.detach()
    log_t = ratio.gather(-1, pivot)
    near = log_t.abs() < _FAR
    high, low = (part - part.gather(-1, pivot) for part in pair.given)
    w = torch.where(near, high + low, ratio) + (pair.log_ratio - ratio)
    t = torch.exp(torch.where(near, log_t, 0.0))
    of_p, of_q = share / (share + rest * t), rest * t / (share + rest * t)
    slope = a * of_q + b * share / rest * of_p
    sigma, log = _change(torch.where(shared, w, 0.0), shared, of_p, of_q)
    small = sigma.abs() <= 0.5
    near = slope * sigma + a * log1pmx(torch.where(small, sigma, 0.0))
    # Where σ is large, A Q σ and A σ nearly cancel.
    h = torch.where(small, near, (b * share / rest - a) * of_p * sigma + a * log)

    if side.weight is None:
        mean = torch.where(pair.in_p, pair.p * h, 0.0).sum(-1, keepdim=True)
        return torch.where(pair.in_p, pair.p * _centred(h - mean, pair), 0.0)
    only_q = pair.in_q & ~pair.in_p
    # At p = 0 < q, σ = -1: the derivative is finite without A, and 0 by convention with it.
    h = torch.where(only_q, -slope if a == 0.0 else torch.zeros_like(slope), h)
    mean = torch.where(pair.in_p, pair.p * h, pair.zero_p * h).sum(-1, keepdim=True)
    less = _centred(h - mean, pair)
    if a != 0.0:
        less = torch.where(only_q, 0.0, less)
        return less / torch.where(only_q, 0.0, side.weight).sum(-1, keepdim=True)
    return less / side.weight.sum(-1, keepdim=True)


def _centred(less: Tensor, pair: Pair) -> Tensor:
    """A class with all but a trace of p is as far from the mean as that trace, next to which the mean was rounded."""
    for _ in range(2):
        less = less - torch.where(pair.in_p, pair.p * less, 0.0).sum(-1, keepdim=True).detach()
    return less


def _change(w: Tensor, shared: Tensor, of_p: Tensor, of_q: Tensor) -> tuple[Tensor, Tensor]:
    """σ and log(1 + σ), from e^-|w| so that nothing overflows; where q is zero, w is -inf."""
    below = w <= 0
    x = torch.where(below, w, -w)
    lesser, lost = torch.where(shared, torch.exp(x), 0.0), torch.where(shared, -expm1(x), 1.0)
    y = torch.where(below, of_p + of_q * lesser, of_q + of_p * lesser)
    sigma = of_q * torch.where(below, lost, -lost) / y
    return sigma, -torch.log(y) - torch.where(below, 0.0, w)
