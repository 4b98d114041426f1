"""Checks of the arguments that all losses share: real tensors, a mask, a weight, a choice by name."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from kullback._core.dtypes import result_dtype
from kullback._core.errors import InputTypeError, InputValueError, ShapeError, explain_problem
from kullback._core.reduction import check_mask, check_weight, reduce_rows
from kullback._core.validation import check_row_weights
from kullback.tensors.frame import values_hidden


def check_choice(name: str, value: object, choices: Sequence[str]) -> None:
    """Refuse a string that is not one of `choices`."""
    if value not in choices:
        names = ", ".join(repr(choice) for choice in choices)
        raise InputValueError(explain_problem(f"Unknown {name}.", got=f"{name}={value!r}", expected=names))


def check_tensor(function: str, name: str, value: object) -> Tensor:
    """Refuse anything but a tensor of real floating-point numbers."""
    if isinstance(value, Tensor) and value.is_floating_point():
        return value
    got = f"a tensor of {value.dtype}" if isinstance(value, Tensor) else type(value).__name__
    raise InputTypeError(
        explain_problem(
            f"{function}() takes {name} as a tensor of floating-point numbers.",
            got=f"{name} is {got}",
            expected="a float32, float64, bfloat16 or float16 tensor",
            instead=f"{name}=torch.as_tensor({name}, dtype=torch.float32)",
        )
    )


def widen(*tensors: Tensor) -> list[Tensor]:
    """The tensors in one dtype: float64 where any is float64, else float32."""
    dtype = result_dtype(*tensors)
    return [tensor.to(dtype) for tensor in tensors]


def check_same_shape(function: str, tensors: dict[str, Tensor]) -> None:
    """Refuse tensors whose shapes differ: broadcasting log-probabilities hides a misaligned batch."""
    shapes = {name: tuple(tensor.shape) for name, tensor in tensors.items()}
    if len(set(shapes.values())) > 1:
        raise ShapeError(
            explain_problem(
                f"{function}() takes tensors of one shape.",
                got=", ".join(f"{name} of shape {shape}" for name, shape in shapes.items()),
                expected="one value per token in each of them, in the same order",
            )
        )


def check_no_nan(function: str, name: str, value: Tensor, mask: Tensor | None = None) -> None:
    """Refuse NaN where a mask keeps the element; looks at values on the CPU only, and not inside transforms."""
    if values_hidden() or value.device.type != "cpu":
        return
    bad = value.detach().isnan()
    if mask is not None:
        bad = bad & mask
    if bool(bad.any()):
        index = tuple(bad.nonzero()[0].tolist())
        raise InputValueError(
            explain_problem(
                f"{function}() got NaN in {name}.",
                got=f"NaN at index {index}, {int(bad.sum())} in all",
                expected="numbers",
                instead="mask= with False for elements without a meaning, such as padding",
            )
        )


def check_rows_options(mask: Tensor | None, weight: Tensor | float | None, batch: torch.Size) -> None:
    """Refuse a mask or a weight that does not fit the rows of shape `batch`."""
    check_mask(mask, batch)
    check_weight(weight, batch)
    if not values_hidden():
        check_row_weights(weight, True)


def masked_rows(
    rows: Tensor, mask: Tensor | None, weight: Tensor | float | None, reduction: str, base: float | None = None
) -> Tensor:
    """Check the options against the rows, then reduce them."""
    check_rows_options(mask, weight, rows.shape)
    return reduce_rows(rows, mask=mask, weight=weight, reduction=reduction, base=base)
