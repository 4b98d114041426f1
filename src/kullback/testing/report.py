"""What a battery found: one `Finding` a check, gathered in a `Report` that prints as a list."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

_NUMBER = re.compile(r"-?\d[\d.e+-]*|\bnan\b|-?\binf\b")
_MARK = {True: "✓", False: "✗", None: "·"}


@dataclass(frozen=True)
class Finding:
    """The outcome of one check.

    Attributes:
        check: The name of the check, as `only=` and `skip=` take it.
        passed: True, False, or None where the check could not be run; the message then says why.
        message: What went wrong in words; empty if nothing did.
        reproducer: The inputs of the worst case.
        got: What the function under test answered there.
        expected: What it should have answered.
        promise: The one sentence that the check checks.
    """

    check: str
    passed: bool | None
    message: str = ""
    reproducer: str = ""
    got: Any = None
    expected: Any = None
    promise: str = ""

    def __str__(self) -> str:
        line = f"{_MARK[self.passed]} {self.check}"
        if self.passed is None:
            return f"{line}: not applicable, {self.message}"
        if self.passed:
            return line
        return f"{line}: {self.message}" + (f" — {self.reproducer}" if self.reproducer else "")


def _by_cause(failures: tuple[Finding, ...]) -> list[str]:
    """One line a cause: failures whose messages differ in their numbers only share the line of the first."""
    groups: dict[str, list[Finding]] = {}
    for finding in failures:
        groups.setdefault(_NUMBER.sub("#", finding.message), []).append(finding)
    lines = []
    for first, *others in groups.values():
        lines.append(str(first))
        if others:
            lines.append(f"    and {len(others)} more alike: {', '.join(finding.check for finding in others)}")
    return lines


@dataclass(frozen=True)
class Report:
    """Everything a battery found out about one function.

    Attributes:
        subject: The name of the function or pair under test.
        findings: One `Finding` a check, in the order the checks were run.
        warnings: The distinct warnings the function gave meanwhile; recorded, never raised.

    Example:
        >>> report = Report("loss", (Finding("vmap", True), Finding("zero_in_p", False, "expected 0, got nan")))
        >>> report.ok
        False
        >>> print(report)
        loss: 1 passed, 1 failed
          ✗ zero_in_p: expected 0, got nan
    """

    subject: str
    findings: tuple[Finding, ...]
    warnings: tuple[str, ...] = ()

    @property
    def ok(self) -> bool:
        """Whether no check failed; a check that could not be run does not count against the function."""
        return not self.failures

    @property
    def failures(self) -> tuple[Finding, ...]:
        """The checks that failed."""
        return tuple(finding for finding in self.findings if finding.passed is False)

    @property
    def not_applicable(self) -> tuple[Finding, ...]:
        """The checks that could not be run."""
        return tuple(finding for finding in self.findings if finding.passed is None)

    def __iter__(self) -> Iterator[Finding]:
        return iter(self.findings)

    def __len__(self) -> int:
        return len(self.findings)

    def __getitem__(self, check: str) -> Finding:
        for finding in self.findings:
            if finding.check == check:
                return finding
        raise KeyError(check)

    def __repr__(self) -> str:
        return f"<Report {self._headline()}>"

    def __str__(self) -> str:
        lines = [self._headline()]
        lines += [f"  {line}" for line in _by_cause(self.failures)]
        lines += [f"  {finding}" for finding in self.not_applicable]
        lines += [f"  ! warned: {text}" for text in self.warnings]
        return "\n".join(lines)

    def full(self) -> str:
        """Every check with its promise, the passed ones too, in the order they were run."""
        lines = [self._headline()]
        for finding in self.findings:
            lines += [f"  {finding}", f"      {finding.promise}"]
        return "\n".join(lines)

    def raise_if_failed(self) -> None:
        """Raise an AssertionError that lists the failures; the one line a test needs.

        Raises:
            AssertionError: If any check failed.
        """
        if not self.ok:
            raise AssertionError(str(self))

    def _headline(self) -> str:
        failed, skipped = len(self.failures), len(self.not_applicable)
        parts = [f"{len(self.findings) - failed - skipped} passed"]
        parts += [f"{failed} failed"] if failed else []
        parts += [f"{skipped} not applicable"] if skipped else []
        return f"{self.subject}: {', '.join(parts)}"
