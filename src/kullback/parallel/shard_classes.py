"""Some classes of a vocabulary that is spread over ranks, and all others as one; called by the distillation losses."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from kullback.parallel.peers import Peers, describe_batch
from kullback.parallel.shard_rows import row_parts, shared_gradient


def shard_label_rows(local_logits: Tensor, labels: Tensor, group: Any) -> Tensor:
    """Cross-entropy per row with classes of the whole vocabulary, from the logit of the class against all others."""
    picked, rest = shard_coarse_logits(local_logits, labels.clamp(min=0).unsqueeze(-1), 1.0, group).unbind(-1)
    return torch.nn.functional.softplus(rest - picked, threshold=700.0)


def vocabulary_size(local_logits: Tensor, group: Any) -> int:
    """The number of classes of all ranks together."""
    return sum(Peers(group).sizes(local_logits.shape[-1], local_logits.device))


def shard_coarse_logits(local_logits: Tensor, ids: Tensor, temperature: float, group: Any) -> Tensor:
    """Logits of k classes and of all others together, the same on every rank: shape (..., k + 1).

    Two all-reduces of 1 and k + 1 numbers per row, and one of 2 (k + 1) in the backward pass.

    Args:
        local_logits: Shape (..., classes of this rank).
        ids: Shape (..., k): classes of the whole vocabulary, counted from the first one of the first rank; -1 for none.
        temperature: Divides the logits.
        group: The ranks.
    """
    peers = Peers(group)
    batch = local_logits.shape[:-1]
    call = {**describe_batch(batch), "classes per row": ids.shape[-1], "sum of the classes": int(ids.sum())}
    peers.agree(call, None, local_logits.device)
    before = sum(peers.sizes(local_logits.shape[-1], local_logits.device)[: peers.rank])
    flat = local_logits.reshape(batch.numel(), local_logits.shape[-1])
    local_ids = _local_ids(ids.reshape(batch.numel(), ids.shape[-1]).long(), before, flat.shape[-1])
    rows: Tensor = _ShardCoarse.apply(peers, temperature, flat, local_ids)
    return rows.reshape(*batch, ids.shape[-1] + 1)


def _local_ids(ids: Tensor, before: int, classes: int) -> Tensor:
    """Ids among the classes of this rank; one more than the last where a class is on another rank or there is none."""
    local = ids - before
    return torch.where((ids >= 0) & (local >= 0) & (local < classes), local, classes).masked_fill(ids < 0, classes + 1)


class _ShardCoarse(torch.autograd.Function):
    """Saves the logits, the ids and numbers per row."""

    @staticmethod
    def forward(ctx: Any, peers: Peers, temperature: float, logits: Tensor, ids: Tensor) -> Tensor:
        work = torch.float64 if logits.is_cpu or logits.dtype == torch.float64 else torch.float32
        rows, classes = logits.shape
        top = torch.full((rows, 1), -math.inf, dtype=work, device=logits.device)
        for part in row_parts(logits) if classes else ():
            top[part] = _others(_extended(logits[part], work, temperature), ids[part])[:, :classes].amax(-1, True)
        peers.max(top)
        shift = torch.where(top.isfinite(), top, 0.0)
        sums = torch.zeros(rows, ids.shape[1] + 1, dtype=work, device=logits.device)
        for part in row_parts(logits):
            wider = _extended(logits[part], work, temperature)
            sums[part, :-1] = wider.gather(-1, ids[part].clamp(max=classes))
            sums[part, -1] = torch.exp(_others(wider, ids[part])[:, :classes] - shift[part]).sum(-1)
        peers.sum(sums)
        rest = shift + torch.log(sums[:, -1:])
        picked = sums[:, :-1].masked_fill(ids > classes, -math.inf)
        ctx.peers, ctx.temperature = peers, temperature
        ctx.save_for_backward(logits, ids, rest)
        return torch.cat([picked, rest], -1)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        logits, ids, rest = ctx.saved_tensors
        grad = shared_gradient(grad, ctx.peers)
        found = torch.empty_like(logits)
        known = torch.where(rest.isfinite(), rest, 0.0)
        for part in row_parts(logits):
            others = _others(_extended(logits[part], rest.dtype, ctx.temperature), ids[part])
            share = torch.exp(others - known[part]) * grad[part, -1:]
            share = torch.where(others > -math.inf, share, 0.0)
            # Classes of other ranks are sent to the end and cut off.
            whole = share.scatter(-1, ids[part], grad[part, :-1])[:, : logits.shape[1]]
            found[part] = (whole / ctx.temperature).to(found.dtype)
        return None, None, found, None


def _extended(logits: Tensor, work: torch.dtype, temperature: float) -> Tensor:
    """The logits over the temperature, and two columns of zeros: a class elsewhere, no class."""
    return torch.nn.functional.pad(logits.detach().to(work) / temperature, (0, 2))


def _others(wider: Tensor, ids: Tensor) -> Tensor:
    """Without the classes that are picked."""
    return wider.scatter(-1, ids, -math.inf)
