"""Checks of values: right, to the last digits, whatever the size, the dtype and the distance of the two rows."""

from __future__ import annotations

import math
from collections.abc import Iterator

import torch
from torch import Tensor

from kullback.testing import oracle
from kullback.testing.cases import compare_rows, compare_values, ordinary
from kullback.testing.convention import Subject
from kullback.testing.exact import significant
from kullback.testing.runner import Battery, NotApplicable, Problem

VALUES: Battery[Subject] = Battery()


@VALUES.check
def value(s: Subject) -> Iterator[Problem]:
    """The value is the exact one at ordinary inputs, and 0 for a single class."""
    p, q = ordinary(s)
    got = s.rows(p, q)
    yield from compare_values(s, got, p, q, _hint(s, got, p, q))
    one = torch.zeros(2, 1, dtype=torch.float64) + (1.0 if s.spaces[0] == "probs" else 0.0)
    other = torch.zeros(2, 1, dtype=torch.float64) + (1.0 if s.spaces[1] == "probs" else 0.0)
    yield from compare_rows(s, one, other, " for a single class")


def _hint(s: Subject, got: Tensor, p: Tensor, q: Tensor) -> str:
    """Name the usual mistakes by what they return."""
    exact = torch.tensor(s.exact(p, q)[0])
    reverse = oracle.Divergence("", lambda a, b: s.divergence.formula(b, a))
    pairs = zip(p.tolist(), q.tolist(), strict=True)
    swapped = torch.tensor([float(oracle.value(reverse, tuple(a), tuple(b), s.spaces)) for a, b in pairs])
    classes = p.shape[-1]
    for suspect, reading in (
        (-exact, "the sign is wrong"),
        (swapped, "that is the value with p and q swapped"),
        (-swapped, "that is the value with p and q swapped and the sign wrong"),
        (exact / classes, "that is a mean over the classes instead of their sum"),
        (exact / math.log(2), "that is the value in bits"),
        (exact * 2, "that is twice the value"),
        (exact / 2, "that is half the value"),
        (exact.sqrt(), "that is the square root of the value"),
    ):
        if torch.allclose(got.detach().double(), suspect.double(), rtol=1e-5, atol=0):
            return f"; {reading}"
    return ""


@VALUES.check
def long_rows(s: Subject) -> Iterator[Problem]:
    """A row of a thousand classes loses no digits to the sum, in float32 neither."""
    generator = torch.Generator().manual_seed(0)
    logits = 3 * torch.randn(2, 1, 1000, generator=generator, dtype=torch.float64)
    for dtype in _wide(s):
        yield from compare_rows(s, s.place(logits[0], 0).to(dtype), s.place(logits[1], 1).to(dtype))


@VALUES.check
def near_equality(s: Subject) -> Iterator[Problem]:
    """Nearly equal rows keep their relative accuracy: down to 1e-14 in float32 and 1e-28 in float64."""
    if s.spaces[0] != s.spaces[1]:
        raise NotApplicable("two rows in different spaces are nearly equal only up to their rounding")
    ladder = {torch.float32: (2.0**-8, 2.0**-14, 2.0**-22), torch.float64: (2.0**-8, 2.0**-26, 2.0**-46)}
    for dtype in _wide(s):
        for step in ladder[dtype]:
            p = torch.tensor([[0.5, 0.25, 0.125, 0.125]], dtype=torch.float64)
            direction = torch.tensor([[1.0, -1.0, 0.5, -0.5]], dtype=torch.float64) * step
            if s.spaces[0] == "probs":
                q = p + direction / 4
            else:
                p = s.place(torch.tensor([[0.5, -1.0, 0.25, 0.75]], dtype=torch.float64), 0)
                q = p + direction
            # Multiples of the last bit of both dtypes: nothing of the difference is rounded away.
            yield from compare_rows(s, p.to(dtype), q.to(dtype))


