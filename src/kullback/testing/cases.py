"""The inputs of the tensor checks, in any space, and the comparison of rows with their exact values.

Ordinary logits are multiples of 1/8 and probabilities are dyadic: every dtype stores them exactly, shifted ones too,
and a printed case can be typed in again.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import torch
from torch import Tensor

from kullback.testing.convention import Subject
from kullback.testing.exact import expected_got
from kullback.testing.runner import Problem

INF = math.inf

_LOGITS_P = [[0.5, -1.0, 2.0, 0.25], [-3.0, 0.75, 1.5, 0.0], [1.0, -2.0, 0.125, 1.0]]
_LOGITS_Q = [[-0.5, 1.0, 0.75, 0.0], [0.125, 0.5, -1.0, 2.0], [2.5, 0.0, 0.5, -0.25]]
_PROBS_P = [[0.5, 0.25, 0.125, 0.125], [0.0625, 0.1875, 0.25, 0.5], [0.375, 0.375, 0.125, 0.125]]
_PROBS_Q = [[0.125, 0.375, 0.25, 0.25], [0.25, 0.25, 0.4375, 0.0625], [0.5, 0.0625, 0.3125, 0.125]]


def ordinary(s: Subject, dtype: torch.dtype = torch.float64) -> tuple[Tensor, Tensor]:
    """Three rows of four classes, far from equality, each side in its own space."""
    return (
        _stored(s, _LOGITS_P, _PROBS_P, 0, dtype),
        _stored(s, _LOGITS_Q, _PROBS_Q, 1, dtype),
    )


def _stored(s: Subject, logits: list[list[float]], probs: list[list[float]], side: int, dtype: torch.dtype) -> Tensor:
    if s.spaces[side] == "probs":
        return torch.tensor(probs, dtype=torch.float64).to(dtype)
    return s.place(torch.tensor(logits, dtype=torch.float64), side).to(dtype)


def ordinary_logits() -> tuple[Tensor, Tensor]:
    """The ordinary rows as float64 logits, for derivatives."""
    return torch.tensor(_LOGITS_P, dtype=torch.float64), torch.tensor(_LOGITS_Q, dtype=torch.float64)


def with_zeros(s: Subject, p: list[list[float]], q: list[list[float]], dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """Rows given as dyadic probabilities that may be 0, each side in its own space.

    As logits they are taken to base 2, which gives another distribution of the same support in whole numbers.
    """
    sides = []
    for side, rows in enumerate((p, q)):
        probs = torch.tensor(rows, dtype=torch.float64)
        spaces = {"probs": probs, "log_probs": probs.log(), "logits": probs.log2()}
        sides.append(spaces[s.spaces[side]].to(dtype))
    return sides[0], sides[1]


def compare_rows(s: Subject, p: Tensor, q: Tensor, note: str = "") -> Iterator[Problem]:
    """Compare every row of `fn(p, q)` with its exact value."""
    yield from compare_values(s, s.rows(p, q), p, q, note)


def compare_values(s: Subject, got: Tensor, p: Tensor, q: Tensor, note: str = "") -> Iterator[Problem]:
    """Compare one value a row with the exact ones; NaN, a wrong infinity and a wrong sign count most."""
    dtype = torch.promote_types(p.dtype, q.dtype) if s.returns == "pointwise" else got.dtype
    rtol = s.rtol.get(dtype, 0.0)
    for i, (value, exact, slack) in enumerate(zip(got.detach().double().tolist(), *s.exact(p, q), strict=True)):
        if value == exact:
            continue
        error = abs(value - exact)
        allowed = rtol * abs(exact) + 1.5 * slack
        if not error <= allowed or math.isinf(exact):
            message = expected_got(exact, value) + note
            badness = error / abs(exact) if exact and math.isfinite(error) else INF
            yield Problem(message, s.show(p[i], q[i]), value, exact, badness)
