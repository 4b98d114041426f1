"""Functions of rows for the compiler: `torch.ops.kullback.rows`, one op for all that have native code.

`torch.compile` and `torch.export` see the op, its shapes and its first derivative (`rows_backward`), and native code
runs inside what they make. Called by itself the op can be differentiated further, by the reference, and mapped.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from kullback._core.dtypes import result_dtype
from kullback._core.shapes import batch_shape
from kullback.kernels.native_rows import Request, statistics_for
from kullback.kernels.row_run import reference_gradients
from kullback.kernels.sides import Encoding

if TYPE_CHECKING:
    from kullback.kernels.row_op import RowOp

# The end of both schemas: which function, what it takes besides the sides, and what the sides hold.
_MEANING = "str function, float[] options, bool[] linear, float[] smoothing"
_LIBRARY: Any = torch.library.Library("kullback", "FRAGMENT")  # type: ignore[no-untyped-call]
_TAGS = (torch.Tag.pt2_compliant_tag,)
_LIBRARY.define(f"rows(Tensor p, Tensor? q, Tensor? keep, bool recorded, {_MEANING}) -> (Tensor, Tensor)", tags=_TAGS)
_LIBRARY.define(
    "rows_backward(Tensor grad, Tensor statistics, Tensor p, Tensor? q, Tensor? keep, bool[] needs, "
    f"{_MEANING}) -> (Tensor, Tensor)",
    tags=_TAGS,
)
_OPS: dict[str, RowOp] = {}


def register(name: str, op: RowOp) -> None:
    """Make a function of rows known to the compiler."""
    _OPS[name] = op


def library_rows(name: str, tensors: Sequence[Tensor], request: Request) -> Tensor:
    """The values of a registered function, as one node of the graph that is being made."""
    recorded = torch.is_grad_enabled() and any(t.requires_grad for t in tensors)
    q = tensors[1] if len(tensors) > 1 else None
    linear, smoothing = [e.linear for e in request.encodings], [e.smoothing for e in request.encodings]
    rows, _ = torch.ops.kullback.rows(
        tensors[0], q, request.keep, recorded, name, list(request.options), linear, smoothing
    )
    found: Tensor = rows
    return found


def _call(
    p: Tensor, q: Tensor | None, keep: Tensor | None, meaning: Sequence[Any]
) -> tuple[RowOp, list[Tensor], Request]:
    function, options, linear, smoothing = meaning
    tensors = [p] if q is None else [p, q]
    encodings = [Encoding(*both) for both in zip(linear, smoothing, strict=True)]
    return _OPS[function], tensors, Request(encodings, batch_shape(*tensors), tuple(options), keep)


def _rows(p: Tensor, q: Tensor | None, keep: Tensor | None, recorded: bool, *meaning: Any) -> tuple[Tensor, Tensor]:
    op, tensors, request = _call(p, q, keep, meaning)
    assert op.native is not None
    statistics = statistics_for(request.batch) if recorded else None
    rows = op.native.forward(tensors, request, None, statistics)
    return rows, torch.empty(0, dtype=torch.float64, device="cpu") if statistics is None else statistics


def _rows_fake(
    p: Tensor, q: Tensor | None, keep: Tensor | None, recorded: bool, *meaning: Any
) -> tuple[Tensor, Tensor]:
    _, tensors, request = _call(p, q, keep, meaning)
    rows = p.new_empty(request.batch, dtype=result_dtype(*tensors))
    return rows, statistics_for(request.batch, like=p) if recorded else p.new_empty(0, dtype=torch.float64)


def _rows_backward(  # noqa: PLR0917 - torch hands over by position
    grad: Tensor,
    statistics: Tensor,
    p: Tensor,
    q: Tensor | None,
    keep: Tensor | None,
    needs: Sequence[bool],
    *meaning: Any,
) -> tuple[Tensor, Tensor]:
    op, tensors, request = _call(p, q, keep, meaning)
    assert op.native is not None
    wanted = needs[: len(tensors)]
    if any(need and t.shape[:-1] != request.batch for t, need in zip(tensors, wanted, strict=True)):
        found = reference_gradients(op, request, grad, tensors, wanted)
    else:
        if statistics.numel() == 0:
            statistics = statistics_for(request.batch)
            op.native.forward(tensors, request, None, statistics)
        found = op.native.backward(grad, statistics, tensors, request, wanted)
    to_p, to_q = (p.new_empty(0) if g is None else g.contiguous() for g in (*found, None)[:2])
    return to_p, to_q


def _rows_backward_fake(  # noqa: PLR0917
    grad: Tensor,
    statistics: Tensor,
    p: Tensor,
    q: Tensor | None,
    keep: Tensor | None,
    needs: Sequence[bool],
    *meaning: Any,
) -> tuple[Tensor, Tensor]:
    del grad, statistics, keep, meaning
    to_p = p.new_empty(p.shape if needs[0] else 0)
    return to_p, q.new_empty(q.shape) if q is not None and needs[1] else p.new_empty(0)


def _remember(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
    p, q, keep, _, *ctx.meaning = inputs
    ctx.save_for_backward(p, q, keep, output[1])


def _first_derivative(ctx: Any, grad: Tensor, _: Tensor | None) -> tuple[Any, ...]:
    p, q, keep, statistics = ctx.saved_tensors
    needs = list(ctx.needs_input_grad[:2])
    to_p, to_q = torch.ops.kullback.rows_backward(grad, statistics, p, q, keep, needs, *ctx.meaning)
    return (to_p if needs[0] else None, to_q if needs[1] else None, None, None, *(None for _ in ctx.meaning))


def _remember_gradients(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
    del output
    grad, _, p, q, keep, ctx.needs, *ctx.meaning = inputs
    ctx.save_for_backward(grad, p, q, keep)


def _second_derivative(ctx: Any, *cotangents: Tensor | None) -> tuple[Any, ...]:
    grad, p, q, keep = ctx.saved_tensors
    op, tensors, request = _call(p, q, keep, ctx.meaning)
    recorded = torch.is_grad_enabled()
    given = [c if need else None for c, need in zip(cotangents, ctx.needs, strict=True)][: len(tensors)]
    with torch.enable_grad():
        first = reference_gradients(op, request, grad, tensors, [c is not None for c in given])
    outputs = [g for g in first if g is not None]
    wanted = [t if need else None for t, need in zip((grad, None, p, q), ctx.needs_input_grad, strict=False)]
    found: list[Tensor | None] = [None] * 4
    sources = [(i, t) for i, t in enumerate(wanted) if t is not None]
    if outputs and sources:
        second = torch.autograd.grad(
            outputs,
            [t for _, t in sources],
            [c for c in given if c is not None],
            create_graph=recorded,
            allow_unused=True,
        )
        for (i, _), g in zip(sources, second, strict=True):
            found[i] = g
    return (*found, None, None, *(None for _ in ctx.meaning))


def _batch_first(tensor: Tensor | None, dim: int | None, size: int, logical: int) -> Tensor | None:
    """The mapped dimension first, whether the tensor has it or not; `logical` dimensions follow."""
    if tensor is None:
        return None
    whole = tensor.unsqueeze(0) if dim is None else tensor.movedim(dim, 0)
    missing = logical + 1 - whole.dim()
    return whole.reshape(whole.shape[0], *(1,) * missing, *whole.shape[1:]).expand(size, *(-1,) * logical)


def _sides_of_batch(size: int, dims: Sequence[int | None], p: Tensor, q: Tensor | None, keep: Tensor | None) -> Any:
    logical = max(t.dim() - (dim is not None) for t, dim in zip((p, q), dims, strict=False) if t is not None)
    both = [_batch_first(t, dim, size, logical) for t, dim in zip((p, q), dims, strict=False)]
    return (*both, _batch_first(keep, dims[2], size, logical - 1))


def _rows_of_batch(info: Any, in_dims: Sequence[Any], *inputs: Any) -> tuple[tuple[Tensor, Tensor], tuple[int, None]]:
    p, q, keep, *rest = inputs
    found = torch.ops.kullback.rows(*_sides_of_batch(info.batch_size, in_dims[:3], p, q, keep), *rest)
    return found, (0, None)


def _gradients_of_batch(info: Any, in_dims: Sequence[Any], *inputs: Any) -> tuple[tuple[Tensor, Tensor], Any]:
    grad, statistics, p, q, keep, needs, *meaning = inputs
    sides = _sides_of_batch(info.batch_size, in_dims[2:5], p, q, keep)
    grads = _batch_first(grad, in_dims[0], info.batch_size, grad.dim() - (in_dims[0] is not None))
    # Those of the forward pass may be of one row for all: they are found anew.
    found = torch.ops.kullback.rows_backward(grads, statistics.new_empty(0), *sides, needs, *meaning)
    shaped = [
        g.reshape(info.batch_size, *(t.shape if dim is None else t.movedim(dim, 0).shape[1:])) if need else g
        for g, t, dim, need in zip(found, (p, q), in_dims[2:4], needs, strict=True)
    ]
    return (shaped[0], shaped[1]), tuple(0 if need else None for need in needs)


for _name, _kernel, _fake, _backward, _setup, _batched in (
    ("rows", _rows, _rows_fake, _first_derivative, _remember, _rows_of_batch),
    (
        "rows_backward",
        _rows_backward,
        _rows_backward_fake,
        _second_derivative,
        _remember_gradients,
        _gradients_of_batch,
    ),
):
    _full = f"kullback::{_name}"
    _LIBRARY.impl(_name, _kernel, "CPU")
    torch.library.register_fake(_full, _fake, lib=_LIBRARY)
    torch.library.register_autograd(_full, _backward, setup_context=_setup, lib=_LIBRARY)
    torch.library.register_vmap(_full, _batched, lib=_LIBRARY)
