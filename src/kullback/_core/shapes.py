"""Class dimension, batch shapes and blocks of rows: the one place where sizes are compared and cut up."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator

import torch
from torch import Tensor

from kullback._core.errors import ShapeError, explain_problem

# Elements of one block. On CPU a block's dozen float64 temporaries then stay within a few megabytes of cache; on an
# accelerator launches cost more than memory. A single row is never cut.
_BLOCK = {"cpu": 1 << 15}
_ACCELERATOR_BLOCK = 1 << 23

Index = tuple[int | slice, ...]


def joint_shape(*shapes: torch.Size) -> torch.Size:
    """The broadcast shape. `torch.broadcast_shapes` would import the symbolic shapes of torch first, for seconds."""
    if all(shape == shapes[0] for shape in shapes[1:]):
        return shapes[0]
    joint = [1] * max(len(shape) for shape in shapes)
    for shape in shapes:
        for place, size in enumerate(reversed(shape), start=1):
            if joint[-place] == 1:
                joint[-place] = size
            elif size not in (1, joint[-place]):
                raise RuntimeError(f"shapes {', '.join(str(tuple(s)) for s in shapes)} do not broadcast")
    return torch.Size(joint)


def written_shape(tensor: Tensor) -> str:
    """What an error says of a tensor's shape; a nested tensor has none."""
    return "with rows of several lengths (nested)" if tensor.is_nested else f"of shape {tuple(tensor.shape)}"


def described(given: object) -> str:
    """What an error says of an argument: a number or a text with its value, a tensor with its shape, else the class."""
    if isinstance(given, bool | int | float | complex | str):
        return f"the {type(given).__name__} {given!r}"
    if isinstance(given, type):
        return f"the class {given.__name__}, not an object of it"
    if given is None:
        return "None"
    return f"a {type(given).__name__}" + (f" {written_shape(given)}" if isinstance(given, Tensor) else "")


def classes_last(tensor: Tensor, dim: int, name: str) -> Tensor:
    """A view of a tensor whose last dimension holds the classes."""
    if tensor.dim() == 0:
        raise ShapeError(
            explain_problem(
                f"{name} has no class dimension.",
                got="a 0-dimensional tensor",
                expected="at least one dimension, whose entries are the classes",
                instead="for a Bernoulli probability x: Probs(torch.stack([1 - x, x], -1))",
            )
        )
    if not -tensor.dim() <= dim < tensor.dim():
        raise ShapeError(
            explain_problem(
                f"{name} has no dimension {dim}.",
                got=f"shape {tuple(tensor.shape)}",
                expected=f"dim between {-tensor.dim()} and {tensor.dim() - 1}",
            )
        )
    if tensor.shape[dim] == 0:
        raise ShapeError(
            explain_problem(
                f"{name} has no classes.", got=f"shape {tuple(tensor.shape)}, dim={dim}", expected="at least one class"
            )
        )
    return tensor if dim in (-1, tensor.dim() - 1) else tensor.movedim(dim, -1)


def check_class_counts(p: Tensor, q: Tensor, views: str = "p, q") -> None:
    """Refuse two tensors (classes last) whose class counts differ: a divergence never broadcasts over the event."""
    k_p, k_q = p.shape[-1], q.shape[-1]
    if k_p == k_q:
        return
    smaller = "q" if k_q < k_p else "p"
    cause = (
        "A vocabulary padded for the hardware has extra entries that mean nothing."
        if min(k_p, k_q) > 1
        else ("A single class is not broadcast; for binary probabilities give both classes.")
    )
    pad = f'how="pad" to give {smaller} zero probability there'
    raise ShapeError(
        explain_problem(
            f"p and q have different numbers of classes. {cause}",
            got=f"{k_p} classes in p {tuple(p.shape)}, {k_q} in q {tuple(q.shape)}",
            expected="the same classes in the same order on both sides",
            instead=f'p, q = align({views}, how="truncate") to drop the extra entries of the larger, or {pad}'
            if min(k_p, k_q) > 1
            else f"both classes of a binary {smaller}: Probs(torch.stack([1 - x, x], -1)), or "
            "Logits(torch.cat([torch.zeros_like(x), x], -1)) for the logit of the second class",
        )
    )


def batch_shape(*tensors: Tensor) -> torch.Size:
    """The broadcast shape of the batch dimensions of tensors whose classes are last."""
    try:
        return joint_shape(*(t.shape[:-1] for t in tensors))
    except RuntimeError:
        shapes = " and ".join(str(tuple(t.shape[:-1])) for t in tensors)
        raise ShapeError(
            explain_problem(
                "The batch dimensions do not broadcast.",
                got=f"batch shapes {shapes} (class dimension removed)",
                expected="equal sizes, or 1, in every batch dimension",
            )
        ) from None


def blocks(batch: torch.Size, classes: int, device: torch.device) -> Iterator[Index]:
    """Indices that cut a batch into blocks of rows small enough to hold temporaries of."""
    limit = _BLOCK.get(device.type, _ACCELERATOR_BLOCK)
    if math.prod(batch) == 0:
        return
    inner, cut = classes, len(batch)
    while cut > 0 and inner * batch[cut - 1] <= limit:
        cut -= 1
        inner *= batch[cut]
    if cut == 0:
        yield ()
        return
    step = max(1, limit // inner)
    for prefix in itertools.product(*(range(size) for size in batch[: cut - 1])):
        for start in range(0, batch[cut - 1], step):
            yield (*prefix, slice(start, start + step))


def block_of(tensor: Tensor, index: Index) -> Tensor:
    """One block of a tensor whose dimensions of size 1 stand for a whole batch dimension."""
    own: Index = tuple(
        i if tensor.shape[d] > 1 else (0 if isinstance(i, int) else slice(None)) for d, i in enumerate(index)
    )
    return tensor[own]
