"""Are these numbers what they are said to be? Every message names the likely cause and the line to write.

Rows are read once, block by block, in float64. How far from 1 a sum may be follows from rounding alone. With eps that
of the tensor's dtype, eps' that of the accumulation (never coarser than float32) and K classes:

    probabilities       4 eps + 2 sqrt(K) eps' + K tiny       entries rounded, normaliser summed, entries underflowed
    log-probabilities   (4 + log K) eps + 2 sqrt(K) eps'      entries rounded at their own size, log K on average
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Literal, NamedTuple

import torch
from torch import Tensor

from kullback._core.dtypes import work_dtype
from kullback._core.errors import InputValueError, explain_problem
from kullback._core.shapes import Index, batch_shape, block_of, blocks

Kind = Literal["Logits", "LogProbs", "Probs", "Counts"]
Validate = bool | Literal["async", "sync"]


class _Check(NamedTuple):
    """Rows that break a rule, and the message for one of them."""

    bad: Tensor
    explain: Callable[[Tensor, str], str]


def check_validate(validate: object) -> None:
    """Refuse a mode that does not exist."""
    if validate not in (True, False, "async", "sync"):
        raise InputValueError(
            explain_problem(
                "Unknown validation mode.", got=f"validate={validate!r}", expected="True, False, 'async' or 'sync'"
            )
        )


def check_rows(
    tensor: Tensor,
    kind: Kind,
    name: str,
    validate: Validate,
    *,
    keep: Tensor | None = None,
    smoothing: float = 0.0,
) -> None:
    """Refuse rows that cannot be what `kind` says.

    Args:
        tensor: Classes last.
        kind: The name of the view.
        name: The argument, for the message.
        validate: True reads values on CPU only; "sync" reads them anywhere; "async" asserts on the device without
            waiting for it.
        keep: Boolean over rows of the (broadcast) batch; a row that is nowhere kept is not looked at.
        smoothing: What will be added to counts; with it a row of zeros is uniform rather than empty.
    """
    if validate is False or (validate is True and tensor.device.type != "cpu"):
        return
    rows = None if keep is None else _own_rows(keep, tensor)
    asynchronous = validate == "async" and tensor.device.type != "cpu"
    for index in blocks(tensor.shape[:-1], tensor.shape[-1], tensor.device):
        block = block_of(tensor.detach(), index).to(work_dtype(tensor.device)) + smoothing
        for check in _CHECKS[kind](block, tensor.dtype):
            bad = check.bad if rows is None else check.bad & rows[index]
            if asynchronous:
                torch._assert_async(~bad.any(), f"{name} holds impossible {kind}; validate='sync' says which")
            elif bool(bad.any()):
                where = tuple(bad.nonzero()[0].tolist())
                raise InputValueError(check.explain(block[where], _located(name, index, where)))


def _located(name: str, block: Index, where: tuple[int, ...]) -> str:
    """The argument and the row of it, by its index in the batch: "p[3, 0]"; a single row has no index."""
    inner = iter(where)
    index = [start if isinstance(start, int) else next(inner) + (start.start or 0) for start in block]
    index += list(inner)
    return f"{name}[{', '.join(map(str, index))}]" if index else name


def check_row_weights(weight: Tensor | float | None, validate: Validate) -> None:
    """Refuse negative or undefined weights."""
    if weight is None or validate is False:
        return
    if isinstance(weight, Tensor):
        if validate != "sync" and weight.device.type != "cpu":
            return
        wrong = weight.detach()[~((weight >= 0) & (weight < math.inf))]
        found = None if wrong.numel() == 0 else float(wrong.flatten()[0])
    else:
        found = None if 0 <= weight < math.inf else weight
    if found is not None:
        raise InputValueError(
            explain_problem("A weight is a finite number >= 0.", got=f"a weight of {found}", expected="finite, >= 0")
        )


def _own_rows(keep: Tensor, tensor: Tensor) -> Tensor:
    """Rows of a tensor that are kept anywhere in the batch it is broadcast to."""
    own = tensor.shape[:-1]
    keep = keep.expand(batch_shape(keep.unsqueeze(-1), tensor))
    return keep.to(torch.int64).sum_to_size(own) > 0


def _logits(block: Tensor, _: torch.dtype) -> list[_Check]:
    top = block.amax(-1)
    return [_not_numbers(top), _infinite(top), _empty(top)]


def _log_probs(block: Tensor, dtype: torch.dtype) -> list[_Check]:
    top = block.amax(-1)
    tolerance = sum_tolerance("LogProbs", block.shape[-1], dtype)
    log_sum = torch.logsumexp(block, -1)
    return [_not_numbers(top), _infinite(top), _empty(top), _Check(log_sum.abs() > tolerance, _explain_log_probs)]


def _probs(block: Tensor, dtype: torch.dtype) -> list[_Check]:
    total = block.sum(-1)
    tolerance = sum_tolerance("Probs", block.shape[-1], dtype)
    return [
        _not_numbers(total),
        _Check(block.amin(-1) < 0, _explain_negative),
        _Check((total - 1).abs() > tolerance, _explain_sum),
    ]


def _counts(block: Tensor, _: torch.dtype) -> list[_Check]:
    total = block.sum(-1)
    return [
        _not_numbers(total),
        _infinite(total),
        _Check(block.amin(-1) < 0, _explain_negative_counts),
        _Check(total == 0, _explain_no_counts),
    ]


_CHECKS: dict[Kind, Callable[[Tensor, torch.dtype], list[_Check]]] = {
    "Logits": _logits,
    "LogProbs": _log_probs,
    "Probs": _probs,
    "Counts": _counts,
}


@functools.cache
def sum_tolerance(kind: Kind, classes: int, dtype: torch.dtype) -> float:
    """How far from 1 the sum of a row may be (or from 0 its logarithm); infinite where nothing is promised of it."""
    info = torch.finfo(dtype)
    accumulation = torch.float64 if dtype == torch.float64 else torch.float32
    summation = 2 * math.sqrt(classes) * torch.finfo(accumulation).eps
    if kind == "LogProbs":
        return (4 + math.log(classes)) * info.eps + summation
    return 4 * info.eps + summation + classes * info.tiny * info.eps if kind == "Probs" else math.inf


def _not_numbers(row_statistic: Tensor) -> _Check:
    def explain(row: Tensor, name: str) -> str:
        return explain_problem(
            f"{name} holds NaN.",
            got=_show(row, row.isnan()),
            expected="numbers",
            instead="mask= leaves rows out; check what produced the NaN (a log of 0 times 0, an overflow in float16)",
        )

    return _Check(row_statistic.isnan(), explain)


def _infinite(row_statistic: Tensor) -> _Check:
    def explain(row: Tensor, name: str) -> str:
        return explain_problem(
            f"{name} holds +inf.",
            got=_show(row, row == torch.inf),
            expected="numbers below +inf",
            instead="mask= leaves rows out; check what overflowed",
        )

    return _Check(row_statistic == torch.inf, explain)


def _empty(row_max: Tensor) -> _Check:
    def explain(row: Tensor, name: str) -> str:
        return explain_problem(
            f"{name} has a row whose every class is excluded.",
            got=_show(row),
            expected="at least one entry above -inf",
            instead="mask= with False for that row",
        )

    return _Check(row_max == -torch.inf, explain)


def _explain_log_probs(row: Tensor, name: str) -> str:
    total = float(torch.logsumexp(row, -1).exp())
    if bool((row >= 0).all()) and abs(float(row.sum()) - 1) < 0.02:
        hint, line = "these look like probabilities: wrap them in Probs", "Probs(x)"
    else:
        hint, line = "these look like logits: wrap them in Logits", "Logits(x), or LogProbs(x.log_softmax(-1))"
    largest = float(row.max())
    what = f"{name} has a positive log-probability" if largest > 0 else f"{name} does not normalise"
    return explain_problem(
        f"{what}; {hint}.",
        got=f"{_show(row, row == largest)}, sum of exp {total:.9g}",
        expected="log-probabilities: none above 0, exp summing to 1 in every row",
        instead=line,
    )


def _explain_negative(row: Tensor, name: str) -> str:
    if bool((row <= 0).all()) and abs(float(torch.logsumexp(row, -1))) < 0.02:
        hint, line = "these look like log-probabilities: wrap them in LogProbs", "LogProbs(x)"
    else:
        hint, line = "these look like logits: wrap them in Logits", "Logits(x), or Probs(x.softmax(-1))"
    return explain_problem(
        f"{name} has a negative probability; {hint}.",
        got=_show(row, row < 0),
        expected="probabilities: none below 0, summing to 1 in every row",
        instead=line,
    )


def _explain_sum(row: Tensor, name: str) -> str:
    total = float(row.sum())
    if total > 0 and bool((row == row.round()).all()):
        hint, line = "these look like counts: wrap them in Counts", "Counts(x)"
    elif abs(total - 1) < 1e-4:
        hint = "these look rounded to a lower precision than their dtype"
        line = "Probs(x / x.sum(-1, keepdim=True)), or Probs of the tensor before it was converted"
    else:
        hint = "another dimension may hold the classes, or these are scores"
        line = "Probs(x, dim=...) for another dimension, Counts(x) to divide by the sum, Logits(x) for scores"
    return explain_problem(
        f"{name} does not sum to 1; {hint}.",
        got=f"{_show(row)}, sum {total:.17g}",
        expected="probabilities that sum to 1 in every row, to the rounding of their dtype",
        instead=line,
    )


def _explain_negative_counts(row: Tensor, name: str) -> str:
    return explain_problem(
        f"{name} has a negative count.",
        got=_show(row, row < 0),
        expected="counts or scores >= 0",
        instead="Logits(x) if these are unnormalised log-probabilities",
    )


def _explain_no_counts(row: Tensor, name: str) -> str:
    return explain_problem(
        f"{name} has a row without any counts.",
        got=_show(row),
        expected="at least one count above 0",
        instead="Counts(x, smoothing=1.0) to start from uniform, or mask= with False for that row",
    )


def _show(row: Tensor, wrong: Tensor | None = None) -> str:
    """The row's beginning, and the first of the entries that are wrong with its index."""
    head = ", ".join(f"{value:.5g}" for value in row[:4].tolist())
    text = f"a row [{head}{', ...' if row.numel() > 4 else ''}]"
    if wrong is None or not bool(wrong.any()):
        return text
    entry = int(wrong.nonzero()[0])
    return f"{text}, entry {entry} is {float(row[entry]):.9g}"
