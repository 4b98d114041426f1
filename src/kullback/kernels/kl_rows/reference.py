"""KL(p || q) of rows in a form whose every term is non-negative.

With u = log q - log p on the support of p (unnormalised log-weights will do), v = u - E_p u, and c the constant for
which t = log q - c satisfies exp(t) = p exp(v):

    KL = log1p( Σ_{p>0} p φ(v) + Σ_{p=0} exp(t) ),    φ(x) = e^x - 1 - x >= 0.

The first sum is quadratic in v, so nothing cancels when p ≈ q; the second is the mass q puts outside the support of p.
The largest t, if M > 1, is taken out so that exp(t) cannot overflow: KL = M + log(e^-M + e^-M Σ). (A smaller M would
cost digits: KL may be far below 1.) The derivatives are

    ∂KL/∂log p = -p v,    ∂KL/∂log q = q - p = p expm1(v - KL).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from kullback._core.exponential import expm1mx
from kullback.kernels.log_ratio import level, relate
from kullback.kernels.sides import Side, both, where


class Centred(NamedTuple):
    """The quantities of the formula above; everything per class is finite and zero where it has no meaning."""

    p: Tensor  # probabilities of p
    v: Tensor  # centred log-ratio, on the support of p
    t: Tensor  # log-weights of q less the centre c, on the support of q
    most: Tensor  # M
    total: Tensor  # e^-M Σ exp(t), so that q = exp(t - M) / total
    kl: Tensor
    infinite: Tensor | None  # rows in which q is zero where p is not


def kl_value(p: Side, q: Side) -> Tensor:
    """KL(p || q) per row."""
    centred = centre(p, q)
    kl = centred.kl if centred.infinite is None else torch.where(centred.infinite, torch.inf, centred.kl)
    return kl.squeeze(-1)


def kl_gradients(needs: Sequence[bool], p: Side, q: Side) -> tuple[Tensor | None, Tensor | None]:
    """∂KL/∂p and ∂KL/∂q, each with respect to logits, or to weights where the side is linear."""
    centred = centre(p, q)
    found = _gradient_to_p(centred, p) if needs[0] else None, _gradient_to_q(centred, p, q) if needs[1] else None
    if centred.infinite is None:
        return found
    to_p, to_q = (None if g is None else torch.where(centred.infinite, 0.0, g) for g in found)
    return to_p, to_q


def centre(p: Side, q: Side) -> Centred:
    """The centred log-ratio of two sides and the divergence that follows from it."""
    p, q = level(p), level(q)
    shared = both(p.support, q.support)
    top = p.log.amax(-1, keepdim=True).detach()
    top = where(None if p.support is None else top != -torch.inf, top, 0.0)

    shifted, shifted_low = p.difference(where(p.support, p.log, top), top)
    weight = torch.exp(shifted)
    low = _sum(shifted_low, p.low)
    weight = where(p.support, weight if low is None else weight * (1 + low), 0.0)
    total = weight.sum(-1, keepdim=True)
    log_total = torch.log(total)
    probs = weight / total

    log_q = where(q.support, q.log, 0.0)
    u, u_low = p.difference(where(shared, log_q, 0.0), where(shared, p.log, 0.0))
    u_low = _sum(u_low, q.low, None if p.low is None else -p.low)
    mean = (probs * u).sum(-1, keepdim=True).detach()
    v = where(shared, u - mean if u_low is None else (u - mean) + u_low, 0.0)
    # The mean above is off by a rounding of |u|, this one by a rounding of |v|; so are their derivatives, which are
    # therefore taken here.
    rest = (probs * v).sum(-1, keepdim=True)
    v = where(shared, v - rest, 0.0)
    # A class with all but a trace of p has a v of that trace, next to which the first mean was coarse.
    trace = (probs * v).sum(-1, keepdim=True).detach()
    v, rest = where(shared, v - trace, 0.0), rest + trace

    above, above_low = p.difference(log_q, top)
    above, error = p.difference(above, mean)
    t_low = _sum(above_low, error, q.low)
    t = (above - log_total) + (-rest if t_low is None else t_low - rest)

    most = where(q.support, t, -torch.inf).amax(-1, keepdim=True).detach()
    most = torch.where(most > 1, most, 0.0)
    scale = torch.exp(-most)
    terms = _inside(probs, v, t, most, visible=p.visible)
    if p.support is not None:
        terms = torch.where(p.support, terms, _outside(q, t, most, top + log_total + mean + rest))
    extra = terms.sum(-1, keepdim=True)
    kl = torch.where(most > 0, most + torch.log(scale + extra), torch.log1p(extra))
    return Centred(probs, v, t, most, scale + extra, kl, _infinite_rows(p.support, q.support))


def _inside(probs: Tensor, v: Tensor, t: Tensor, most: Tensor, *, visible: bool) -> Tensor:
    """The terms p φ(v) e^-M; for large v from p e^v = e^t, which neither overflows nor needs a p that underflowed."""
    large, scale = v > 1, torch.exp(-most)
    if visible and not bool(large.any()):
        return probs * expm1mx(v) * scale
    near = probs * expm1mx(torch.where(large, 0.0, v)) * scale
    far = torch.exp(torch.where(large, t - most, 0.0)) - probs * (1 + v) * scale
    return torch.where(large, far, near)


def _outside(q: Side, t: Tensor, most: Tensor, centre: Tensor) -> Tensor:
    """e^(t - M) where p is zero. From the weight itself where there is one: it has a derivative at zero."""
    if q.weight is not None:
        return q.weight * torch.exp(-centre - most)
    return where(q.support, torch.exp(where(q.support, t - most, 0.0)), 0.0)


def _gradient_to_p(c: Centred, p: Side) -> Tensor:
    """-p v; per weight, p is one over the sum of the weights."""
    probs = c.p if p.weight is None else 1 / p.weight.sum(-1, keepdim=True)
    return where(p.support, -probs * c.v, 0.0)


def _gradient_to_q(c: Centred, p: Side, q: Side) -> Tensor:
    """The difference q - p, from the larger of the two and their log-ratio d: p expm1(d) or -q expm1(-d).

    In v - KL single classes that are far apart would round the log-ratio of all others.
    """
    related = relate(p, q)
    shared = related.in_p & related.in_q
    log_ratio = related.log_ratio + torch.where(shared, _step(c.v - c.kl), 0.0)
    if q.weight is not None:
        total = q.weight.sum(-1, keepdim=True)
        p_over_q = c.p * total / where(q.support, q.weight, 1.0)
        small = log_ratio.abs() < 1
        near = torch.where(shared, -torch.expm1(torch.where(small, -log_ratio, 0.0)), 1.0)
        return torch.where(small, near, 1 - p_over_q) / total
    q_probs = where(q.support, torch.exp(where(q.support, c.t - c.most, 0.0)), 0.0) / c.total
    q_probs = related.q.probs + _step(q_probs)
    up = log_ratio > 0
    excess = torch.where(up, -q_probs, c.p) * torch.expm1(torch.where(up, -log_ratio, log_ratio))
    return _closed(torch.where(shared, excess, where(q.support, q_probs, 0.0)), c.p)


def _closed(gradient: Tensor, probs: Tensor) -> Tensor:
    """The entry of a class with more than half of p from all others: they sum to 0, and it may have lost its digits."""
    most, peak = probs.detach().expand_as(gradient).max(-1, keepdim=True)
    own, others = gradient.gather(-1, peak), gradient.scatter(-1, peak, 0.0)
    return others.scatter(-1, peak, torch.where(most > 0.5, -others.sum(-1, keepdim=True), own))


def _step(x: Tensor) -> Tensor:
    """A zero with the derivatives of x."""
    return x - x.detach()


def _infinite_rows(in_p: Tensor | None, in_q: Tensor | None) -> Tensor | None:
    if in_q is None:
        return None
    missing = ~in_q if in_p is None else in_p & ~in_q
    return missing.any(-1, keepdim=True)


def _sum(*parts: Tensor | None) -> Tensor | None:
    present = [part for part in parts if part is not None]
    return sum(present[1:], present[0]) if present else None
