"""What every divergence of two views does around its kernel: check, align, mask, validate, reduce."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, NoReturn

import torch
from torch import Tensor

from kullback._core.errors import InputTypeError, InputValueError, explain_problem
from kullback._core.reduction import check_base, check_mask, check_reduction, check_weight, reduce_rows
from kullback._core.shapes import batch_shape, check_class_counts, classes_last
from kullback._core.validation import Validate, check_row_weights, check_rows, check_validate, sum_tolerance
from kullback.kernels.levels import tracer_active, transform_active
from kullback.kernels.native_rows import Request
from kullback.kernels.row_op import RowOp
from kullback.tensors.views import Samples, View


class Options(NamedTuple):
    """The keywords that all divergences share."""

    mask: Tensor | None = None
    weight: Tensor | float | None = None
    reduction: str = "none"
    base: float | None = None
    validate: Validate = True


def divergence(name: str, op: RowOp, views: dict[str, Any], options: Options, *parameters: Any) -> Tensor:
    """Rows of `op` on one or two views, reduced as `options` say.

    Args:
        name: The public function, for messages.
        op: Its kernel.
        views: The arguments by their names, in the kernel's order.
        options: The shared keywords.
        parameters: What the kernel takes besides the sides.
    """
    rows = _directly(op, views, options, parameters)
    if rows is not None:
        return rows
    checked = {argument: check_view(name, argument, view) for argument, view in views.items()}
    tensors = [classes_last(view.tensor, view.dim, argument) for argument, view in checked.items()]
    if len(tensors) == 2:
        check_class_counts(*tensors)
    _check_devices(tensors)
    batch = batch_shape(*tensors)
    check_reduction(options.reduction)
    check_base(options.base)
    check_mask(options.mask, batch)
    check_weight(options.weight, batch)
    check_validate(options.validate)
    check: Callable[[], None] | None = None
    tolerances: Sequence[float] = (math.inf, math.inf)
    if options.validate is not False and not values_hidden():
        check_row_weights(options.weight, options.validate)
        check = functools.partial(_check_values, checked, tensors, options)
        sides = zip(checked.values(), tensors, strict=True)
        tolerances = [sum_tolerance(view.kind, tensor.shape[-1], tensor.dtype) for view, tensor in sides]
    encodings = [view.encoding for view in checked.values()]
    rows = op(tensors, encodings, *parameters, keep=options.mask, tolerances=tolerances, check=check)
    return reduce_rows(rows, mask=options.mask, weight=options.weight, reduction=options.reduction, base=options.base)


def _directly(op: RowOp, views: dict[str, Any], options: Options, parameters: tuple[Any, ...]) -> Tensor | None:
    """The commonest call on the shortest way to its kernel: two plain tensors of one shape, nothing left out.

    Small inputs spend their time on this way. None for everything else: the long way checks and explains.
    """
    mask, weight, reduction, base, validate = options
    if op.native is None or mask is not None or weight is not None or base is not None or reduction != "none":
        return None
    if not isinstance(validate, bool) or values_hidden():
        return None
    p, q = views.values()
    if not (isinstance(p, View) and isinstance(q, View) and p.dim == q.dim == -1):
        return None
    x, y, encodings = p.tensor, q.tensor, (p.encoding, q.encoding)
    shape = x.shape
    if shape != y.shape or not shape or 0 in shape or not op.native.serves((x, y), encodings, parameters):
        return None
    recorded = (x.requires_grad or y.requires_grad) and torch.is_grad_enabled()
    if not validate:
        return op.in_native((x, y), Request(encodings, shape[:-1], parameters), recorded=recorded)
    limits = sum_tolerance(p.kind, shape[-1], x.dtype), sum_tolerance(q.kind, shape[-1], y.dtype)
    check = functools.partial(_check_values, views, (x, y), options)
    return op.in_native((x, y), Request(encodings, shape[:-1], parameters, None, limits, check), recorded=recorded)


def _check_values(views: dict[str, View], tensors: Sequence[Tensor], options: Options) -> None:
    for (argument, view), tensor in zip(views.items(), tensors, strict=True):
        check_rows(tensor, view.kind, argument, options.validate, keep=options.mask, smoothing=view.encoding.smoothing)


def check_view(name: str, argument: str, view: object) -> View:
    """Refuse anything that is not one of the four views, and say what to write for what came."""
    if not isinstance(view, View):
        _refuse_kind(name, argument, view)
    return view


def _refuse_kind(name: str, argument: str, view: object) -> NoReturn:
    if isinstance(view, Tensor):
        _refuse(
            f"{name}() cannot tell logits from probabilities in a bare tensor.",
            f"{argument} is a Tensor of shape {tuple(view.shape)}",
            "Logits(x), LogProbs(x), Probs(x) or Counts(x)",
            f"{name}(Logits(a), Logits(b)) for raw network outputs; Probs(x) after softmax, LogProbs after log_softmax",
        )
    if isinstance(view, Samples):
        _refuse(
            f"{name}() of samples is not exact: it has to be estimated.",
            f"{argument} is {view!r}",
            "Logits, LogProbs, Probs or Counts",
            "estimate_kl(Samples(x), Samples(y)), or Counts(torch.bincount(x)) for draws of class indices",
        )
    if isinstance(view, torch.distributions.Distribution):
        _refuse(
            f"{name}() compares two views or two distributions, not one with the other.",
            f"{argument} is a {type(view).__name__}",
            "the same kind of thing on both sides",
            "torch.distributions.Categorical(logits=a) to make a distribution of logits, "
            "Logits(p.logits) to make a view of a Categorical",
        )
    _refuse(
        f"{name}() does not know what this is.",
        f"{argument} is a {type(view).__name__}",
        "Logits(x), LogProbs(x), Probs(x) or Counts(x) of a torch.Tensor",
        "Probs(torch.as_tensor(x)) for a list or an array of probabilities",
    )


def values_hidden() -> bool:
    """Whether values cannot be looked at: while compiling or tracing, and inside vmap, grad, jvp."""
    return torch.compiler.is_compiling() or transform_active() or tracer_active()


def _refuse(problem: str, got: str, expected: str, instead: str) -> NoReturn:
    raise InputTypeError(explain_problem(problem, got=got, expected=expected, instead=instead))


def _check_devices(tensors: list[Tensor]) -> None:
    if any(t.device != tensors[0].device for t in tensors):
        devices = {str(t.device) for t in tensors}
        raise InputValueError(
            explain_problem(
                "p and q are on different devices.",
                got=" and ".join(sorted(devices)),
                expected="one device",
                instead="q = q.to(p.device) before wrapping",
            )
        )
