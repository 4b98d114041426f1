"""Start the Triton kernels of rows: strides, block sizes and statistics; called by `device_rows.op`.

Triton is imported here at the first launch, never before: `import kullback` does not need it.
"""

from __future__ import annotations

import contextlib
import ctypes
import importlib
import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from kullback.kernels.native_rows import Request, Settings
from kullback.kernels.sides import Encoding

_BACKWARD_BLOCK, _SMALLEST_BLOCK, _WARP = 1024, 128, 32


class Family(NamedTuple):
    """The kernels of one function of rows.

    Attributes:
        room: The folder under `kernels/` whose `triton.py` holds them.
        name: The kernels are `<name>_forward` and `<name>_backward`.
        statistics: How many float32 per row the forward pass leaves to the backward pass.
        forward: How many classes a program of the forward pass has at a time and how many a thread of it: more would
            spill registers, fewer repeat the work that is done per block.
        shares: Whether the kernels take the shares and weights of a mixture.
        one_sided: Whether there are kernels of one side.
    """

    room: str
    name: str
    statistics: int
    forward: tuple[int, int] = (4096, 16)
    shares: bool = False
    one_sided: bool = False


FAMILIES = {  # by `Settings.function`
    0: Family("kl_rows", "kl", 9),
    1: Family("f_rows", "mixture", 13, (2048, 8), shares=True),
    2: Family("entropy_rows", "cross_entropy", 9, one_sided=True),
}
Wrap = Callable[[Any], Any]


class Layout(NamedTuple):
    """Rows of a tensor in memory: where row i begins and how far its classes are from each other, in elements."""

    tensor: Tensor
    row: int
    step: int


def lay_out(tensor: Tensor, batch: torch.Size) -> Layout:
    """The rows of a tensor that is broadcast to a batch. Copies only where no single row stride does."""
    classes = tensor.shape[-1]
    if math.prod(tensor.shape[:-1]) == 1:
        return Layout(tensor, 0, tensor.stride(-1))
    rows = tensor.expand(*batch, classes).reshape(-1, classes)
    return Layout(rows, rows.stride(0), rows.stride(1))


def values(
    settings: Settings, tensors: Sequence[Tensor], request: Request, needs: Sequence[bool], wrap: Wrap | None = None
) -> tuple[Tensor, Tensor]:
    """One value per row, and statistics for the gradients to the sides of which `needs` is true.

    Args:
        settings: Which function.
        tensors: The sides.
        request: The rest of the call.
        needs: One per side.
        wrap: What the compiler wants kernels wrapped in.
    """
    family, classes = FAMILIES[settings.function], int(tensors[0].shape[-1])
    value = torch.empty(request.batch, dtype=torch.float32, device=tensors[0].device)
    statistics = value.new_empty((value.numel() if any(needs) else 0, family.statistics))
    if value.numel() == 0:
        return value, statistics
    keep = None if request.keep is None else request.keep.expand(request.batch).contiguous().view(torch.uint8)
    sides = [lay_out(t, request.batch) for t in _both(tensors)]
    largest, per_thread = family.forward
    block = _block(classes, largest)
    with _on(value.device):
        _kernel(family, "forward", wrap)[(value.numel(),)](
            *(side.tensor for side in sides),
            value if keep is None else keep,
            value,
            statistics if any(needs) else value,
            classes,
            *_numbers(family, settings, sides, request.encodings),
            HAS_KEEP=keep is not None,
            **_meaning(family, request.encodings, needs),
            BLOCK=block,
            **_options(block, per_thread, wrap),
        )
    return value, statistics


