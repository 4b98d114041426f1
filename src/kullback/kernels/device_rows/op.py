"""Rows by Triton: which calls it serves, values with first derivatives, and what happens where it fails.

Called by `row_op`. The reference does what Triton does not serve: float64 tensors, the gradient of a tensor whose
rows are shared by broadcasting, second derivatives, and everything on a machine where Triton is missing or fails.
"""

from __future__ import annotations

import functools
import importlib.util
import warnings
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import torch
from torch import Tensor

from kullback._core.errors import KullbackWarning, explain_problem
from kullback.kernels import device_choice
from kullback.kernels.device_rows import launch
from kullback.kernels.levels import is_strided
from kullback.kernels.native_rows import NativeRows, Request, Settings
from kullback.kernels.row_run import gradient_followed, reference_gradients

if TYPE_CHECKING:
    from kullback.kernels.row_op import RowOp

_T = TypeVar("_T")
_DTYPES = frozenset({torch.float32, torch.bfloat16, torch.float16})
_failures: dict[str, str] = {}  # why Triton is not used any more, by type of device


def served_settings(rows: NativeRows, tensors: Sequence[Tensor], options: Sequence[Any]) -> Settings | None:
    """What to ask Triton for; None where it does not serve these tensors."""
    device = tensors[0].device
    if device_choice.route_of(device) != "triton" or device.type in _failures:
        return None
    if any(t.dtype not in _DTYPES or t.device != device or t.layout is not torch.strided for t in tensors):
        return None
    settings = rows.settings(*options)
    if settings is None or settings.function not in launch.FAMILIES or settings.outer != 0:
        return None
    return settings


def device_rows(
    op: RowOp, settings: Settings, tensors: Sequence[Tensor], request: Request, recorded: bool
) -> Tensor | None:
    """One value per row; None where Triton failed, after a warning."""
    if recorded:
        return _attempt(tensors[0].device, functools.partial(_DeviceRows.apply, op, settings, request, *tensors))
    found = _attempt(
        tensors[0].device, functools.partial(launch.values, settings, tensors, request, [False] * len(tensors))
    )
    return None if found is None else found[0]


class _DeviceRows(torch.autograd.Function):
    """Saves the inputs and a few numbers per row; the reference does what is not a first derivative."""

    @staticmethod
    def forward(ctx: Any, op: RowOp, settings: Settings, request: Request, *tensors: Tensor) -> Tensor:
        value, statistics = launch.values(settings, tensors, request, ctx.needs_input_grad[3:])
        ctx.op, ctx.settings, ctx.request = op, settings, request
        ctx.save_for_backward(statistics, *tensors)
        return value

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        statistics, *tensors = ctx.saved_tensors
        request, needs = ctx.request, ctx.needs_input_grad[3:]
        shared = any(need and t.shape[:-1] != request.batch for t, need in zip(tensors, needs, strict=True))
        if not (shared or torch.is_grad_enabled() or gradient_followed(grad)) and is_strided(grad):
            run = functools.partial(launch.gradients, ctx.settings, grad, statistics, tensors, request, needs)
            found = _attempt(grad.device, run)
            if found is not None:
                return (None, None, None, *found)
        return (None, None, None, *reference_gradients(ctx.op, request, grad, tensors, needs))


def _attempt(device: torch.device, run: Callable[[], _T]) -> _T | None:
    """Run a launch; where Triton is missing or fails to compile, warn once and use the reference from then on."""
    try:
        return run()
    except torch.OutOfMemoryError:
        raise
    except Exception as error:  # noqa: BLE001 - compilers fail with errors of many kinds; none of them may end a training run
        _failures[device.type] = f"{type(error).__name__}: {str(error).strip().splitlines()[0] if str(error) else ''}"
        warnings.warn(
            explain_problem(
                f"Triton kernels do not run on {device}: rows are computed by PyTorch operations, with the same "
                "result but more time and memory.",
                got=_failures[device.type],
                expected="a working Triton, which comes with PyTorch for CUDA, ROCm and XPU",
                instead="KULLBACK_TRITON=0 in the environment to silence this",
            ),
            KullbackWarning,
            stacklevel=2,
        )
        return None


def describe() -> str:
    """Which devices Triton serves, for `kernels.status()`."""
    served = sorted(kind for kind, route in device_choice.ROUTES.items() if route == "triton")
    if not device_choice.TRITON_ALLOWED:
        return "PyTorch: KULLBACK_TRITON=0 is set in the environment"
    if not served:
        return "PyTorch: KULLBACK_DEVICES gives Triton no device"
    if not _triton_is_installed():
        return "PyTorch: triton is not installed"
    failed = [f"{kind} failed ({why})" for kind, why in sorted(_failures.items())]
    return "; ".join([f"Triton for {', '.join(k for k in served if k not in _failures) or 'no device'}", *failed])


def _triton_is_installed() -> bool:
    try:
        return importlib.util.find_spec("triton") is not None
    except ValueError:  # a placeholder without a specification
        return False
