"""What every divergence of two views does around its kernel: check, align, mask, validate, reduce."""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, NoReturn, cast

import torch
from torch import Tensor

from kullback._core.errors import InputTypeError, InputValueError, explain_problem
from kullback._core.reduction import check_base, check_mask, check_reduction, check_weight, reduce_rows
from kullback._core.shapes import batch_shape, check_class_counts, classes_last, described, written_shape
from kullback._core.validation import Validate, check_row_weights, check_rows, check_validate, sum_tolerance
from kullback.kernels import native_rows
from kullback.kernels.dense_rows import connect
from kullback.kernels.levels import is_dense, tracer_active, transform_active
from kullback.kernels.native_rows import NativeRows
from kullback.kernels.row_op import RowOp
from kullback.tensors.views import Logits, LogProbs, Probs, Samples, View


class Options(NamedTuple):
    """The keywords that all divergences share."""

    mask: Tensor | None = None
    weight: Tensor | float | None = None
    reduction: str = "none"
    base: float | None = None
    validate: Validate = True

    @property
    def plain(self) -> bool:
        """Whether every row is wanted as it is."""
        return self.mask is None and self.weight is None and self.base is None and self.reduction == "none"


def divergence(name: str, op: RowOp, views: dict[str, Any], options: Options, *parameters: Any) -> Tensor:
    """Rows of `op` on one or two views, reduced as `options` say.

    Args:
        name: The public function, for messages.
        op: Its kernel.
        views: The arguments by their names, in the kernel's order.
        options: The shared keywords.
        parameters: What the kernel takes besides the sides.
    """
    for argument, given in views.items():  # what is no distribution either is the mistake to name
        if not isinstance(given, (View, torch.distributions.Distribution)):
            _refuse_kind(name, argument, given)
    checked = {argument: check_view(name, argument, view) for argument, view in views.items()}
    tensors = [classes_last(view.tensor, view.dim, argument) for argument, view in checked.items()]
    if len(tensors) == 2:
        check_class_counts(tensors[0], tensors[1])
    batch = batch_shape(*tensors)
    check_reduction(options.reduction)
    check_base(options.base)
    check_mask(options.mask, batch)
    check_devices(tensors if options.mask is None else [*tensors, options.mask])
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


def shortcut(op: RowOp, p: object, q: object, validate: Validate, *parameters: Any) -> Tensor | None:
    """The commonest call on the shortest way to its kernel: two dense tensors of one shape, all rows, not reduced.

    Small inputs spend their time on this way. None for everything else: the long way checks and explains.
    """
    native = op.native
    if native is None or _dense_rows is None or torch.compiler.is_compiling() or not native_rows.enabled:
        return None
    rows = _dense_rows(op, native.remembered, p, q, validate, parameters)
    if rows is NotImplemented and _remember(native, p, q, validate, parameters):
        rows = _dense_rows(op, native.remembered, p, q, validate, parameters)
    return None if rows is NotImplemented else rows


# Counts are missing: their smoothing is not part of the key.
_PLAIN_PAIRS = set(itertools.product((Logits, LogProbs, Probs), repeat=2))
_MOST_REMEMBERED = 4096


def _remember(native: NativeRows, p: object, q: object, validate: Validate, parameters: tuple[Any, ...]) -> bool:
    """Prepare the request of such tensors if it is new; whether native code serves them."""
    views = type(p), type(q)
    if views not in _PLAIN_PAIRS or values_hidden():
        return False
    assert isinstance(p, View)
    assert isinstance(q, View)
    x, y = p.tensor, q.tensor
    if p.dim != -1 or q.dim != -1 or not (is_dense(x) and is_dense(y)):
        return False
    key = views, x.dtype, y.dtype, x.shape, y.shape, validate, parameters
    if key in native.remembered:
        return False
    request = None
    if x.shape == y.shape and x.dim() > 0 and x.numel() > 0 and isinstance(validate, bool):
        limits = [sum_tolerance(v.kind, x.shape[-1], v.tensor.dtype) if validate else math.inf for v in (p, q)]
        request = native.dense_request((x, y), (p.encoding, q.encoding), parameters, limits)
    if len(native.remembered) >= _MOST_REMEMBERED:
        native.remembered.clear()
    native.remembered[key] = request
    return request is not None


def _check_pair(p: View, q: View, validate: Validate) -> None:
    _check_values({"p": p, "q": q}, (p.tensor, q.tensor), Options(validate=validate))


