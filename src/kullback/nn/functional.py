"""`kl_div` with torch's signature and semantics, right also where torch's result or gradient is NaN."""

from __future__ import annotations

from typing import Any, NoReturn

import torch
from torch import Tensor
from torch.overrides import handle_torch_function, has_torch_function_variadic

from kullback._core.errors import InputTypeError, ShapeError, explain_problem
from kullback._core.shapes import joint_shape
from kullback.nn.call_site import is_ignored
from kullback.nn.misuse import warn_about_misuse
from kullback.nn.pointwise import is_followed, pointwise_kl
from kullback.nn.reductions import check_reduction, translate_legacy

__all__ = ["kl_div"]

_HALF = (torch.float16, torch.bfloat16)


def kl_div(  # noqa: PLR0917 - torch's signature
    input: Tensor,  # noqa: A002 - torch's name
    target: Tensor,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
    log_target: bool = False,
) -> Tensor:
    """KL(target ‖ input): how far the model's log-probabilities `input` are from the probabilities `target`.

    The first argument is the *second* distribution: with p = `target` (the data, the teacher) and log q = `input` (the
    model, the student), pointwise and without normalising anything,

        term = p (log p − log q) = target · (log(target) − input)          log_target=False
                                 = exp(target) · (target − input)          log_target=True

    then `reduction`: "none" returns the terms, "sum" adds them, "batchmean" divides the sum by `input.size(0)`, "mean"
    by the number of *elements*, which is KL / number of classes. For an (N, C) input "batchmean" is the mean KL per
    row.

    Equal to `torch.nn.functional.kl_div` to rounding wherever that is right; the differences are

    - p = 0 contributes 0 to the value and to both gradients, also where log q = −inf (torch: NaN);
    - p > 0 with log q = −inf is inf with finite gradients: −p to `input`, 0 to `target`;
    - terms and sums are computed in float64 and rounded once to the result's dtype (float32 on MPS), so half
      precision does not overflow in the sum: the error of a reduced result is at most half a unit in its last place
      plus 1e-15 · Σ p (|log p| + |log q|) / divisor;
    - the mean of an empty tensor is 0 (torch: NaN);
    - a `KullbackWarning` names likely misuse at your line, once per line under Python's default filter. Use the
      `warnings` filters to silence it or to make it an error. No warning is given while compiling or inside `vmap`
      and other transforms; on an accelerator only shapes and dtypes are looked at, so nothing synchronises.

    Args:
        input: Log-probabilities log q of the model, any shape.
        target: Probabilities p, or log p with `log_target=True`; broadcasts against `input`.
        size_average: Deprecated, see `reduction`.
        reduce: Deprecated, see `reduction`.
        reduction: "none", "sum", "batchmean" or "mean" (torch's default).
        log_target: Whether `target` holds log-probabilities.

    Returns:
        The promoted dtype of the two; a scalar unless `reduction="none"`.

    Raises:
        InputTypeError: Not floating-point tensors, as for class indices.
        ShapeError: Shapes that do not broadcast.
        InputValueError: Unknown `reduction`.

    Example:
        >>> import torch
        >>> from kullback.nn import functional as F
        >>> p = torch.tensor([[0.5, 0.5, 0.0]])
        >>> log_q = torch.tensor([[0.25, 0.75, 0.0]]).log()
        >>> F.kl_div(log_q, p, reduction="batchmean")
        tensor(0.1438)
    """
    if has_torch_function_variadic(input, target):
        legacy = {"size_average": size_average, "reduce": reduce}
        result: Tensor = handle_torch_function(
            kl_div, (input, target), input, target, **legacy, reduction=reduction, log_target=log_target
        )
        return result
    quiet = torch.compiler.is_compiling() or is_followed()
    effective = reduction
    if size_average is not None or reduce is not None:
        effective = translate_legacy(size_average, reduce, quiet=quiet)
    effective = check_reduction(effective, quiet=quiet)
    _require_floating(input, target)
    shape = _common_shape(input, target)
    if not (quiet or is_ignored()):
        warn_about_misuse(input, target, shape, effective, log_target)

    log_q, log_or_p = _under_autocast(_dense(input), _dense(target))
    dtype = _promoted(log_q, log_or_p)
    divisor = _divisor(effective, input, shape)
    if log_q.shape != log_or_p.shape:
        log_q, log_or_p = log_q.expand(shape), log_or_p.expand(shape)
    loss = pointwise_kl(log_q, log_or_p, bool(log_target), divisor, dtype)
    if effective != reduction == "batchmean":
        return loss / max(_batch(input), 1)  # as torch does: the deprecated flags do not override "batchmean"
    return loss


