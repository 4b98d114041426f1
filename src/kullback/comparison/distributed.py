"""A comparison over the processes that torchrun started: rows shared by blocks, summaries merged exactly on rank 0."""

from __future__ import annotations

import json
import os
from datetime import timedelta

import torch
from torch import distributed as dist

from kullback._core.errors import UnavailableError
from kullback.comparison.accumulator import KLAccumulator
from kullback.comparison.compare import Job
from kullback.comparison.summary import Summary

_TIMEOUT = timedelta(hours=12)  # a rank may have much slower rows; one that dies closes its connection at once


def world() -> tuple[int, int]:
    """Rank and number of processes, as torchrun sets them; (0, 1) without it."""
    return int(os.environ.get("RANK", "0")), int(os.environ.get("WORLD_SIZE", "1"))


def share_rows(job: Job, rank: int, size: int) -> None:
    """Leave to this process its part of the rows: whole blocks, so that no block is split."""
    blocks = -(-job.count // job.block_rows)
    start, stop = (min(blocks * part // size * job.block_rows, job.count) for part in (rank, rank + 1))
    job.next_row, job.stop = start, stop
    for accumulator in job.accumulators:
        accumulator.first_row = start


def join_ranks() -> None:
    """Meet the other processes."""
    dist.init_process_group("gloo", timeout=_TIMEOUT)


def merge_ranks(job: Job, rank: int, size: int, interrupted: bool) -> bool:
    """Give rank 0 the rows of all; whether any process was interrupted, so that rows are missing.

    Raises:
        UnavailableError: If a process died.
    """
    state = {
        "interrupted": interrupted,
        "accumulators": [accumulator.state_dict() for accumulator in job.accumulators],
        "paired": [summary.state() for summary in job.paired.values()],
    }
    try:
        gathered = _gather(json.dumps(state).encode(), rank, size)
    except RuntimeError as error:
        raise UnavailableError(
            f"A process of this comparison died, so rows are missing and no report is written ({error})."
        ) from error
    if rank:
        return interrupted
    for other in gathered[1:]:
        read = json.loads(other)
        interrupted = interrupted or bool(read["interrupted"])
        for accumulator, saved in zip(job.accumulators, read["accumulators"], strict=True):
            part = KLAccumulator()
            part.load_state_dict(saved)
            accumulator.merge(part)
        for summary, saved in zip(job.paired.values(), read["paired"], strict=True):
            summary.merge(Summary.from_state(saved))
    job.stop = job.count
    job.next_row = 0 if interrupted else job.count
    return interrupted


def _gather(content: bytes, rank: int, size: int) -> list[bytes]:
    """The bytes of all ranks on rank 0, as tensors: torch's own object gathering would read pickles."""
    lengths = [torch.zeros(1, dtype=torch.int64) for _ in range(size)]
    dist.all_gather(lengths, torch.tensor([len(content)]))
    longest = int(max(lengths))
    mine = torch.zeros(longest, dtype=torch.uint8)
    mine[: len(content)] = torch.frombuffer(bytearray(content), dtype=torch.uint8)
    all_of_them = [torch.zeros_like(mine) for _ in range(size)] if rank == 0 else None
    dist.gather(mine, all_of_them)
    found = all_of_them or []
    return [bytes(t[: int(n)].numpy()) for t, n in zip(found, lengths, strict=False)]


def leave_ranks() -> None:
    """Part from the other processes."""
    if dist.is_initialized():
        dist.destroy_process_group()
