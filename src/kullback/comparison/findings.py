"""What looks wrong or remarkable about two models, from what an accumulator holds; called by `result.py`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from kullback.report.page import Finding

if TYPE_CHECKING:
    from kullback.comparison.accumulator import KLAccumulator


def find(accumulator: KLAccumulator, temperature: float | None, temperature_stderr: float | None) -> list[Finding]:
    """All findings, most severe first."""
    found = [
        *_nothing(accumulator),
        *_invalid(accumulator),
        *_identical(accumulator),
        *_support(accumulator),
        *_temperature(temperature, temperature_stderr),
        *_tail(accumulator),
    ]
    return sorted(found, key=lambda finding: ("error", "warning", "info").index(finding.severity))


def _nothing(a: KLAccumulator) -> Iterator[Finding]:
    if a.rows == 0 and a.invalid == 0:
        yield Finding("no-rows", "error", "There are no rows to compare.")


def _invalid(a: KLAccumulator) -> Iterator[Finding]:
    if a.invalid:
        yield Finding(
            "unusable-rows",
            "error",
            f"{a.invalid} of {a.rows + a.invalid} rows hold NaN, +inf or no class with any weight, and are left out: "
            f"rows {_listed(a.invalid_rows, a.invalid)}.",
            "look at what wrote these rows; the figures are of the other rows",
            {"rows": a.invalid, "first": list(a.invalid_rows)},
        )


def _identical(a: KLAccumulator) -> Iterator[Finding]:
    if a.rows and a.zero == a.rows:
        yield Finding(
            "identical",
            "warning",
            f"KL is exactly 0 in all {a.rows} rows: two models that differ never agree to the last bit.",
            "check that the other file, checkpoint or setting was really used",
            {"rows": a.rows},
        )
    elif a.zero > max(0.5 * a.rows, 10):
        yield Finding(
            "many-zeros",
            "info",
            f"KL is exactly 0 in {a.zero} of {a.rows} rows.",
            evidence={"rows": a.zero},
        )


def _support(a: KLAccumulator) -> Iterator[Finding]:
    forward, reverse = a.summaries.get("kl"), a.summaries.get("reverse_kl")
    if forward is not None and forward.infinite:
        yield Finding(
            "support",
            "warning",
            f"KL(base ‖ other) is infinite in {forward.infinite} rows, where the other gives probability 0 to a class "
            f"that the base does not exclude: rows {_listed(a.infinite_rows, forward.infinite)}.",
            "compare logits before top-k or top-p filtering; JS and total variation stay finite",
            {"rows": forward.infinite, "first": list(a.infinite_rows)},
        )
    elif reverse is not None and reverse.infinite:
        yield Finding(
            "support-of-base",
            "info",
            f"KL(other ‖ base) is infinite in {reverse.infinite} rows, where the base gives probability 0 to a class "
            "that the other does not exclude.",
            evidence={"rows": reverse.infinite},
        )


def _temperature(temperature: float | None, stderr: float | None) -> Iterator[Finding]:
    if temperature is not None and abs(temperature - 1) > max(0.05, 3 * (stderr or 0)):
        yield Finding(
            "temperature",
            "warning",
            f"Dividing the other's logits by T = {temperature:.4g} brings it nearest to the base.",
            "check that both were recorded at the same temperature",
            {"temperature": temperature},
        )


def _tail(a: KLAccumulator) -> Iterator[Finding]:
    kl = a.summaries.get("kl")
    if kl is not None and 0 < a.rows < 10_000:
        yield Finding(
            "few-rows-in-tail",
            "info",
            f"The 99.9 % quantile rests on about {max(a.rows // 1000, 1)} of {a.rows} rows.",
            evidence={"rows": a.rows},
        )


def _listed(rows: Sequence[int], number: int) -> str:
    return ", ".join(map(str, rows)) + (", …" if number > len(rows) else "")
