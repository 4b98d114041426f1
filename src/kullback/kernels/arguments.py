"""What an elementwise function accepts: floating tensors on one device whose shapes broadcast."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from kullback._core.errors import InputTypeError, InputValueError, ShapeError, explain_problem

_FLOATS = frozenset({torch.float64, torch.float32, torch.bfloat16, torch.float16})
_SPARSE = frozenset({torch.sparse_coo, torch.sparse_csr, torch.sparse_csc, torch.sparse_bsr, torch.sparse_bsc})


def _describe(argument: object) -> str:
    if isinstance(argument, Tensor):
        return f"a tensor of {argument.dtype}"
    return f"{argument!r}, a {type(argument).__name__}"


def _check_tensor(function: str, name: str, argument: object) -> None:
    if not isinstance(argument, Tensor) or argument.dtype not in _FLOATS:
        is_tensor = isinstance(argument, Tensor)
        raise InputTypeError(
            explain_problem(
                f"{function}() computes with floating-point tensors; `{name}` is not one.",
                got=_describe(argument),
                expected="a tensor of float64, float32, bfloat16 or float16",
                instead=f"{name}.double()" if is_tensor else f"torch.as_tensor({name}, dtype=torch.float64)",
            )
        )
    if argument.layout in _SPARSE:
        raise InputTypeError(
            explain_problem(
                f"{function}() computes with dense tensors; `{name}` is sparse.",
                got=f"a tensor of layout {argument.layout}",
                expected="a dense tensor: at the elements that are not stored the function need not be 0",
                instead=f"{name}.to_dense()",
            )
        )


def one(function: str, name: str, argument: Tensor | float) -> Tensor:
    """Check the argument of a function of one variable."""
    _check_tensor(function, name, argument)
    assert isinstance(argument, Tensor)
    return argument


def two(function: str, names: Sequence[str], x: Tensor | float, y: Tensor | float) -> tuple[Tensor, Tensor]:
    """Check two arguments, one of which may be a Python float beside a tensor."""
    # The usual call first: small inputs feel what the other checks cost.
    if (
        isinstance(x, Tensor)
        and isinstance(y, Tensor)
        and (x.dtype in _FLOATS and y.dtype is x.dtype and x.shape == y.shape and x.device == y.device)
        and not (x.layout in _SPARSE or y.layout in _SPARSE)
    ):
        return x, y
    if isinstance(x, Tensor) and _is_number(y):
        y = torch.as_tensor(y, dtype=x.dtype, device=x.device)
    elif isinstance(y, Tensor) and _is_number(x):
        x = torch.as_tensor(x, dtype=y.dtype, device=y.device)
    _check_tensor(function, names[0], x)
    _check_tensor(function, names[1], y)
    assert isinstance(x, Tensor)
    assert isinstance(y, Tensor)
    if x.device != y.device:
        raise InputTypeError(
            explain_problem(
                f"{function}() needs its arguments on one device.",
                got=f"{names[0]} on {x.device}, {names[1]} on {y.device}",
                expected="the same device",
                instead=f"{names[1]}.to({names[0]}.device)",
            )
        )
    _check_shapes(function, names, x, y)
    return x, y


def _check_shapes(function: str, names: Sequence[str], x: Tensor, y: Tensor) -> None:
    """Sizes agree, counted from the last dimension, where neither is 1."""
    for size_x, size_y in zip(reversed(x.shape), reversed(y.shape), strict=False):
        if size_x not in (size_y, 1) and size_y != 1:
            raise ShapeError(
                explain_problem(
                    f"{function}() works elementwise, and these shapes do not broadcast.",
                    got=f"{names[0]} of shape {tuple(x.shape)}, {names[1]} of shape {tuple(y.shape)}",
                    expected="sizes that are equal or 1, counted from the last dimension",
                    instead=f"{names[1]}.unsqueeze(dim) or {names[1]}.reshape(...) to line the dimensions up",
                )
            )


def constant(function: str, name: str, argument: Tensor) -> None:
    """Refuse an argument that wants a gradient which does not exist."""
    if argument.requires_grad and torch.is_grad_enabled():
        raise InputTypeError(
            explain_problem(
                f"{function}() has no derivative with respect to the order.",
                got=f"`{name}` with requires_grad=True",
                expected="an order that is a constant",
                instead=f"{name}.detach()",
            )
        )


def whole(function: str, name: str, argument: int, low: int, high: int | None = None) -> int:
    """Check a whole number between two bounds."""
    is_whole = isinstance(argument, int) and not isinstance(argument, bool)
    if not is_whole or argument < low or (high is not None and argument > high):
        wanted = f"an int from {low} to {high}" if high is not None else f"an int of at least {low}"
        kind = InputValueError if is_whole else InputTypeError
        raise kind(explain_problem(f"{function}() cannot use this `{name}`.", got=repr(argument), expected=wanted))
    return argument


def _is_number(argument: object) -> bool:
    return isinstance(argument, (int, float)) and not isinstance(argument, bool)
