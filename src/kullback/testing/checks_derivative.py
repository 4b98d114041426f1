"""Checks of first and second derivatives, to both sides, at the edges too.

Derivatives are compared in the logits. A gradient to probabilities or log-probabilities is only determined along
normalised rows, and carrying it to the logits by the chain rule keeps exactly that part:

    log-probabilities  g_i - p_i Σ g        probabilities  p_i (g_i - Σ p g)
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import torch
from torch import Tensor

from kullback.testing import oracle
from kullback.testing.cases import INF, ordinary_logits, with_zeros
from kullback.testing.checks_edge import ZERO_IN_BOTH, ZERO_IN_P, ZERO_IN_Q
from kullback.testing.convention import Subject
from kullback.testing.exact import expected_got, significant
from kullback.testing.runner import Battery, NotApplicable, Problem

DERIVATIVES: Battery[Subject] = Battery()

_DIRECTION = (0.75, -0.5, 0.25, 1.0)


def differentiate(s: Subject, p: Tensor, q: Tensor, side: int) -> Tensor | None:
    """The gradient of all rows to one side's stored input; None if none arrives there."""
    leaves = [p.detach().clone(), q.detach().clone()]
    leaves[side].requires_grad_()
    rows = s.rows(*leaves)
    if not rows.requires_grad:
        return None
    return torch.autograd.grad(rows.sum(), leaves[side], allow_unused=True)[0]


def to_logits(gradient: Tensor, stored: Tensor, space: str) -> Tensor:
    """Carry a gradient to the logits; a class outside the support has none."""
    if space == "logits":
        return gradient
    if space == "log_probs":
        return gradient - stored.exp() * gradient.sum(-1, keepdim=True)
    inside = torch.where(stored > 0, gradient, 0.0)
    return stored * (inside - (stored * inside).sum(-1, keepdim=True))


def exact_gradient(s: Subject, p: Tensor, q: Tensor, side: int) -> list[list[float]]:
    """The exact gradients to the logits of one side, row by row; NaN where the value is infinite."""
    rows = []
    for a, b, exact in zip(p.tolist(), q.tolist(), s.exact(p, q)[0], strict=True):
        if math.isinf(exact):
            rows.append([math.nan] * len(a))
            continue
        # As logits of the same distribution: probabilities are dyadic here, so their logarithms cost one rounding.
        logits = [
            tuple(x if space != "probs" else (math.log(x) if x else -INF) for x in row)
            for row, space in ((a, s.spaces[0]), (b, s.spaces[1]))
        ]
        rows.append(oracle.gradient(s.divergence, logits[0], logits[1], side))
    return rows


def compare_gradient(s: Subject, p: Tensor, q: Tensor, side: int) -> Iterator[Problem]:
    """Compare the gradient of every row with the exact one; where the value is infinite only a NaN is wrong."""
    name = "pq"[side]
    s.needs(name)
    got = differentiate(s, p, q, side)
    if got is None:
        yield Problem(f"no gradient reaches {name}: detached?", s.show(p[:1], q[:1]), None, "a gradient")
        return
    stored = (p, q)[side]
    carried = to_logits(got, stored, s.spaces[side])
    for i, expected in enumerate(exact_gradient(s, p, q, side)):
        case = s.show(p[i], q[i])
        if bool(got[i].isnan().any()):
            shown = _list(expected) if s.spaces[side] == "logits" and not math.isnan(expected[0]) else "no NaN"
            yield Problem(f"gradient to {name}: expected {shown}, got {_list(got[i].tolist())}", case, got[i], expected)
        elif not math.isnan(expected[0]):
            yield from mismatch(f"gradient to {name}", carried[i].tolist(), expected, case, s.gradient_rtol)


def mismatch(what: str, got: list[float], expected: list[float], case: str, rtol: float) -> Iterator[Problem]:
    """Compare two vectors by their largest component, with 1e-14 for rounding where all of it is 0."""
    scale = max(map(abs, expected))
    error = max(abs(a - b) for a, b in zip(got, expected, strict=True))
    if error <= rtol * scale + 1e-14:
        return
    ratio = {round(a / b, 6) for a, b in zip(got, expected, strict=True) if b}
    factor = f", {ratio.pop():g} times as much" if len(ratio) == 1 and ratio != {1.0} else ""
    message = f"{what}: {expected_got(expected, got)}{factor}"
    yield Problem(message, case, got, expected, error / scale if scale and math.isfinite(error) else INF)


