"""Runs checks one after the other: exceptions become findings, warnings are recorded, the worst case is kept.

A check is a generator. It yields one `Problem` for every case that is wrong, yields nothing if all is well, and
raises `NotApplicable` where there is nothing it could check.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

from kullback._core.errors import InputValueError, explain_problem
from kullback._core.progress import follow
from kullback.testing.report import Finding, Report


class NotApplicable(Exception):  # noqa: N818 - not an error: the check has nothing to look at
    """The check cannot be run on this function; the message says why."""


@dataclass(frozen=True)
class Problem:
    """One case that is wrong; `badness` orders them, a NaN or a wrong infinity being the worst."""

    message: str
    reproducer: str = ""
    got: Any = None
    expected: Any = None
    badness: float = math.inf


class Remembers(Protocol):
    """A subject knows the inputs it was last called with, so that an exception can be reproduced."""

    def last_inputs(self) -> str:
        """The latest inputs, written out."""
        ...


SubjectT = TypeVar("SubjectT", bound=Remembers)


@dataclass(frozen=True)
class Check(Generic[SubjectT]):
    """A named promise and the generator that looks for cases that break it."""

    name: str
    promise: str
    find: Callable[[SubjectT], Iterable[Problem]]


class Battery(Generic[SubjectT]):
    """An ordered collection of checks; `check` adds the decorated generator under its own name."""

    def __init__(self, *parts: Battery[SubjectT]) -> None:
        self.checks: list[Check[SubjectT]] = [check for part in parts for check in part.checks]

    def check(self, find: Callable[[SubjectT], Iterator[Problem]]) -> Callable[[SubjectT], Iterator[Problem]]:
        """Add the decorated generator as a check: its name is the check's, its docstring the promise."""
        self.checks.append(Check(find.__name__, (find.__doc__ or "").strip(), find))
        return find

    def run(self, subject: SubjectT, name: str, only: Iterable[str] | str | None, skip: Iterable[str] | str) -> Report:
        """Run the selected checks on `subject` and gather what they find."""
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            findings = tuple(_run_one(check, subject) for check in follow(self._select(only, skip), f"checking {name}"))
        # One line a warning, without torch's note of its own source line; the same text again says nothing new.
        lines = (str(w.message).strip().splitlines()[0].partition(" (Triggered internally")[0] for w in caught)
        texts = dict.fromkeys(f"{w.category.__name__}: {line}" for w, line in zip(caught, lines, strict=True))
        return Report(name, findings, tuple(texts))

    def _select(self, only: Iterable[str] | str | None, skip: Iterable[str] | str) -> Sequence[Check[SubjectT]]:
        known = [check.name for check in self.checks]
        chosen = known if only is None else _as_list(only)
        dropped = _as_list(skip)
        for name in (*chosen, *dropped):
            if name not in known:
                raise InputValueError(
                    explain_problem(f"There is no check named {name!r}.", got=name, expected=", ".join(known))
                )
        return [check for check in self.checks if check.name in chosen and check.name not in dropped]


def _as_list(names: Iterable[str] | str) -> list[str]:
    return [names] if isinstance(names, str) else list(names)


def _run_one(check: Check[SubjectT], subject: SubjectT) -> Finding:
    problems: list[Problem] = []
    try:
        problems.extend(check.find(subject))
    except NotApplicable as reason:
        if not problems:
            return Finding(check.name, None, str(reason), promise=check.promise)
    except Exception as error:  # noqa: BLE001 - whatever a stranger's function raises is a finding, not a crash
        text = (str(error).strip() or "no message").splitlines()[0]
        problems.append(Problem(f"raised {type(error).__name__}: {text[:200]}", subject.last_inputs(), got=error))
    if not problems:
        return Finding(check.name, True, promise=check.promise)
    worst = max(problems, key=lambda problem: problem.badness)
    more = f" ({len(problems) - 1} more like it)" if len(problems) > 1 else ""
    return Finding(check.name, False, worst.message + more, worst.reproducer, worst.got, worst.expected, check.promise)
