"""Mistakes that people make with `kl_div`, each warned about once at its line, with the line to write instead."""

from __future__ import annotations

from collections.abc import Iterator
from math import prod

import torch
from torch import Tensor

from kullback._core.errors import explain_problem
from kullback.nn.call_site import warn_caller
from kullback.nn.looks import Look, look_at
from kullback.nn.pointwise import is_plain

_MEANING = (
    "\n  meaning:  kl_div(input, target) is KL(target ‖ input) = Σ p log(p/q): `target` is p, `input` is log q;"
    "\n            kullback.kl(p, q) takes them in this order and checks what they are"
)
_ROW_VALUES = "kullback.kl(Probs(target), LogProbs(input))"
_ROW_VALUES_LOG = "kullback.kl(LogProbs(target), LogProbs(input))"

Finding = tuple[str, str]  # the kind, which makes two warnings at one line the same, and the text


def warn_about_misuse(log_q: Tensor, target: Tensor, shape: torch.Size, reduction: str, log_target: bool) -> None:
    """Warn at the caller's line about everything in a legal call that is probably not meant.

    Shapes and the reduction are looked at everywhere, values only on the CPU, where looking costs no synchronisation.
    """
    for kind, text in _findings(log_q, target, shape, reduction, log_target):
        warn_caller(kind, text + _MEANING)


def _findings(log_q: Tensor, target: Tensor, shape: torch.Size, reduction: str, log_target: bool) -> Iterator[Finding]:
    if log_q.shape != target.shape:
        yield _broadcast(log_q, target, shape, reduction)
    if reduction == "mean":
        yield from _mean(shape, log_target)
    elif reduction == "batchmean":
        yield from _batchmean(log_q, shape, log_target)
    if log_q.is_cpu and target.is_cpu and shape.numel() and is_plain(log_q) and is_plain(target):
        yield from _values(log_q, target, shape, log_target)


def _broadcast(log_q: Tensor, target: Tensor, shape: torch.Size, reduction: str) -> Finding:
    got = f"input {tuple(log_q.shape)}, target {tuple(target.shape)}, broadcast to {tuple(shape)}"
    if reduction == "batchmean":
        got += f"; batchmean divides by input.size(0) = {log_q.size(0) if log_q.dim() else 1}"
    if log_q.dim() > 1 and target.shape in (log_q.shape[:-1], log_q.shape[:1] + log_q.shape[2:]):
        return "class-index shape", explain_problem(
            "`target` has the shape of class indices and is being broadcast over the classes.",
            got=got,
            expected="one probability for each log-probability in `input`",
            instead="torch.nn.functional.cross_entropy(logits, indices); or target.expand_as(input) if it is meant",
        )
    return "broadcast", explain_problem(
        "`input` and `target` have different shapes and are being broadcast.",
        got=got,
        expected="two tensors of one shape",
        instead="target.expand_as(input), or input.expand_as(target), if it is meant",
    )


def _mean(shape: torch.Size, log_target: bool) -> Iterator[Finding]:
    if shape.numel() in (0, prod(shape[:-1])):
        return  # one class, or nothing at all: the mean over elements is the mean over rows
    factors, classes = "·".join(map(str, shape)), shape[-1]
    per_row = "the KL" if len(shape) == 1 else "the mean KL per row"
    yield (
        "mean",
        explain_problem(
            'reduction="mean" divides by the number of elements, not of rows: the result is not a KL divergence.',
            got=f"shape {tuple(shape)}: divides by {factors + ' = ' if len(shape) > 1 else ''}{shape.numel()}; "
            f"{per_row} is {classes} times the result",
            expected=f"the sum divided by the number of rows, {prod(shape[:-1])}",
            instead=_instead_of_division(len(shape), log_target),
        ),
    )


def _batchmean(log_q: Tensor, shape: torch.Size, log_target: bool) -> Iterator[Finding]:
    rows = prod(shape[:-1])
    if not log_q.dim() or shape.numel() == 0 or log_q.size(0) == rows:
        return
    if len(shape) == 1:
        problem = (
            f'reduction="batchmean" divides by the first dimension, which in a 1-D input are the {shape[0]} classes.'
        )
    else:
        problem = (
            f'reduction="batchmean" divides by input.size(0) = {log_q.size(0)}, not by the number of rows, {rows}.'
        )
    yield (
        f"batchmean {min(len(shape), 3)}-D",
        explain_problem(
            problem,
            got=f"shape {tuple(shape)}: the result is {rows / log_q.size(0):.4g} times the mean KL per row",
            expected="an (N, C) input, one row per distribution",
            instead=_instead_of_division(len(shape), log_target),
        ),
    )


def _instead_of_division(dims: int, log_target: bool) -> str:
    per_row = _ROW_VALUES_LOG if log_target else _ROW_VALUES
    if dims == 1:
        return f'reduction="sum", or {per_row}'
    return f'reduction="batchmean", or {per_row}.mean()' if dims == 2 else f"{per_row}.mean()"