def gradients(  # noqa: PLR0917 - as `NativeRows.backward` has them
    settings: Settings,
    grad: Tensor,
    statistics: Tensor,
    tensors: Sequence[Tensor],
    request: Request,
    needs: Sequence[bool],
    wrap: Wrap | None = None,
) -> list[Tensor | None]:
    """Gradients to the tensors that need one, times `grad`; none of them may be broadcast."""
    family, rows, classes = FAMILIES[settings.function], math.prod(request.batch), int(tensors[0].shape[-1])
    found = [
        torch.empty_like(t, memory_format=torch.contiguous_format) if need else None
        for t, need in zip(tensors, needs, strict=True)
    ]
    if rows == 0:
        return found
    sides = [lay_out(t, request.batch) for t in _both(tensors)]
    grad = grad.expand(request.batch).reshape(-1)
    block = _block(classes, _BACKWARD_BLOCK)
    outputs = (*(g if g is not None else statistics for g in found), statistics)[:2]
    with _on(grad.device):
        _kernel(family, "backward", wrap)[(rows, -(-classes // block))](
            *(side.tensor for side in sides),
            grad,
            statistics,
            *outputs,
            classes,
            grad.stride(0) if rows > 1 else 0,
            *_numbers(family, settings, sides, request.encodings),
            **_meaning(family, request.encodings, needs),
            BLOCK=block,
            **_options(block, 8, wrap),
        )
    return found


def _kernel(family: Family, direction: str, wrap: Wrap | None) -> Any:
    module = importlib.import_module(f"kullback.kernels.{family.room}.triton")
    kernel = getattr(module, f"{family.name}_{direction}")
    return kernel if wrap is None else wrap(kernel)


def _block(classes: int, largest: int) -> int:
    """How many classes a program has at a time: a power of two."""
    return min(max(_SMALLEST_BLOCK, 1 << (classes - 1).bit_length()), largest)


def _options(block: int, classes_per_thread: int, wrap: Wrap | None) -> dict[str, Any]:
    options = {"num_warps": max(1, block // (_WARP * classes_per_thread))}
    # Products as pairs of floats depend on every rounding: no multiplication may be fused with an addition. The
    # compiler has no such option; `library` does not send it what needs such products.
    return options if wrap is not None else {**options, "enable_fp_fusion": False}


def _numbers(family: Family, settings: Settings, sides: Sequence[Layout], encodings: Sequence[Encoding]) -> list[float]:
    """Strides, smoothing, scales of log-weights as pairs of floats, and shares, in the order of the kernels."""
    strides = [number for side in sides for number in (side.row, side.step)]
    encodings = _both(encodings)
    scales = [number for encoding in encodings for number in _pair_of_floats(encoding.scale)]
    shares = (settings.share, 1.0 - settings.share, *settings.weights) if family.shares else ()
    return [*strides, *(encoding.smoothing for encoding in encodings), *scales, *shares]


def _meaning(family: Family, encodings: Sequence[Encoding], needs: Sequence[bool]) -> dict[str, Any]:
    """What the numbers of each side are, as `device_rows/triton.py` numbers it, and which gradients are wanted."""
    p, q = (2 if encoding.linear else int(encoding.scale != 1.0) for encoding in _both(encodings))
    found: dict[str, Any] = {"P_KIND": p, "Q_KIND": q, "TO_P": needs[0], "TO_Q": len(needs) > 1 and needs[1]}
    return {**found, "ONE_SIDED": len(needs) == 1} if family.one_sided else found


def _pair_of_floats(x: float) -> tuple[float, float]:
    """A float64 as the sum of two float32."""
    high = ctypes.c_float(x).value
    return high, x - high


def _both(sides: Sequence[Any]) -> Sequence[Any]:
    """A function of one side is one of two that are the same."""
    return sides if len(sides) > 1 else (sides[0], sides[0])


def _on(device: torch.device) -> contextlib.AbstractContextManager[Any]:
    """Make a device the current one: Triton launches on the current device's current stream."""
    if device.type == "cpu" or torch.compiler.is_compiling():
        return contextlib.nullcontext()
    guard: contextlib.AbstractContextManager[Any] = torch.get_device_module(device).device(device)
    return guard