def _dense(tensor: Tensor) -> Tensor:
    return tensor if tensor.layout is torch.strided else tensor.to_dense()


def _divisor(reduction: str, log_q: Tensor, shape: torch.Size) -> int | None:
    if reduction == "batchmean":
        return _batch(log_q)
    if reduction == "mean":
        return shape.numel()
    return None if reduction == "none" else 1


def _batch(log_q: Tensor) -> int:
    return log_q.size(0) if log_q.dim() else 1


def _promoted(log_q: Tensor, target: Tensor) -> torch.dtype:
    """`torch.result_type` of two floating-point tensors, in terms the compiler can follow."""
    if log_q.dtype == target.dtype or log_q.dim() > target.dim() == 0:
        return log_q.dtype
    if target.dim() > log_q.dim() == 0:
        return target.dtype
    return torch.promote_types(log_q.dtype, target.dtype)


def _under_autocast(log_q: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
    """As torch lists kl_div among the operations that autocast runs in float32."""
    device = log_q.device.type
    if log_q.dtype not in _HALF and target.dtype not in _HALF:
        return log_q, target
    if device == "meta" or not torch.is_autocast_enabled(device):
        return log_q, target
    log_q, target = (t.float() if t.dtype in _HALF else t for t in (log_q, target))
    return log_q, target


def _common_shape(log_q: Tensor, target: Tensor) -> torch.Size:
    try:
        return joint_shape(log_q.shape, target.shape)
    except RuntimeError as error:
        raise ShapeError(
            explain_problem(
                "The shapes of `input` and `target` do not fit.",
                got=f"input {tuple(log_q.shape)}, target {tuple(target.shape)}",
                expected="one probability in `target` for each log-probability in `input`",
                instead="torch.nn.functional.cross_entropy(logits, target) if the target holds class indices",
            )
        ) from error


def _require_floating(log_q: object, target: object) -> None:
    for name, value in (("input", log_q), ("target", target)):
        if not isinstance(value, Tensor):
            raise InputTypeError(
                explain_problem(
                    f"`{name}` is not a tensor.",
                    got=type(value).__name__,
                    expected="a floating-point tensor",
                    instead="kl_div(log_q, p), which is KL(p ‖ q)",
                )
            )
        if not value.is_floating_point():
            _refuse_dtype(name, value)


def _refuse_dtype(name: str, value: Tensor) -> NoReturn:
    indices = name == "target" and not value.is_complex()
    raise InputTypeError(
        explain_problem(
            f"`{name}` is not floating point" + (": are these class indices?" if indices else "."),
            got=f"a tensor of {value.dtype} with shape {tuple(value.shape)}",
            expected="probabilities (or log-probabilities with log_target=True)"
            if name == "target"
            else "log-probabilities, e.g. log_softmax(logits, dim=-1)",
            instead="torch.nn.functional.cross_entropy(logits, target), or kl_div(input, "
            "torch.nn.functional.one_hot(target, num_classes).to(input.dtype))"
            if indices
            else "kl_div(log_q, p), which is KL(p ‖ q)",
        )
    )


def __getattr__(name: str) -> Any:
    if hasattr(torch.nn.functional, name):
        raise AttributeError(
            f"kullback.nn.functional has kl_div only; for {name} write torch.nn.functional.{name} "
            f"(and keep `import torch.nn.functional as F` beside `from kullback.nn.functional import kl_div`)"
        )
    raise AttributeError(f"module 'kullback.nn.functional' has no attribute {name!r}")