@VALUES.check
def extreme_inputs(s: Subject) -> Iterator[Problem]:
    """Logits of ±10000, or probabilities of 1e-30, overflow nowhere."""
    logits_p = [[1e4, -1e4, 0.0, 5.0], [0.0, 0.0, 1e4, 1e4], [-1e4, -1e4, -1e4, -9990.0]]
    logits_q = [[1e4, -1e4, 8.0, 9999.0], [1e4, 0.0, 1e4, 0.0], [-1e4, -9995.0, -1e4, -1e4]]
    tiny_p = [[0.5, 0.5, 1e-30, 1e-20], [1e-30, 0.25, 0.25, 0.5], [1.0, 1e-20, 1e-25, 1e-30]]
    tiny_q = [[1e-30, 0.5, 0.5, 1e-20], [0.25, 0.25, 0.5, 1e-30], [1e-30, 1e-20, 1e-25, 1.0]]
    small = "probs" in s.spaces
    for dtype in _wide(s):
        sides = []
        for side, (large, tiny) in enumerate(((logits_p, tiny_p), (logits_q, tiny_q))):
            if small:
                probs = torch.tensor(tiny, dtype=torch.float64)
                sides.append((probs if s.spaces[side] == "probs" else probs.log()).to(dtype))
            else:
                sides.append(s.place(torch.tensor(large, dtype=torch.float64), side).to(dtype))
        yield from compare_rows(s, sides[0], sides[1])


@VALUES.check
def zero_at_equality(s: Subject) -> Iterator[Problem]:
    """A distribution against itself is exactly 0, bit for bit."""
    if s.spaces[0] != s.spaces[1]:
        raise NotApplicable("p and q are in different spaces and cannot be the same numbers")
    generator = torch.Generator().manual_seed(1)
    logits = 3 * torch.randn(4, 33, generator=generator, dtype=torch.float64)
    for dtype in s.dtypes:
        p = s.place(logits, 0).to(dtype)
        for got in s.rows(p, p.clone()).detach().double().tolist():
            if got != 0:
                yield Problem(f"expected 0, got {significant(got)} in {_name(dtype)}", s.show(p, p), got, 0.0, abs(got))


@VALUES.check
def never_negative(s: Subject) -> Iterator[Problem]:
    """The value is never negative, however close the two rows are."""
    generator = torch.Generator().manual_seed(2)
    steps = {torch.float32: (1e-3, 1e-5), torch.float64: (1e-7, 1e-9)}
    for dtype in _wide(s):
        for step in steps[dtype]:
            noise = torch.randn(2, 16, 50, generator=generator, dtype=torch.float64)
            p, q = (s.place(3 * noise[0] + step * side * noise[1], side).to(dtype) for side in (0, 1))
            eps = torch.finfo(dtype).eps
            for i, got in enumerate(s.rows(p, q).detach().double().tolist()):
                # Rounded probabilities and log-probabilities may say a little less than nothing by themselves.
                slack = 0.0 if s.spaces == ("logits", "logits") else s.exact(p[i : i + 1], q[i : i + 1])[1][0]
                slack += 8 * eps if s.spaces[0] != s.spaces[1] else 0.0
                if not got >= -1.5 * slack:
                    message = f"expected at least 0, got {significant(got)} for rows {step:g} apart"
                    yield Problem(message, s.show(p[i], q[i]), got, 0.0, -got)


@VALUES.check
def shift_invariance(s: Subject) -> Iterator[Problem]:
    """Adding a constant to all logits of a row changes nothing."""
    if "logits" not in s.spaces:
        raise NotApplicable("no argument is given as logits")
    p, q = ordinary(s)
    # A multiple of the last bit: the shift itself is exact.
    p = p + 1024.0 if s.spaces[0] == "logits" else p
    q = q - 512.0 if s.spaces[1] == "logits" else q
    yield from compare_rows(s, p, q)


@VALUES.check
def dtypes(s: Subject) -> Iterator[Problem]:
    """Every dtype gives the exact value for its rounded inputs, in its own precision or better."""
    for dtype in s.dtypes:
        p, q = ordinary(s, dtype)
        got = s.call(p, q)
        if not got.dtype.is_floating_point or torch.finfo(got.dtype).eps > torch.finfo(dtype).eps:
            yield Problem(f"{_name(dtype)} in, {_name(got.dtype)} out", s.show(p, q), got.dtype, dtype)
            continue
        yield from compare_rows(s, p, q, f" in {_name(dtype)}")


def _wide(s: Subject) -> list[torch.dtype]:
    return [dtype for dtype in (torch.float32, torch.float64) if dtype in s.dtypes]


def _name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")
