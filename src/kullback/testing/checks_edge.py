"""Checks at the edges: zero probabilities, shapes, masks, reductions, and leaving the inputs alone."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
import torch
from torch import Tensor

from kullback.testing.cases import compare_rows, compare_values, ordinary, with_zeros
from kullback.testing.convention import Subject
from kullback.testing.exact import expected_got, significant
from kullback.testing.runner import Battery, NotApplicable, Problem

EDGES: Battery[Subject] = Battery()

# Rows of probabilities, exact in every dtype. The last row of each has no zero: it must not notice the others.
ZERO_IN_P = (
    [[0.0, 0.5, 0.5], [0.0, 0.0, 1.0], [0.25, 0.25, 0.5]],
    [[0.25, 0.25, 0.5], [0.5, 0.25, 0.25], [0.5, 0.25, 0.25]],
)
ZERO_IN_BOTH = (
    [[0.0, 0.5, 0.5], [0.0, 1.0, 0.0], [0.25, 0.25, 0.5]],
    [[0.0, 0.25, 0.75], [0.0, 1.0, 0.0], [0.5, 0.25, 0.25]],
)
ZERO_IN_Q = ([[0.25, 0.25, 0.5], [0.25, 0.25, 0.5]], [[0.0, 0.5, 0.5], [0.5, 0.25, 0.25]])


@EDGES.check
def zero_in_p(s: Subject) -> Iterator[Problem]:
    """A class with p = 0 < q contributes what the formula says: nothing, for KL(p || q)."""
    yield from compare_rows(s, *with_zeros(s, *ZERO_IN_P, torch.float64))


@EDGES.check
def zero_in_both(s: Subject) -> Iterator[Problem]:
    """A class that is outside both supports contributes nothing."""
    yield from compare_rows(s, *with_zeros(s, *ZERO_IN_BOTH, torch.float64))


@EDGES.check
def zero_in_q(s: Subject) -> Iterator[Problem]:
    """A class with q = 0 < p makes KL(p || q) infinite in that row, and in no other."""
    yield from compare_rows(s, *with_zeros(s, *ZERO_IN_Q, torch.float64))


@EDGES.check
def reduction(s: Subject) -> Iterator[Problem]:
    """A batch of any rank gives one value a row, reduced as claimed."""
    p, q = ordinary(s)
    for shape in ((3, 4), (3, 1, 4), (1, 3, 4)):
        yield from _compare_batch(s, p.reshape(shape), q.reshape(shape), p, q)


@EDGES.check
def broadcasting(s: Subject) -> Iterator[Problem]:
    """Batch dimensions broadcast as torch's do."""
    p, q = ordinary(s)
    for p_shape, q_shape in (((1, 4), (3, 4)), ((3, 4), (1, 4)), ((2, 1, 4), (3, 4))):
        small_p = p[: p_shape[0]].reshape(p_shape) if len(p_shape) == 3 or p_shape[0] == 1 else p
        small_q = q[: q_shape[0]].reshape(q_shape)
        batch = np.broadcast_shapes(p_shape, q_shape)
        yield from _compare_batch(
            s, small_p, small_q, small_p.expand(batch).reshape(-1, 4), small_q.expand(batch).reshape(-1, 4)
        )


def _compare_batch(s: Subject, p: Tensor, q: Tensor, row_p: Tensor, row_q: Tensor) -> Iterator[Problem]:
    """Compare `fn(p, q)` with the reduction of the exact values of the rows it stands for."""
    where = f"p of shape {list(p.shape)}, q of shape {list(q.shape)}"
    got = s.call(p, q)
    batch = np.broadcast_shapes(p.shape, q.shape)
    if s.returns == "pointwise" and got.shape == batch:
        got = got.sum(-1)
    exact, slack = s.exact(row_p, row_q)
    expected = s.reduced(torch.tensor(exact, dtype=torch.float64).reshape(batch[:-1]), p.shape[-1])
    if got.shape != expected.shape:
        yield Problem(f"expected shape {list(expected.shape)}, got {list(got.shape)}", where, got.shape, expected.shape)
        return
    error = (got.detach() - expected).abs() - s.rtol[got.dtype] * expected.abs() - 1.5 * sum(slack)
    if not bool((error <= 0).all()):
        yield Problem(expected_got(_numbers(expected), _numbers(got)) + _ratio(got, expected), where, got, expected)


def _ratio(got: Tensor, expected: Tensor) -> str:
    ratio = (got.detach() / expected).flatten()
    constant = torch.isfinite(ratio).all() and torch.allclose(ratio, ratio[0].expand_as(ratio), rtol=1e-6, atol=0)
    if constant and significant(ratio[0]) != "1":
        return f", {significant(ratio[0])} times as much"
    return ""


def _numbers(values: Tensor) -> float | list[float]:
    numbers: list[float] = values.detach().double().flatten().tolist()
    return numbers[0] if values.dim() == 0 else numbers


def _list(values: Tensor) -> str:
    numbers = [significant(x) for x in values.detach().double().flatten().tolist()]
    return numbers[0] if values.dim() == 0 else f"[{', '.join(numbers)}]"