def _list(values: list[float]) -> str:
    return f"[{', '.join(significant(x) for x in values)}]"


def _ordinary(s: Subject) -> tuple[Tensor, Tensor]:
    p, q = ordinary_logits()
    return s.place(p, 0), s.place(q, 1)


@DERIVATIVES.check
def gradient_p(s: Subject) -> Iterator[Problem]:
    """The gradient to p is the exact one."""
    yield from compare_gradient(s, *_ordinary(s), 0)


@DERIVATIVES.check
def gradient_q(s: Subject) -> Iterator[Problem]:
    """The gradient to q is the exact one."""
    yield from compare_gradient(s, *_ordinary(s), 1)


@DERIVATIVES.check
def gradient_zero_in_p(s: Subject) -> Iterator[Problem]:
    """Where p = 0 < q the gradients hold no NaN and the other classes keep theirs."""
    for side in _sides(s):
        yield from compare_gradient(s, *with_zeros(s, *ZERO_IN_P, torch.float64), side)


@DERIVATIVES.check
def gradient_zero_in_both(s: Subject) -> Iterator[Problem]:
    """A class outside both supports gets no gradient and spoils none."""
    for side in _sides(s):
        yield from compare_gradient(s, *with_zeros(s, *ZERO_IN_BOTH, torch.float64), side)


@DERIVATIVES.check
def gradient_infinite_row(s: Subject) -> Iterator[Problem]:
    """An infinite row has no NaN in its gradient and leaves the other rows' alone."""
    for side in _sides(s):
        yield from compare_gradient(s, *with_zeros(s, *ZERO_IN_Q, torch.float64), side)


@DERIVATIVES.check
def double_backward(s: Subject) -> Iterator[Problem]:
    """Differentiating twice gives the exact Hessian-vector product."""
    for side in _sides(s):
        yield from _compare_hessian(s, *ordinary_logits(), side)


@DERIVATIVES.check
def fisher(s: Subject) -> Iterator[Problem]:
    """At p = q the Hessian is the exact one: for KL the Fisher information."""
    if not s.divergence.smooth:
        raise NotApplicable(f"{s.divergence.name} is not twice differentiable at p = q")
    for side in _sides(s):
        p, _ = ordinary_logits()
        yield from _compare_hessian(s, p, p.clone(), side)


def _compare_hessian(s: Subject, p: Tensor, q: Tensor, side: int) -> Iterator[Problem]:
    name = "pq"[side]
    leaves = [p.clone(), q.clone()]
    leaf = leaves[side].requires_grad_()
    rows = s.rows(s.place(leaves[0], 0), s.place(leaves[1], 1))
    if not rows.requires_grad:
        raise NotApplicable(f"no gradient reaches {name}")
    v = torch.tensor(_DIRECTION, dtype=torch.float64)
    (first,) = torch.autograd.grad(rows.sum(), leaf, create_graph=True)
    if not first.requires_grad:
        yield Problem(f"the gradient to {name} cannot be differentiated again", s.show(p[:1], q[:1]))
        return
    (second,) = torch.autograd.grad((first * v).sum(), leaf)
    for i in range(p.shape[0]):
        expected = oracle.hessian_vector(s.divergence, tuple(p[i].tolist()), tuple(q[i].tolist()), side, _DIRECTION)
        what = f"Hessian in {name} times {list(_DIRECTION)}"
        case = f"logits p = {p[i].tolist()}, q = {q[i].tolist()}"
        yield from mismatch(what, second[i].tolist(), expected, case, 10 * s.gradient_rtol)


def _sides(s: Subject) -> list[int]:
    if not s.gradients:
        raise NotApplicable("gradients= names no side")
    return ["pq".index(side) for side in s.gradients]
