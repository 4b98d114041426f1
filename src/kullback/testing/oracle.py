r"""The exact value and derivatives of a divergence between two finite distributions, in 50 digits.

The inputs are the floats as stored: a logit of 0.1 in float32 means 0.100000001490116…, so that the only error left is
that of the function under test. Derivatives are central differences in the logits with a step of 1e-15,

    f'(x) = [f(x + h) - f(x - h)] / 2h + O(h²),

whose error of about 1e-30 is nothing beside a float64; they hold for any formula, also a user's own.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from kullback._core.errors import InputTypeError, InputValueError, explain_problem
from kullback.testing.exact import DIGITS, mpmath

Row = tuple[float, ...]
Formula = Callable[[Sequence[Any], Sequence[Any]], Any]

_STEP = "1e-15"


@dataclass(frozen=True)
class Divergence:
    """A divergence by its exact formula.

    Attributes:
        name: How messages call it.
        formula: Takes the probabilities of p and of q as two sequences of `mpmath.mpf`, returns an `mpf`. It must
            know that 0 log 0 = 0 and return `mpmath.inf` where the divergence is infinite.
        smooth: Whether it is twice differentiable at p = q; if not, its curvature there is not checked.

    Example:
        >>> import mpmath
        >>> chi2 = Divergence("chi2", lambda p, q: mpmath.fsum((a - b) ** 2 / b for a, b in zip(p, q)))
        >>> float(chi2.formula([mpmath.mpf(1), mpmath.mpf(0)], [mpmath.mpf("0.5"), mpmath.mpf("0.5")]))
        1.0
    """

    name: str
    formula: Formula
    smooth: bool = True


def _kl(p: Sequence[Any], q: Sequence[Any]) -> Any:
    mp = mpmath()
    if any(b == 0 < a for a, b in zip(p, q, strict=True)):
        return mp.inf
    return mp.fsum(a * mp.log(a / b) for a, b in zip(p, q, strict=True) if a > 0)


def _middle(p: Sequence[Any], q: Sequence[Any]) -> list[Any]:
    return [(a + b) / 2 for a, b in zip(p, q, strict=True)]


def _hellinger(p: Sequence[Any], q: Sequence[Any]) -> Any:
    mp = mpmath()
    return mp.sqrt(mp.fsum((mp.sqrt(a) - mp.sqrt(b)) ** 2 for a, b in zip(p, q, strict=True)) / 2)


def _chi2(p: Sequence[Any], q: Sequence[Any]) -> Any:
    mp = mpmath()
    if any(b == 0 < a for a, b in zip(p, q, strict=True)):
        return mp.inf
    return mp.fsum((a - b) ** 2 / b for a, b in zip(p, q, strict=True) if b > 0)


_KNOWN = {
    divergence.name: divergence
    for divergence in (
        Divergence("kl", _kl),
        Divergence("reverse_kl", lambda p, q: _kl(q, p)),
        Divergence("js", lambda p, q: (_kl(p, _middle(p, q)) + _kl(q, _middle(p, q))) / 2),
        Divergence("jeffreys", lambda p, q: _kl(p, q) + _kl(q, p)),
        Divergence("chi2", _chi2),
        Divergence("total_variation", lambda p, q: sum(abs(a - b) for a, b in zip(p, q, strict=True)) / 2, False),
        Divergence("hellinger", _hellinger, False),
    )
}


def resolve(divergence: str | Divergence | Formula) -> Divergence:
    """Look up a divergence by name, or take the user's own formula."""
    if isinstance(divergence, Divergence):
        return divergence
    if callable(divergence):
        return Divergence(getattr(divergence, "__name__", "divergence"), divergence)
    if not isinstance(divergence, str):
        raise InputTypeError(explain_problem("divergence= is a name or a formula.", got=repr(divergence)))
    if divergence not in _KNOWN:
        raise InputValueError(
            explain_problem(
                f"There is no exact formula for the divergence {divergence!r}.",
                expected=", ".join(sorted(_KNOWN)),
                instead="divergence=my_formula, taking two sequences of mpmath numbers",
            )
        )
    return _KNOWN[divergence]


