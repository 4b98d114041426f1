"""The ranks that hold the shards of one vocabulary: the all-reduces of `shard_rows`, and agreement before them."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from typing import Any, TypeVar

import torch
from torch import Tensor

from kullback._core.errors import InputValueError, KullbackError, ShapeError, UnavailableError, explain_problem

_MAX_DIMENSIONS = 8
T = TypeVar("T")


class Peers:
    """A process group.

    Args:
        group: A `torch.distributed` group; None for the default one.
    """

    def __init__(self, group: Any) -> None:
        import torch.distributed as dist

        if not dist.is_available() or not dist.is_initialized():
            raise UnavailableError(
                explain_problem(
                    "There is no process group: the ranks do not know each other yet.",
                    got="torch.distributed that is not initialised",
                    expected="a group whose ranks hold one shard each",
                    instead='torch.distributed.init_process_group("nccl"), or "gloo" on CPU',
                )
            )
        self.group = group

    @property
    def size(self) -> int:
        """Number of ranks."""
        import torch.distributed as dist

        return dist.get_world_size(self.group)

    @property
    def rank(self) -> int:
        """Which of them this process is."""
        import torch.distributed as dist

        return dist.get_rank(self.group)

    def sizes(self, mine: int, device: torch.device) -> list[int]:
        """A number of every rank, in the order of the ranks; one all-reduce."""
        found = torch.zeros(self.size, dtype=torch.int64, device=device)
        found[self.rank] = mine
        return [int(size) for size in self.sum(found).tolist()]

    def sum(self, tensor: Tensor) -> Tensor:
        """The sum over ranks, in place."""
        return self._reduce(tensor, "SUM")

    def max(self, tensor: Tensor) -> Tensor:
        """The largest over ranks, in place."""
        return self._reduce(tensor, "MAX")

    def _reduce(self, tensor: Tensor, operation: str) -> Tensor:
        import torch.distributed as dist

        try:
            dist.all_reduce(tensor, getattr(dist.ReduceOp, operation), group=self.group)
        except RuntimeError as error:
            raise UnavailableError(
                explain_problem(
                    "A rank of the group does not answer: it has died, left, or makes other calls than this one.",
                    got=f"{type(error).__name__}: {str(error).splitlines()[0]}",
                    expected=f"{self.size} ranks that make the same calls in the same order",
                    instead="look at the first error in the logs of all ranks",
                )
            ) from error
        return tensor

    def agree(
        self, call: dict[str, Any], problem: KullbackError | None, device: torch.device, shown: str | None = None
    ) -> None:
        """Raise on every rank if one has a problem, or if two make different calls; one all-reduce of 40 numbers."""
        fields = ["problem", *call]
        numbers = [0 if problem is None else 1, *(value for value in call.values())]
        mine = torch.tensor(numbers, dtype=torch.int64, device=device)
        found = self.max(torch.cat([mine, -mine]))
        largest, smallest = found[: len(fields)].tolist(), (-found[len(fields) :]).tolist()
        if problem is not None:
            raise problem
        if largest[0]:
            raise InputValueError(
                explain_problem(
                    "Another rank of the group refused its arguments.",
                    got="good arguments on this rank",
                    expected="good arguments on every rank",
                    instead="look at the errors of the other ranks",
                )
            )
        different = [name for name, a, b in zip(fields, largest, smallest, strict=True) if a != b]
        if different:
            raise ShapeError(
                explain_problem(
                    "The ranks of the group make different calls.",
                    got=shown
                    or "; ".join(
                        f"{name}: {dict(zip(fields, numbers, strict=True))[name]} here, "
                        f"{smallest[fields.index(name)]} to {largest[fields.index(name)]} over the ranks"
                        for name in different
                    ),
                    expected="the same function of tensors that differ in their last dimension only",
                )
            )


def checked_together(check: Callable[[], T], group: Any, device: torch.device | None) -> T:
    """What `check` returns, if no rank of the group raises in it; an error on one rank becomes one on every rank.

    What is returned has a `description`: text that must be the same on every rank. `check` itself makes no all-reduce,
    since a rank that raises would leave the others waiting.
    """
    problem: KullbackError | None = None
    found: Any = None
    try:
        found = check()
    except KullbackError as error:
        problem = error
    text = "" if problem is not None else found.description
    number = zlib.crc32(text.encode())
    Peers(group).agree({"arguments": number}, problem, device or torch.device("cpu"), shown=f"on this rank {text}")
    result: T = found
    return result


def describe_batch(batch: torch.Size) -> dict[str, int]:
    """A batch shape as a fixed number of integers."""
    sizes = [*batch, *(-1 for _ in range(_MAX_DIMENSIONS))][:_MAX_DIMENSIONS]
    return {"number of batch dimensions": len(batch), **{f"batch size {i}": size for i, size in enumerate(sizes)}}