def _values(log_q: Tensor, target: Tensor, shape: torch.Size, log_target: bool) -> Iterator[Finding]:
    q = _look(log_q, shape, log_space=True)
    p = _look(target, shape, log_space=log_target)
    if q and p and not log_target and (q.kind, p.kind) == ("probabilities", "log-probabilities"):
        yield (
            "swapped",
            explain_problem(
                "The arguments look swapped: `input` holds probabilities and `target` log-probabilities.",
                got="kl_div(p, log_q), which gives NaN",
                expected="log-probabilities first",
                instead="kl_div(log_q, p) for KL(p ‖ q)",
            ),
        )
        return
    if q:
        yield _input_problem(q)
    if p:
        yield _log_target_problem(p) if log_target else _target_problem(p)


def _look(tensor: Tensor, shape: torch.Size, *, log_space: bool) -> Look | None:
    """None for what is fine and for what has no rows of its own: a scalar, or one value for all classes."""
    if tensor.dim() == 0 or tensor.size(-1) != shape[-1]:
        return None
    return look_at(tensor, log_space=log_space)


def _input_problem(q: Look) -> Finding:
    expected = "log-probabilities: exp(input) sums to 1"
    write = "kl_div(log_softmax(logits, dim=-1), target), or kullback.kl(Probs(target), Logits(logits))"
    if q.kind == "probabilities":
        return "input probabilities", explain_problem(
            "`input` holds probabilities; kl_div takes their logarithm, and this result can be negative.",
            got=f"values from {q.low:.4g} to {q.high:.4g} that sum to 1",
            expected=expected,
            instead="kl_div(log_softmax(logits, dim=-1), target), or kullback.kl(Probs(target), Probs(input))",
        )
    if q.high > 0:
        return "input positive", explain_problem(
            "`input` has positive values, so it holds no log-probabilities: raw logits or probabilities?",
            got=f"values up to {q.high:.4g}; exp(input) sums to {q.masses}",
            expected=expected,
            instead=write,
        )
    if q.kind == "other dimension":
        return "input dimension", _wrong_dimension("input", "log_softmax", q)
    return "input unnormalised", explain_problem(
        "`input` does not normalise, so the result is off by log Σ exp(input): raw logits?",
        got=f"exp(input) sums to {q.masses}",
        expected=expected,
        instead=write,
    )


def _target_problem(p: Look) -> Finding:
    expected = "probabilities: non-negative, each row sums to 1"
    if p.kind == "log-probabilities":
        return "target log-probabilities", explain_problem(
            "`target` holds log-probabilities but log_target=False: negative targets give NaN.",
            got=f"values from {p.low:.4g} to {p.high:.4g} whose exp sums to 1",
            expected=expected,
            instead="kl_div(input, target, log_target=True)",
        )
    if p.low < 0:
        return "target negative", explain_problem(
            "`target` has negative values, which give NaN: logits?",
            got=f"values from {p.low:.4g} to {p.high:.4g}",
            expected=expected,
            instead="kl_div(input, log_softmax(target_logits, dim=-1), log_target=True)",
        )
    if p.kind == "other dimension":
        return "target dimension", _wrong_dimension("target", "softmax", p)
    if p.kind == "whole numbers":
        return "target whole numbers", explain_problem(
            "`target` holds whole numbers: counts or class indices, not probabilities.",
            got=f"values from {p.low:.4g} to {p.high:.4g}, rows that sum to {p.masses}",
            expected=expected,
            instead="kl_div(input, counts / counts.sum(-1, keepdim=True)), or cross_entropy(logits, indices)",
        )
    return "target unnormalised", explain_problem(
        "`target` does not normalise: the result is not a KL divergence and can be negative.",
        got=f"rows that sum to {p.masses}",
        expected=expected,
        instead="target / target.sum(-1, keepdim=True), or kullback.generalized_kl for measures",
    )


def _log_target_problem(p: Look) -> Finding:
    expected = "log-probabilities: exp(target) sums to 1"
    if p.kind == "probabilities":
        return "log_target probabilities", explain_problem(
            "`target` holds probabilities but log_target=True: their exp is used as p.",
            got=f"values from {p.low:.4g} to {p.high:.4g} that sum to 1",
            expected=expected,
            instead="kl_div(input, target), without log_target",
        )
    if p.kind == "other dimension":
        return "target dimension", _wrong_dimension("target", "log_softmax", p)
    return "log_target unnormalised", explain_problem(
        "`target` does not normalise with log_target=True: raw logits?",
        got=f"exp(target) sums to {p.masses}",
        expected=expected,
        instead="kl_div(input, log_softmax(target_logits, dim=-1), log_target=True)",
    )


def _wrong_dimension(name: str, function: str, look: Look) -> str:
    return explain_problem(
        f"`{name}` is normalised along dim {look.normalised_along}, not the last: {function} over the wrong one?",
        got=f"rows that sum to {look.masses}",
        expected="distributions along the last dimension (or dim 1 of three or more)",
        instead=f"{function}(logits, dim=-1)",
    )
