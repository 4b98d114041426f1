"""A correct divergence, and the same one with one fault planted at a time."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor


def _phi(x: Tensor) -> Tensor:
    """e^x - 1 - x without cancellation: the series below 1/2, the difference above."""
    small = x.abs() < 0.5
    near = torch.where(small, x, 0.0)
    far = torch.where(small, 0.0, x)
    series = torch.ones_like(x)
    for k in range(18, 2, -1):
        series = 1 + series * near / k
    return torch.where(small, near * near * series / 2, torch.expm1(far) - far)


def kl(p: Tensor, q: Tensor, mask: Tensor | None = None) -> Tensor:
    """KL(p || q) of logits, one value a row: log1p(E_p[phi(u - E_p u)]), u = logits_q - logits_p.

    Computed in float64; rows that are masked are replaced before anything reads them.
    """
    if p.shape[-1] != q.shape[-1]:
        raise ValueError(f"{p.shape[-1]} classes against {q.shape[-1]}")
    dtype = torch.promote_types(torch.promote_types(p.dtype, q.dtype), torch.float32)
    p, q = torch.broadcast_tensors(p.double(), q.double())
    if mask is not None:
        p, q = (torch.where(mask[..., None], side, 0.0) for side in (p, q))
    inside = p > -torch.inf
    infinite = (inside & (q == -torch.inf)).any(-1)
    # A class outside the support of p has weight 0: give it any finite logit, and its gradient is 0 too. It still
    # counts in q's normaliser, which is why the mass of q on it, relative to that on p's support, is added.
    a = torch.where(inside & ~infinite[..., None], p, -torch.inf)
    a = torch.where(infinite[..., None], 0.0, a)
    b = torch.where(infinite[..., None], 0.0, q)
    inside = inside | infinite[..., None]
    weight = torch.where(inside, a, -1e300).softmax(-1)
    u = torch.where(inside, b, 0.0) - torch.where(inside, a, 0.0)
    v = torch.where(inside, u - (weight * u).sum(-1, keepdim=True), 0.0)
    v = torch.where(inside, v - (weight * v).sum(-1, keepdim=True), 0.0)
    top = torch.where(inside, v, -1e300).amax(-1, keepdim=True).detach()
    small = (top < 30).squeeze(-1)
    centred = torch.log1p((weight * _phi(torch.where(small[..., None], v, 0.0))).sum(-1))
    log_weight = torch.where(inside, torch.where(inside, a, -1e300).log_softmax(-1), 0.0)
    direct = torch.where(inside, log_weight + v, -1e300).logsumexp(-1)
    value = torch.where(small, centred, direct)
    on = torch.where(inside, b, -1e300).logsumexp(-1)
    off = torch.where(inside | (b == -torch.inf), -1e300, b).logsumexp(-1)
    value = value + torch.where(off > -1e299, torch.nn.functional.softplus(off - on), 0.0)
    value = torch.where(infinite, torch.inf, value)
    if mask is not None:
        value = torch.where(mask, value, 0.0)
    return value.to(dtype)


def naive(p: Tensor, q: Tensor) -> Tensor:
    """The textbook formula: NaN at a masked class, noise near equality."""
    return (p.softmax(-1) * (p.log_softmax(-1) - q.log_softmax(-1))).sum(-1)


def _where_masked(fault: Callable[[Tensor, Tensor], Tensor]) -> Callable[[Tensor, Tensor], Tensor]:
    """Use the fault only for rows that hold a -inf in p."""

    def divergence(p: Tensor, q: Tensor) -> Tensor:
        return fault(p, q) if p.dim() == 2 and not _wrapped(p) and bool((p == -torch.inf).any()) else kl(p, q)

    return divergence


def _wrapped(x: Tensor) -> bool:
    return torch.compiler.is_compiling() or torch._C._functorch.is_functorch_wrapped_tensor(x)


def _doubled_gradient(x: Tensor) -> Tensor:
    return torch.where(x.isfinite(), 2 * x - x.detach(), x)


def wrong_sign(p: Tensor, q: Tensor) -> Tensor:
    return -kl(p, q)


def swapped(p: Tensor, q: Tensor) -> Tensor:
    return kl(q, p)


def in_bits(p: Tensor, q: Tensor) -> Tensor:
    return kl(p, q) / 0.6931471805599453


def mean_of_classes(p: Tensor, q: Tensor) -> Tensor:
    return kl(p, q) / p.shape[-1]


def detached_p(p: Tensor, q: Tensor) -> Tensor:
    return kl(p.detach(), q)


def doubled_gradient(p: Tensor, q: Tensor) -> Tensor:
    return kl(p, _doubled_gradient(q))


nan_at_a_mask = _where_masked(naive)


@_where_masked
def nan_gradient_at_a_mask(p: Tensor, q: Tensor) -> Tensor:
    terms = p.softmax(-1) * (p.log_softmax(-1) - q.log_softmax(-1))
    return torch.where(p == -torch.inf, 0.0, terms).sum(-1)


def infinity_everywhere(p: Tensor, q: Tensor) -> Tensor:
    value = kl(p, q)
    return value + torch.where(value.detach() == torch.inf, torch.inf, 0.0).sum()


def wrong_broadcast(p: Tensor, q: Tensor) -> Tensor:
    if p.shape != q.shape and p.shape[-1] == q.shape[-1]:
        p, q = torch.broadcast_tensors(p, q)
        return kl(p.flip(0), q.flip(-2))
    return kl(p, q)


def broadcast_classes(p: Tensor, q: Tensor) -> Tensor:
    return kl(*torch.broadcast_tensors(p, q))


def cancellation_in_float32(p: Tensor, q: Tensor) -> Tensor:
    return naive(p, q) if p.dtype == torch.float32 else kl(p, q)


def float64_to_float32(p: Tensor, q: Tensor) -> Tensor:
    return kl(p, q).float()


def half_overflows(p: Tensor, q: Tensor) -> Tensor:
    value = kl(p, q)
    return value * 1.25 if p.dtype == torch.float16 else value


def no_maximum_subtracted(p: Tensor, q: Tensor) -> Tensor:
    weight = p.exp() / p.exp().sum(-1, keepdim=True)
    return kl(p, q) + 0 * weight.sum(-1)


def writes_to_q(p: Tensor, q: Tensor) -> Tensor:
    if not q.requires_grad and not _wrapped(p) and not _wrapped(q) and q.is_contiguous():
        value = kl(p, q)
        q.sub_(1.0)
        return value
    return kl(p, q)


def reads_a_value(p: Tensor, q: Tensor) -> Tensor:
    return kl(p, q) if (p < 1e30).all().item() else kl(p - 1e30, q)


def gradient_of_a_constant(p: Tensor, q: Tensor) -> Tensor:
    gradient = q.softmax(-1) - p.softmax(-1)
    finite = torch.where(q.isfinite(), q, 0.0)
    return kl(p, q.detach()).detach() + (gradient.detach() * (finite - finite.detach())).sum(-1)


def mask_by_multiplying(p: Tensor, q: Tensor, mask: Tensor | None = None) -> Tensor:
    return kl(p, q) if mask is None else kl(p, q) * mask


def random_last_digits(p: Tensor, q: Tensor) -> Tensor:
    return kl(p, q) * (1 + 1e-13 * torch.rand((), dtype=torch.float64)).to(p.dtype)


def needs_a_row(p: Tensor, q: Tensor) -> Tensor:
    return kl(p, q) + 0 * p.detach().nan_to_num().amax()


def needs_contiguous(p: Tensor, q: Tensor) -> Tensor:
    return kl(p.view(-1).view(p.shape), q)


def sum_of_rows(p: Tensor, q: Tensor) -> Tensor:
    return kl(p, q).sum()


def mean_of_rows(p: Tensor, q: Tensor) -> Tensor:
    value = kl(p, q)
    return value.sum() / max(value.numel(), 1)