@EDGES.check
def vector_input(s: Subject) -> Iterator[Problem]:
    """Two vectors without a batch dimension give one number, or are refused."""
    p, q = (side[0] for side in ordinary(s))
    try:
        got = s.call(p, q)
    except Exception as error:
        raise NotApplicable(f"the function refuses vectors with {type(error).__name__}") from error
    if s.returns == "pointwise" and got.shape == p.shape:
        got = got.sum(-1)
    if got.shape != ():
        yield Problem(f"expected a scalar, got shape {list(got.shape)}", s.show(p, q), got.shape, ())
        return
    got = got * p.shape[-1] if s.returns == "element_mean" else got
    yield from compare_values(
        s, got[None], p[None], q[None], _ratio(got, torch.tensor(s.exact(p[None], q[None])[0][0]))
    )


@EDGES.check
def class_counts(s: Subject) -> Iterator[Problem]:
    """One class against four is an error, never a broadcast."""
    p, q = ordinary(s)
    for a, b in ((p, _single(q, s.spaces[1])), (_single(p, s.spaces[0]), q)):
        try:
            got = s.call(a, b)
        except Exception:  # noqa: BLE001, S112 - any refusal keeps the promise
            continue
        shapes = f"{a.shape[-1]} classes against {b.shape[-1]}"
        yield Problem(f"expected an error for {shapes}, got {_list(got)}", s.show(a[0], b[0]), got, "an error")


def _single(rows: Tensor, space: str) -> Tensor:
    return torch.full_like(rows[:, :1], 1.0 if space == "probs" else 0.0)


@EDGES.check
def empty_batch(s: Subject) -> Iterator[Problem]:
    """A batch without rows gives no values, a sum of 0 and a mean that is not NaN."""
    p, q = (side[:0] for side in ordinary(s))
    got = s.call(p, q)
    shape = {"rows": (0,), "pointwise": (0, 4)}.get(s.returns, ())
    if got.shape != shape:
        yield Problem(f"expected shape {list(shape)}, got {list(got.shape)}", "0 rows", got.shape, shape)
    elif got.numel() and got.item() != 0:
        yield Problem(f"expected 0, got {significant(got.item())}", "0 rows", got.item(), 0.0)


@EDGES.check
def non_contiguous(s: Subject) -> Iterator[Problem]:
    """The layout in memory does not matter: transposed, strided and expanded inputs."""
    p, q = ordinary(s)
    yield from compare_rows(s, p.t().contiguous().t(), q.t().contiguous().t(), " for transposed inputs")
    strided_p, strided_q = (torch.stack((side, side.flip(0)), -1)[..., 0] for side in (p, q))
    yield from compare_rows(s, strided_p, strided_q, " for strided inputs")
    yield from compare_rows(s, p[:1].expand(3, 4), q, " for an expanded p")


@EDGES.check
def inputs_unchanged(s: Subject) -> Iterator[Problem]:
    """The inputs are not written to, forward or backward."""
    before = ordinary(s)
    plain = tuple(side.clone() for side in before)
    s.call(*plain)
    leaves = tuple(side.clone().requires_grad_() for side in before)
    result = s.call(*leaves)
    if result.requires_grad:
        result.sum().backward()  # type: ignore[no-untyped-call]
    for name, was, *now in zip("pq", before, plain, leaves, strict=True):
        for side in now:
            if not torch.equal(side.detach(), was):
                yield Problem(f"{name} was overwritten", s.show(*before), side, was)


@EDGES.check
def deterministic(s: Subject) -> Iterator[Problem]:
    """The same inputs give the same bits twice."""
    p, q = ordinary(s)
    first, second = s.call(p.clone(), q.clone()), s.call(p, q)
    if not torch.equal(first, second):
        yield Problem("two calls differ", s.show(p, q), second, first)


@EDGES.check
def masked_rows(s: Subject) -> Iterator[Problem]:
    """A masked row gives exactly 0 and zero gradient whatever it holds, and is not counted."""
    if s.mask is None:
        raise NotApplicable("mask= does not name a mask argument")
    p, q = (side.clone() for side in ordinary(s))
    exact = torch.tensor(s.exact(p, q)[0], dtype=torch.float64)
    keep = torch.tensor([True, False, True])
    exact = exact[keep] if not s.per_row else torch.where(keep, exact, 0.0)
    expected = s.reduced(exact, p.shape[-1])
    for junk in (math.nan, math.inf):
        p[1], q[1] = junk, junk
        leaves = (p.clone().requires_grad_(), q.clone().requires_grad_())
        got = s.call(*leaves, **{s.mask: keep if s.mask_keeps else ~keep})
        terms = got.sum(-1) if s.returns == "pointwise" else got
        if terms.shape != expected.shape or not torch.allclose(terms, expected, rtol=1e-9, atol=1e-12):
            yield Problem(f"expected {_list(expected)}, got {_list(terms)}", f"row 1 masked and full of {junk}", got)
            continue
        wanted = [leaf for name, leaf in zip("pq", leaves, strict=True) if name in s.gradients]
        for gradient in torch.autograd.grad(terms.sum(), wanted, allow_unused=True):
            if gradient is not None and not bool((gradient[1] == 0).all() and gradient.isfinite().all()):
                yield Problem(f"expected zero gradient, got {_list(gradient[1])}", f"row 1 masked and full of {junk}")
