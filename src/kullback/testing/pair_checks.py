"""Checks of values of a pair of distributions: against the truth, at and near equality, in batches, by dtype."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator

import numpy as np
import torch
from torch.distributions import Distribution

from kullback.testing.exact import significant
from kullback.testing.pair_subject import Example, PairSubject
from kullback.testing.runner import Battery, NotApplicable, Problem

PAIR_VALUES: Battery[PairSubject] = Battery()

_FACTORS = (1.0, 0.96875, 0.9375)


@PAIR_VALUES.check
def value(s: PairSubject) -> Iterator[Problem]:
    """The value is the one that quadrature or summation gives for the stored parameters."""
    known = False
    for example in s.examples:
        p, q = s.make(*example)
        exact = s.exact(p, q)
        if exact is not None:
            known = True
            yield from s.judge(p, q, *exact)
    if not known:
        raise NotApplicable("no exact density is known for this pair; pass reference= or expected=")


@PAIR_VALUES.check
def golden(s: PairSubject) -> Iterator[Problem]:
    """The value is the one in the table of expected values."""
    if s.expected is None:
        raise NotApplicable("expected= was not given")
    for example, expected in zip(s.examples, s.expected, strict=True):
        yield from s.judge(*s.make(*example), expected, 0.0)


@PAIR_VALUES.check
def support(s: PairSubject) -> Iterator[Problem]:
    """The value is infinite where p puts mass outside the support of q, and NaN nowhere."""
    outside = False
    for example in s.examples:
        p, q = s.make(*example)
        exact = s.exact(p, q)
        if exact is None or math.isfinite(exact[0]):
            continue
        outside = True
        yield from s.judge(p, q, *exact)
    if not outside:
        raise NotApplicable("no example has p outside the support of q")


@PAIR_VALUES.check
def zero_at_equality(s: PairSubject) -> Iterator[Problem]:
    """A distribution against itself is exactly 0."""
    for example, dtype in itertools.product(s.examples, (torch.float64, torch.float32)):
        for side in _sides(s, example):
            first, second = (s.make(*s.cast(example, dtype))[side] for _ in range(2))
            got = s.value(first, second).item()
            if got != 0:
                yield Problem(f"expected 0, got {significant(got)}", s.last_inputs(), got, 0.0, abs(got))


def _sides(s: PairSubject, example: Example) -> tuple[int, ...]:
    """The sides to hold against themselves: only a pair within one family promises an answer for it."""
    p, q = s.make(*example)
    if type(p) is not type(q):
        raise NotApplicable("p and q are of different families")
    return (0, 1)


@PAIR_VALUES.check
def near_equality(s: PairSubject) -> Iterator[Problem]:
    """Nearly equal parameters keep their relative accuracy and never give a negative value."""
    steps = ((torch.float64, 2.0**-10), (torch.float64, 2.0**-24), (torch.float32, 2.0**-10))
    for example, (dtype, step) in itertools.product(s.examples, steps):
        _sides(s, example)
        stored = s.cast(example, dtype)
        p, q = s.make(*stored)[0], s.make(*s.nudged(stored, step))[0]
        exact = s.exact(p, q)
        if exact is not None:
            yield from s.judge(p, q, *exact)
        elif not (got := s.value(p, q).item()) >= 0:
            yield Problem(f"expected at least 0, got {significant(got)}", s.last_inputs(), got, 0.0, -got)


@PAIR_VALUES.check
def dtypes(s: PairSubject) -> Iterator[Problem]:
    """Every dtype gives the value for its rounded parameters, in its own precision."""
    for example in s.examples:
        stored = s.cast(example, torch.float32)
        p, q = s.make(*stored)
        exact = s.exact(p, q)
        if exact is None:
            exact = s.value(*s.make(*s.cast(stored, torch.float64))).item(), 0.0
        if s.value(p, q).dtype not in (torch.float32, torch.float64):
            yield Problem(f"float32 in, {s.value(p, q).dtype} out", s.last_inputs())
        yield from s.judge(p, q, *exact)


@PAIR_VALUES.check
def batch(s: PairSubject) -> Iterator[Problem]:
    """A batch gives the values of its elements."""
    if s.given is not None:
        p, q = s.given
        shape = np.broadcast_shapes(p.batch_shape, q.batch_shape)
        singles = [s.make(*example) for example in s.examples]
        yield from _compare(s, p, q, singles, shape)
    for example in s.examples[:2]:
        many = s.make(*s.stacked(example, _FACTORS, (3,)))
        yield from _compare(s, *many, [s.make(*s.scaled(example, f)) for f in _FACTORS], (3,))


@PAIR_VALUES.check
def broadcasting(s: PairSubject) -> Iterator[Problem]:
    """Batch shapes broadcast as torch's do."""
    example = s.examples[0]
    columns = _FACTORS[:2]
    singles = [
        (s.make(*s.scaled(example, a))[0], s.make(*s.scaled(example, b))[1])
        for a, b in itertools.product(_FACTORS, columns)
    ]
    q = s.make(*s.stacked(example, columns, (2,)))[1]
    yield from _compare(s, s.make(*s.stacked(example, _FACTORS, (3, 1)))[0], q, singles, (3, 2))
    full = s.stacked(example, [f for f in _FACTORS for _ in columns], (3, 2))
    yield from _compare(s, s.make(*full)[0], q, singles, (3, 2))


def _compare(
    s: PairSubject,
    p: Distribution,
    q: Distribution,
    singles: list[tuple[Distribution, Distribution]],
    shape: tuple[int, ...],
) -> Iterator[Problem]:
    expected = torch.stack([s.value(*single).detach() for single in singles]).reshape(shape)
    got = s.value(p, q).detach()
    if got.shape != expected.shape:
        yield Problem(f"expected shape {list(shape)}, got {list(got.shape)}", s.last_inputs(), got.shape, shape)
    elif not torch.allclose(
        got, expected, rtol=10 * s.rtol[got.dtype], atol=torch.finfo(got.dtype).eps, equal_nan=True
    ):
        shown = (", ".join(significant(x) for x in values.flatten().tolist()) for values in (expected, got))
        yield Problem("one by one [{}], as a batch [{}]".format(*shown), s.last_inputs(), got, expected)


@PAIR_VALUES.check
def event_sizes(s: PairSubject) -> Iterator[Problem]:
    """Events of different sizes are an error or infinitely far apart, never a broadcast."""
    example = s.examples[0]
    if all(x.dim() == 0 or x.shape[-1] < 2 for x in example):
        raise NotApplicable("the events have no size")
    small = tuple(x[(slice(1),) * x.dim()] for x in example)
    try:
        p, q = s.make(*example)[0], s.make(*small)[1]
    except Exception as error:
        raise NotApplicable("no smaller event of this family can be made") from error
    try:
        got = s.value(p, q)
    except Exception:  # noqa: BLE001 - any refusal keeps the promise
        return
    if not bool((got == math.inf).all()):
        yield Problem(f"expected an error, got {significant(got.flatten()[0])}", s.last_inputs(), got, "an error")
