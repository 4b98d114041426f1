"""Start the Triton kernels of rows: strides, block sizes and statistics; called by `device_rows.op`.

Triton is imported here at the first launch, never before: `import kullback` does not need it.
"""

from __future__ import annotations

import contextlib
import importlib
import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from kullback.kernels.native_rows import Request, Settings
from kullback.kernels.sides import Encoding

STATISTICS = 9  # float32 per row: two logarithms of sums and a centre as pairs, two means, the state of the row
_LARGEST_BLOCK = 4096
_SMALLEST_BLOCK = 128
_BACKWARD_BLOCK = 1024
_CLASSES_PER_THREAD = 8
_MODULES = {0: "kl_rows"}


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


def forward(
    settings: Settings, tensors: Sequence[Tensor], request: Request, value: Tensor, statistics: Tensor | None
) -> None:
    """Fill `value`, and `statistics` where a backward pass will follow."""
    kernel = _kernel(settings, "forward")
    rows, classes = value.numel(), tensors[0].shape[-1]
    block = min(max(_SMALLEST_BLOCK, 1 << (classes - 1).bit_length()), _LARGEST_BLOCK)
    keep = None if request.keep is None else request.keep.expand(request.batch).contiguous().view(torch.uint8)
    sides = [lay_out(t, request.batch) for t in tensors]
    with _on(value.device):
        kernel[(rows,)](
            *(side.tensor for side in sides),
            value if keep is None else keep,
            value,
            value if statistics is None else statistics,
            classes,
            *_numbers(sides, request.encodings),
            HAS_KEEP=keep is not None,
            **_meaning(request.encodings),
            RECORDED=statistics is not None,
            BLOCK=block,
            num_warps=max(1, block // (32 * _CLASSES_PER_THREAD)),
            enable_fp_fusion=False,
        )


def backward(  # noqa: PLR0917 - as `NativeRows.backward` has them
    settings: Settings,
    grad: Tensor,
    statistics: Tensor,
    tensors: Sequence[Tensor],
    request: Request,
    gradients: Sequence[Tensor | None],
) -> None:
    """Fill the gradients that are not None, contiguous tensors of the shape of the batch."""
    kernel = _kernel(settings, "backward")
    rows, classes = math.prod(request.batch), tensors[0].shape[-1]
    block = min(max(_SMALLEST_BLOCK, 1 << (classes - 1).bit_length()), _BACKWARD_BLOCK)
    sides = [lay_out(t, request.batch) for t in tensors]
    grad = grad.expand(request.batch).reshape(-1)
    with _on(grad.device):
        kernel[(rows, -(-classes // block))](
            *(side.tensor for side in sides),
            grad,
            statistics,
            *(t if g is None else g for t, g in zip(tensors, gradients, strict=True)),
            classes,
            grad.stride(0) if rows > 1 else 0,
            *_numbers(sides, request.encodings),
            **_meaning(request.encodings),
            TO_P=gradients[0] is not None,
            TO_Q=gradients[-1] is not None,
            BLOCK=block,
            num_warps=max(1, block // (32 * _CLASSES_PER_THREAD)),
            enable_fp_fusion=False,
        )


def _kernel(settings: Settings, direction: str) -> Any:
    room = _MODULES[settings.function]
    module = importlib.import_module(f"kullback.kernels.{room}.triton")
    return getattr(module, f"{room.removesuffix('_rows')}_{direction}")


def _numbers(sides: Sequence[Layout], encodings: Sequence[Encoding]) -> list[float]:
    """Strides, smoothing and the scale of log-weights as a pair of floats, in the order of the kernels' arguments."""
    strides = [number for side in sides for number in (side.row, side.step)]
    scales = [number for encoding in encodings for number in _pair_of_floats(encoding.scale)]
    return [*strides, *(encoding.smoothing for encoding in encodings), *scales]


def _meaning(encodings: Sequence[Encoding]) -> dict[str, int]:
    """What the numbers of each side are, as `device_rows/triton.py` numbers it."""
    return {
        f"{side}_KIND": 2 if encoding.linear else int(encoding.scale != 1.0)
        for side, encoding in zip("PQ", encodings, strict=False)
    }


def _pair_of_floats(x: float) -> tuple[float, float]:
    """A float64 as the sum of two float32."""
    high = float(torch.tensor(x, dtype=torch.float32, device="cpu"))
    return high, x - high


def _on(device: torch.device) -> contextlib.AbstractContextManager[Any]:
    """Make a device the current one: Triton launches on the current device's current stream."""
    if device.type == "cpu":
        return contextlib.nullcontext()
    guard: contextlib.AbstractContextManager[Any] = torch.get_device_module(device).device(device)
    return guard
