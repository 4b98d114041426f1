"""KL(p || q) of rows in a form whose every term is non-negative.

With u = log q - log p on the support of p (unnormalised log-weights will do), v = u - E_p u, and c the constant for
which t = log q - c satisfies exp(t) = p exp(v):

    KL = log1p( Σ_{p>0} p φ(v) + Σ_{p=0} exp(t) ),    φ(x) = e^x - 1 - x >= 0.

The first sum is quadratic in v, so nothing cancels when p ≈ q; the second is the mass q puts outside the support of p.
Where exp(t) would overflow, the largest t, M > 0, is taken out: KL = M + log(e^-M + e^-M Σ). The derivatives are

    ∂KL/∂log p = -p v,    ∂KL/∂log q = q - p = p expm1(v - KL).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from kullback._core.double_double import two_difference
from kullback._core.exponential import expm1mx
from kullback.kernels.sides import Side


class _Centred(NamedTuple):
    """The quantities of the formula above; everything per class is finite and zero where it has no meaning."""

    p: Tensor  # probabilities of p
    v: Tensor  # centred log-ratio, on the support of p
    in_p: Tensor
    in_q: Tensor
    kl: Tensor
    q: Tensor  # probabilities of q
    infinite: Tensor  # rows in which q is zero where p is not


def kl_value(p: Side, q: Side) -> Tensor:
    """KL(p || q) per row."""
    centred = _centre(p, q)
    return torch.where(centred.infinite.squeeze(-1), torch.inf, centred.kl.squeeze(-1))


def kl_gradients(needs: Sequence[bool], p: Side, q: Side) -> tuple[Tensor | None, Tensor | None]:
    """∂KL/∂p and ∂KL/∂q, each with respect to logits, or to weights where the side is linear."""
    centred = _centre(p, q)
    to_p = _gradient_to_p(centred, p) if needs[0] else None
    to_q = _gradient_to_q(centred, q) if needs[1] else None
    return to_p, to_q


def _centre(p: Side, q: Side) -> _Centred:
    in_p, in_q = p.log != -torch.inf, q.log != -torch.inf
    both = in_p & in_q
    top = _row_max(p.log)

    shifted, shifted_low = two_difference(torch.where(in_p, p.log, top), top)
    weight = torch.where(in_p, torch.exp(shifted) * (1 + _plus(shifted_low.detach(), p.low)), 0.0)
    total = weight.sum(-1, keepdim=True)
    log_total = torch.log(total)
    probs = weight / total

    log_q = torch.where(in_q, q.log, 0.0)
    u, u_low = two_difference(torch.where(both, log_q, 0.0), torch.where(both, p.log, 0.0))
    u_low = _plus(_plus(u_low.detach(), q.low), p.low, -1)
    mean = (probs * u).sum(-1, keepdim=True)
    v = torch.where(both, (u - mean) + u_low, 0.0)
    # The mean above is off by a rounding of |u|; this one by a rounding of |v|. Exactly, it is constant zero.
    rest = (probs * v).sum(-1, keepdim=True).detach()
    v = torch.where(both, v - rest, 0.0)

    above, above_low = two_difference(log_q, top)
    above, error = two_difference(above, mean)
    t = (above - log_total) + (_plus(above_low + error, q.low).detach() - rest)

    most = torch.where(in_q, t, -torch.inf).amax(-1, keepdim=True).clamp(min=0.0).detach()
    scale = torch.exp(-most)
    centre = top + log_total + mean + rest
    terms = torch.where(in_p, _inside(probs, v, t, most, scale), _outside(q, in_q, t, most, centre))
    extra = terms.sum(-1, keepdim=True)
    kl = torch.where(most > 0, most + torch.log(scale + extra), torch.log1p(extra))
    q_probs = torch.where(in_q, torch.exp(torch.where(in_q, t - most, 0.0)), 0.0) / (scale + extra)
    infinite = (in_p & ~in_q).any(-1, keepdim=True)
    return _Centred(probs, v, in_p, in_q, kl, q_probs, infinite)


def _inside(probs: Tensor, v: Tensor, t: Tensor, most: Tensor, scale: Tensor) -> Tensor:
    """The terms p φ(v) e^-M; for large v from p e^v = e^t, which neither overflows nor needs a p that underflowed."""
    large = v > 1
    near = probs * expm1mx(torch.where(large, 0.0, v)) * scale
    far = torch.exp(torch.where(large, t - most, 0.0)) - probs * (1 + v) * scale
    return torch.where(large, far, near)


def _outside(q: Side, in_q: Tensor, t: Tensor, most: Tensor, centre: Tensor) -> Tensor:
    """e^(t - M) where p is zero. From the weight itself where there is one: it has a derivative at zero."""
    if q.weight is not None:
        return q.weight * torch.exp(-centre - most)
    return torch.where(in_q, torch.exp(torch.where(in_q, t - most, 0.0)), 0.0)


def _gradient_to_p(c: _Centred, p: Side) -> Tensor:
    """-p v; per weight, p is one over the sum of the weights."""
    probs = c.p if p.weight is None else 1 / p.weight.sum(-1, keepdim=True)
    return torch.where(c.infinite | ~c.in_p, 0.0, -probs * c.v)


def _gradient_to_q(c: _Centred, q: Side) -> Tensor:
    """The difference q - p, as p expm1(log q/p) while KL is small: the logarithm is then as accurate as v."""
    log_ratio = torch.where(c.in_p, c.v - c.kl, 0.0)
    if q.weight is not None:
        total = q.weight.sum(-1, keepdim=True)
        p_over_q = c.p * total / torch.where(c.in_q, q.weight, 1.0)
        to_q = torch.where(c.kl < 1, torch.where(c.in_p, -torch.expm1(-log_ratio), 1.0), 1 - p_over_q) / total
        return torch.where(c.infinite, 0.0, to_q)
    small = c.in_p & (log_ratio < 1) & (c.kl < 1)
    near = c.p * torch.expm1(torch.where(small, log_ratio, 0.0))
    return torch.where(c.infinite | ~c.in_q, 0.0, torch.where(small, near, c.q - c.p))


def _row_max(log: Tensor) -> Tensor:
    top = log.amax(-1, keepdim=True).detach()
    return torch.where(top == -torch.inf, 0.0, top)


def _plus(base: Tensor, low: Tensor | None, sign: int = 1) -> Tensor:
    return base if low is None else base + sign * low
