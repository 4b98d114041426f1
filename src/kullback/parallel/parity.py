"""Runs a divergence of shards on gloo ranks of this machine beside one process; called by `kullback.testing`."""

from __future__ import annotations

import datetime
import math
import tempfile
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

ShardedFunction = Callable[[Tensor, Tensor, Any], Tensor]
WholeFunction = Callable[[Tensor, Tensor], Tensor]


def cases(classes: int) -> dict[str, tuple[Tensor, Tensor]]:
    """Logits of p and q, by what is hard about them."""
    generator = torch.Generator().manual_seed(0)
    p, q = torch.randn(2, 4, classes, generator=generator) * 3
    near = p + 1e-4 * torch.randn(4, classes, generator=generator)
    excluded = torch.rand(4, classes, generator=generator) < 0.3
    excluded[:, -1] = False
    return {
        "ordinary": (p, q),
        "nearly equal": (p, near),
        "equal": (p, p.clone()),
        "excluded classes": (p.masked_fill(excluded, -math.inf), q.masked_fill(excluded, -math.inf)),
        "large logits": (p * 30, q * 30 + 500),
        "float64": (p.double(), (p + 1e-7 * q).double()),
    }


def shard_sizes(classes: int, ranks: int) -> list[int]:
    """Unequal shards: each rank has about half of what is left, the last one the rest."""
    sizes: list[int] = []
    for _ in range(ranks - 1):
        sizes.append(max(1, (classes - sum(sizes)) // 2))
    return [*sizes, classes - sum(sizes)]


def run_ranks(sharded: ShardedFunction, whole: WholeFunction, ranks: int, classes: int, rtol: float) -> list[str]:
    """What disagrees, one line each; empty where nothing does."""
    from torch.multiprocessing.spawn import spawn

    with tempfile.TemporaryDirectory() as folder:
        arguments = (sharded, whole, ranks, classes, rtol, folder)
        spawn(_work, arguments, nprocs=ranks, join=True)  # type: ignore[no-untyped-call]
        found = sorted(Path(folder).glob("findings-*"))
        return [line for path in found for line in path.read_text(encoding="utf-8").splitlines()]


def _work(  # noqa: PLR0917 - handed over by position to the process
    rank: int, sharded: ShardedFunction, whole: WholeFunction, ranks: int, classes: int, rtol: float, folder: str
) -> None:
    import torch.distributed as dist

    torch.set_num_threads(1)
    dist.init_process_group(
        "gloo",
        init_method=f"file://{folder}/meeting",
        rank=rank,
        world_size=ranks,
        timeout=datetime.timedelta(seconds=300),
    )
    findings: list[str] = []
    try:
        sizes = shard_sizes(classes, ranks)
        place = slice(sum(sizes[:rank]), sum(sizes[: rank + 1]))
        for name, (p, q) in cases(classes).items():
            for loss_on in ("every rank", "rank 0"):
                findings += _compare(sharded, whole, (p, q), place, about=(rank, name, loss_on), rtol=rtol)
    except Exception:  # noqa: BLE001 - reported by the parent, whatever it is
        findings.append(f"rank {rank}: {traceback.format_exc().strip().splitlines()[-1]}")
    (Path(folder) / f"findings-{rank}").write_text("\n".join(findings), encoding="utf-8")
    dist.destroy_process_group()


def _compare(
    sharded: ShardedFunction,
    whole: WholeFunction,
    logits: tuple[Tensor, Tensor],
    place: slice,
    *,
    about: tuple[int, str, str],
    rtol: float,
) -> list[str]:
    rank, name, loss_on = about
    local = [t[:, place].clone().requires_grad_() for t in logits]
    rows = sharded(local[0], local[1], None)
    everything = [t.clone().requires_grad_() for t in logits]
    expected = whole(everything[0], everything[1])
    found = []
    title = f"rank {rank}, {name}"
    if not _close(rows.detach(), expected.detach(), rtol):
        found.append(f"{title}: value {rows.tolist()} instead of {expected.tolist()}")
    factors = torch.arange(1.0, rows.numel() + 1).reshape(rows.shape).to(rows.dtype)
    loss = (rows * factors).sum() * (1.0 if loss_on == "every rank" or rank == 0 else 0.0)
    gradients = torch.autograd.grad(loss, local)
    wanted = torch.autograd.grad((expected * factors.to(expected.dtype)).sum(), everything)
    for side, gradient, other in zip("pq", gradients, wanted, strict=True):
        scale = other.abs().amax(-1, keepdim=True)
        if not bool(((gradient - other[:, place]).abs() <= rtol * scale).all()):
            ratio = float(gradient.norm() / other[:, place].norm())
            found.append(f"{title}, loss on {loss_on}: gradient to {side} is wrong, {ratio:.4g} times the right length")
    return found


def _close(a: Tensor, b: Tensor, rtol: float) -> bool:
    same = (a == b) | ((a - b).abs() <= rtol * b.abs())
    return a.shape == b.shape and bool(same.all())