# The functions of rows that have no meaning for distributions.
_OF_VIEWS_ONLY = ("generalized_kl", "pairwise_kl", "align")
_dense_rows = connect(_check_pair)


def _check_values(views: dict[str, View], tensors: Sequence[Tensor], options: Options) -> None:
    for (argument, view), tensor in zip(views.items(), tensors, strict=True):
        check_rows(tensor, view.kind, argument, options.validate, keep=options.mask, smoothing=view.encoding.smoothing)


def check_view(name: str, argument: str, view: object) -> View:
    """Refuse anything that is not one of the four views, and say what to write for what came."""
    if not isinstance(view, View):
        _refuse_kind(name, argument, view)
    return view


def _refuse_kind(name: str, argument: str, view: object) -> NoReturn:
    example = f"{name}(Logits(x))" if name == "entropy" else f"{name}(Logits(a), Logits(b))"
    takes_distributions = name not in _OF_VIEWS_ONLY
    if isinstance(view, Tensor):
        if not (view.is_floating_point() or view.is_complex()):
            _refuse(
                f"{name}() takes distributions over classes; integers are usually class indices.",
                f"{argument} is a Tensor {written_shape(view)} of {view.dtype}",
                "Logits(x), LogProbs(x), Probs(x) or Counts(x)",
                "torch.nn.functional.cross_entropy(logits, labels) for class indices, Counts(x) for counts",
            )
        _refuse(
            f"{name}() cannot tell logits from probabilities in a bare tensor.",
            f"{argument} is a Tensor {written_shape(view)}",
            "Logits(x), LogProbs(x), Probs(x) or Counts(x)",
            f"{example} for raw network outputs; Probs(x) after softmax, LogProbs after log_softmax",
        )
    if isinstance(view, Samples):
        _refuse(
            f"{name}() of samples is not exact: it has to be estimated.",
            f"{argument} is {view!r}",
            "Logits, LogProbs, Probs or Counts",
            "estimate_kl(Samples(x), Samples(y)), or Counts(torch.bincount(x, minlength=K)) for draws of class indices",
        )
    if isinstance(view, torch.distributions.Distribution) and not takes_distributions:
        _refuse(
            f"{name}() takes views of tensors, not distributions.",
            f"{argument} is a {type(view).__name__}",
            "Logits(x), LogProbs(x), Probs(x) or Counts(x)",
            f"Logits({argument}.logits) for a Categorical, kl(p, q) for other distributions",
        )
    if isinstance(view, torch.distributions.Distribution):
        _refuse(
            f"{name}() compares two views or two distributions, not one with the other.",
            f"{argument} is a {type(view).__name__}",
            "the same kind of thing on both sides",
            "torch.distributions.Categorical(logits=a) to make a distribution of logits, "
            "Logits(p.logits) to make a view of a Categorical",
        )
    if isinstance(getattr(view, "logits", None), Tensor):
        _refuse(
            f"{name}() takes the logits of a model's output, not the output object.",
            f"{argument} is a {type(view).__name__} with logits of shape {tuple(cast('Any', view).logits.shape)}",
            "Logits(x) of a torch.Tensor",
            f"Logits({argument}.logits)",
        )
    instead = "Probs(torch.as_tensor(x)) for a list or an array of probabilities"
    if isinstance(view, type):
        instead = f"{view.__name__}(...) with its parameters"
    elif isinstance(view, (int, float)):
        instead = "Probs(torch.tensor([1 - x, x])) for the probability of one of two classes"
    _refuse(
        f"{name}() does not know what this is.",
        f"{argument} is {described(view)}",
        f"Logits(x), LogProbs(x), Probs(x) or Counts(x) of a torch.Tensor{', or a Distribution' * takes_distributions}",
        instead,
    )


def values_hidden() -> bool:
    """Whether values cannot be looked at: while compiling or tracing, and inside vmap, grad, jvp."""
    return torch.compiler.is_compiling() or transform_active() or tracer_active()


def _refuse(problem: str, got: str, expected: str, instead: str) -> NoReturn:
    raise InputTypeError(explain_problem(problem, got=got, expected=expected, instead=instead))


def check_devices(tensors: Sequence[Tensor]) -> None:
    """Refuse tensors, or tensors and their mask, on different devices."""
    if any(t.device != tensors[0].device for t in tensors):
        devices = {str(t.device) for t in tensors}
        raise InputValueError(
            explain_problem(
                "The tensors are on different devices.",
                got=" and ".join(sorted(devices)),
                expected="one device",
                instead="Logits(x.to(device)), mask=mask.to(device)",
            )
        )