def probabilities(row: Sequence[Any], space: str, as_given: bool = False) -> list[Any]:
    """The distribution that a row of stored floats means: normalised exactly, unless taken as given."""
    mp = mpmath()
    numbers = [mp.mpf(x) for x in row]
    if space != "probs":
        top = mp.mpf(0) if as_given else max(numbers)
        numbers = [mp.mpf(0) if mp.isinf(x) else mp.exp(x - top) for x in numbers]
    total = mp.mpf(1) if as_given and space != "logits" else mp.fsum(numbers)
    return [x / total for x in numbers]


@lru_cache(maxsize=4096)
def value(divergence: Divergence, p: Row, q: Row, spaces: tuple[str, str]) -> Any:
    """The exact divergence between two rows of stored floats."""
    with mpmath().workdps(DIGITS):
        return divergence.formula(probabilities(p, spaces[0]), probabilities(q, spaces[1]))


@lru_cache(maxsize=4096)
def ambiguity(divergence: Divergence, p: Row, q: Row, spaces: tuple[str, str]) -> float:
    """How far the rounding of the inputs leaves the value open.

    Stored probabilities sum to 1 only up to rounding. Whether such a row means p/Σp or is taken as it stands is a
    convention; this is the largest difference that the choice, made for either side, makes to the value.
    """
    mp = mpmath()
    with mp.workdps(DIGITS):
        exact = value(divergence, p, q, spaces)
        if spaces == ("logits", "logits") or mp.isinf(exact):
            return 0.0
        readings = [
            divergence.formula(probabilities(p, spaces[0], raw_p), probabilities(q, spaces[1], raw_q))
            for raw_p, raw_q in ((True, True), (True, False), (False, True))
        ]
        return float(max(abs(reading - exact) for reading in readings))


def _gradient(divergence: Divergence, p: list[Any], q: list[Any], side: int) -> list[Any]:
    mp = mpmath()
    step = mp.mpf(_STEP)
    result = []
    for index in range(len(p)):
        ends = []
        for sign in (1, -1):
            rows = [list(p), list(q)]
            rows[side][index] += sign * step
            ends.append(divergence.formula(probabilities(rows[0], "logits"), probabilities(rows[1], "logits")))
        result.append(mp.mpf(0) if mp.isinf((p, q)[side][index]) else (ends[0] - ends[1]) / (2 * step))
    return result


@lru_cache(maxsize=1024)
def gradient(divergence: Divergence, p: Row, q: Row, side: int) -> list[float]:
    """The exact gradient to the logits of p (side 0) or q (side 1); a logit of -inf has gradient 0."""
    mp = mpmath()
    with mp.workdps(DIGITS):
        return [float(x) for x in _gradient(divergence, [mp.mpf(x) for x in p], [mp.mpf(x) for x in q], side)]


@lru_cache(maxsize=1024)
def hessian_vector(divergence: Divergence, p: Row, q: Row, side: int, v: Row) -> list[float]:
    """The exact product of the Hessian in the logits of one side with the direction `v`."""
    mp = mpmath()
    with mp.workdps(DIGITS):
        # The inner differences are good to 30 digits, so the outer step may be 1e-10: error 1e-20.
        step = mp.mpf("1e-10")
        ends = []
        for sign in (1, -1):
            rows = [[mp.mpf(x) for x in p], [mp.mpf(x) for x in q]]
            rows[side] = [x + sign * step * mp.mpf(d) for x, d in zip(rows[side], v, strict=True)]
            ends.append(_gradient(divergence, rows[0], rows[1], side))
        return [float((a - b) / (2 * step)) for a, b in zip(*ends, strict=True)]
