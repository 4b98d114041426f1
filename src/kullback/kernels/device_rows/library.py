"""Rows by Triton for the compiler: `torch.ops.kullback.device_rows`, made with `torch.library.triton_op`.

Called by `row_op` while `torch.compile` or `torch.export` makes a graph. The compiler sees the kernels inside the op,
their shapes and the first derivative; what Triton does not serve is not sent here.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Optional

import torch
from torch import Tensor
from torch.library import triton_op

from kullback._core.shapes import batch_shape
from kullback.kernels.device_rows import launch
from kullback.kernels.native_rows import Request, Settings
from kullback.kernels.sides import Encoding


def library_rows(settings: Settings, tensors: Sequence[Tensor], request: Request) -> Tensor:
    """One value per row, as a node of the graph that is being made."""
    # A side that is broadcast is expanded outside the op, so that autograd adds its gradient up.
    sides = [t.expand(*request.batch, t.shape[-1]) for t in tensors]
    needs = [torch.is_grad_enabled() and t.requires_grad for t in tensors]
    numbers = [settings.share, *settings.weights]
    for encoding in request.encodings:
        numbers += [float(encoding.linear), encoding.smoothing, encoding.scale]
    value, _ = device_rows(
        sides[0], sides[1] if len(sides) > 1 else None, request.keep, settings.function, numbers, needs
    )
    found: Tensor = value
    return found


def _call(
    p: Tensor, q: Tensor | None, keep: Tensor | None, function: int, numbers: Sequence[float]
) -> tuple[Settings, list[Tensor], Request]:
    tensors = [p] if q is None else [p, q]
    encodings = [Encoding(bool(numbers[i]), numbers[i + 1], numbers[i + 2]) for i in range(3, 3 + 3 * len(tensors), 3)]
    settings = Settings(function, numbers[0], (numbers[1], numbers[2]))
    return settings, tensors, Request(encodings, batch_shape(*tensors), keep=keep)


@triton_op("kullback::device_rows", mutates_args={})
def device_rows(  # noqa: PLR0917 - a schema
    p: Tensor,
    q: Optional[Tensor],  # noqa: UP045 - torch reads the annotations
    keep: Optional[Tensor],  # noqa: UP045
    function: int,
    numbers: Sequence[float],
    needs: Sequence[bool],
) -> tuple[Tensor, Tensor]:
    """Values and statistics of `launch.values`; `numbers`: share and weights of a mixture, then encodings."""
    settings, tensors, request = _call(p, q, keep, function, numbers)
    return launch.values(settings, tensors, request, needs, torch.library.wrap_triton)


@triton_op("kullback::device_rows_backward", mutates_args={})
def device_rows_backward(  # noqa: PLR0917
    grad: Tensor,
    statistics: Tensor,
    p: Tensor,
    q: Optional[Tensor],  # noqa: UP045
    function: int,
    numbers: Sequence[float],
    needs: Sequence[bool],
) -> tuple[Tensor, Tensor]:
    """Gradients to p and q; empty where none is needed."""
    settings, tensors, request = _call(p, q, None, function, numbers)
    found = launch.gradients(settings, grad, statistics, tensors, request, needs, torch.library.wrap_triton)
    to_p, to_q = (p.new_empty(0) if g is None else g for g in (*found, None)[:2])
    return to_p, to_q


@device_rows.register_fake  # type: ignore[untyped-decorator]
def _shapes(  # noqa: PLR0917
    p: Tensor, q: Tensor | None, keep: Tensor | None, function: int, numbers: Sequence[float], needs: Sequence[bool]
) -> tuple[Tensor, Tensor]:
    del q, keep, numbers
    value = p.new_empty(p.shape[:-1], dtype=torch.float32)
    return value, value.new_empty((value.numel() if any(needs) else 0, launch.FAMILIES[function].statistics))


@device_rows_backward.register_fake  # type: ignore[untyped-decorator]
def _gradient_shapes(  # noqa: PLR0917
    grad: Tensor,
    statistics: Tensor,
    p: Tensor,
    q: Tensor | None,
    function: int,
    numbers: Sequence[float],
    needs: Sequence[bool],
) -> tuple[Tensor, Tensor]:
    del grad, statistics, function, numbers
    to_p = p.new_empty(p.shape if needs[0] else 0)
    return to_p, q.new_empty(q.shape) if q is not None and needs[1] else p.new_empty(0)


def _remember(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
    p, q, _, ctx.function, ctx.numbers, ctx.needs = inputs
    ctx.save_for_backward(p, q, output[1])


def _first_derivative(ctx: Any, grad: Tensor, _: Tensor | None) -> tuple[Any, ...]:
    p, q, statistics = ctx.saved_tensors
    to_p, to_q = device_rows_backward(grad, statistics, p, q, ctx.function, ctx.numbers, ctx.needs)
    needs = (*ctx.needs, False)
    return (to_p if needs[0] else None, to_q if needs[1] else None, None, None, None, None)


device_rows.register_autograd(_first_derivative, setup_context=_remember)
