"""`Comparison`: what `compare` and `KLAccumulator.compute` return; built from accumulators by `comparison_of`."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from kullback.comparison.accumulator import KLAccumulator
from kullback.comparison.findings import find
from kullback.comparison.measures import INVERSE_TEMPERATURES
from kullback.comparison.statistics import binomial_stderr, block_bootstrap, mean_stderr, quantile_interval
from kullback.comparison.summary import MAX_KEPT, RELATIVE_ERROR, Summary, exact_to_float
from kullback.comparison.worst import WorstRow
from kullback.report.page import Finding, Page

QUANTILES = (0.5, 0.9, 0.95, 0.99, 0.999)


@dataclass(frozen=True)
class Measure:
    """Statistics of one number per row.

    Attributes:
        mean: Its mean; infinite if one row is.
        stderr: Standard error of the mean if rows were independent.
        block_stderr: Standard error that allows for correlation inside blocks (documents, chunks), by bootstrap.
        block_low: Lower end of the 95 % bootstrap interval of the mean.
        block_high: Its upper end.
        blocks: How many blocks were resampled.
        quantiles: By share: 0.5, 0.9, 0.95, 0.99, 0.999.
        intervals: 95 % intervals of the quantiles for independent rows; an end beyond the data is infinite.
        low: The smallest number.
        high: The largest.
        rows: How many rows.
        infinite: In how many of them it is infinite.
        finite_mean: Mean of the finite ones.
    """

    mean: float
    stderr: float
    block_stderr: float
    block_low: float
    block_high: float
    blocks: int
    quantiles: Mapping[float, float]
    intervals: Mapping[float, tuple[float, float]]
    low: float
    high: float
    rows: int
    infinite: int
    finite_mean: float

    @property
    def median(self) -> float:
        """The median."""
        return self.quantiles[0.5]

    @property
    def max(self) -> float:
        """The largest number; the same as `high`."""
        return self.high

    def to_dict(self) -> dict[str, Any]:
        """Everything as plain numbers."""
        return {
            "mean": self.mean,
            "stderr": self.stderr,
            "block_stderr": self.block_stderr,
            "block_interval": [self.block_low, self.block_high],
            "blocks": self.blocks,
            **{_quantile_key(share): value for share, value in self.quantiles.items()},
            "quantile_intervals": {_quantile_key(share): list(both) for share, both in self.intervals.items()},
            "min": self.low,
            "max": self.high,
            "rows": self.rows,
            "infinite": self.infinite,
            "finite_mean": self.finite_mean,
        }


def measure_of(summary: Summary, *, shares: bool = False) -> Measure:
    """The statistics of a summary; `shares`: of numbers that are 0 or 1."""
    resampled = block_bootstrap(summary)
    mean = summary.mean()
    finite = exact_to_float(summary.total, summary.count) if summary.count else math.nan
    return Measure(
        mean=mean,
        stderr=binomial_stderr(mean, summary.count) if shares else mean_stderr(summary),
        block_stderr=resampled.stderr,
        block_low=resampled.low,
        block_high=resampled.high,
        blocks=resampled.blocks,
        quantiles={share: summary.quantile(share) for share in QUANTILES},
        intervals={share: quantile_interval(summary, share) for share in QUANTILES},
        low=summary.low if summary.count else math.inf if summary.infinite else math.nan,
        high=math.inf if summary.infinite else summary.high if summary.count else math.nan,
        rows=summary.count + summary.infinite,
        infinite=summary.infinite,
        finite_mean=finite,
    )


@dataclass(frozen=True, repr=False)
class OtherResult:
    """One OTHER beside the base.

    Attributes:
        name: Its name.
        rows: Rows that were compared.
        measures: Statistics by name: "kl", "reverse_kl", "js", "total_variation", "top1", "topk_overlap", and with
            labels "nll_base", "nll_other" and "nll_difference".
        temperature: T for which q^(1/T) is nearest to p, over sampled rows; None if it was not looked for.
        temperature_stderr: Its standard error, as if the sampled rows were independent.
        worst: Rows with the largest KL.
        findings: What looks wrong or remarkable.
        histogram: (KL, rows) by bucket, for the figure.
        positions: (place in context, mean KL, rows).
        calibration: (confidence, accuracy, rows) of "base" and "other".
    """

    name: str
    rows: int
    classes: int
    measures: Mapping[str, Measure]
    temperature: float | None
    temperature_stderr: float | None
    worst: Sequence[WorstRow]
    findings: Sequence[Finding]
    top_k: int = 10
    histogram: Sequence[tuple[float, int]] = ()
    positions: Sequence[tuple[float, float, int]] = ()
    calibration: Mapping[str, Sequence[tuple[float, float, int]]] = field(default_factory=dict)

    @property
    def perplexity_ratio(self) -> float | None:
        """Perplexity of the other over that of the base; None without labels."""
        difference = self.measures.get("nll_difference")
        return None if difference is None else _exp(difference.mean)

    def to_dict(self) -> dict[str, Any]:
        """Everything as numbers, strings, lists and dictionaries."""
        found: dict[str, Any] = {
            "name": self.name,
            "rows": self.rows,
            "classes": self.classes,
            **{name: measure.to_dict() for name, measure in self.measures.items()},
            "temperature": self.temperature,
            "temperature_stderr": self.temperature_stderr,
            "top_k": self.top_k,
            "worst_rows": [{"row": w.row, "kl": w.kl, "terms": [t._asdict() for t in w.terms]} for w in self.worst],
            "findings": [finding.to_dict() for finding in self.findings],
        }
        if self.perplexity_ratio is not None:
            found["perplexity_base"] = _exp(self.measures["nll_base"].mean)
            found["perplexity_other"] = _exp(self.measures["nll_other"].mean)
            found["perplexity_ratio"] = self.perplexity_ratio
        return found


@dataclass(frozen=True)
class PairedDifference:
    """KL of `second` minus KL of `first`, row by row: its error is that of the difference, not of both."""

    first: str
    second: str
    difference: Measure


@dataclass(frozen=True, repr=False)
class Comparison:
    """How far others are from a base, row by row; made by `compare` and `KLAccumulator.compute`.

    `str()` and notebooks show it, `to_dict()` gives plain numbers, `page` goes to `kullback.report`. The measures of
    the first other are attributes: `.kl.mean`, `.reverse_kl`, `.js`, `.total_variation`, `.top1`, `.topk_overlap`.

    Attributes:
        base: Name of the base.
        others: One result for each other.
        paired: Differences between the others.
        labels: Names of classes, where they are known: something that `diagnose.labels.Names` takes.
        notes: Sentences for the head of the report.
        complete: Whether all rows were seen.
    """

    base: str
    others: Sequence[OtherResult]
    paired: Sequence[PairedDifference] = ()
    labels: Any = None
    notes: Sequence[str] = ()
    complete: bool = True

    @property
    def rows(self) -> int:
        """Rows that were compared with the first other."""
        return self.others[0].rows

    @property
    def mean(self) -> float:
        """Mean KL(base ‖ other) of the first other, in nats."""
        return self.kl.mean

    @property
    def kl(self) -> Measure:
        """Statistics of KL(base ‖ other)."""
        return self._measure("kl")

    @property
    def reverse_kl(self) -> Measure:
        """Statistics of KL(other ‖ base)."""
        return self._measure("reverse_kl")

    @property
    def js(self) -> Measure:
        """Statistics of the Jensen-Shannon divergence."""
        return self._measure("js")

    @property
    def total_variation(self) -> Measure:
        """Statistics of the total variation."""
        return self._measure("total_variation")

    @property
    def top1(self) -> Measure:
        """Share of rows with the same most probable class."""
        return self._measure("top1")

    @property
    def topk_overlap(self) -> Measure:
        """Share of the k most probable classes that both have."""
        return self._measure("topk_overlap")

    @property
    def perplexity_ratio(self) -> float | None:
        """Perplexity of the first other over that of the base; None without labels."""
        return self.others[0].perplexity_ratio

    @property
    def temperature(self) -> float | None:
        """Best-fit temperature of the first other."""
        return self.others[0].temperature

    @property
    def worst(self) -> Sequence[WorstRow]:
        """Rows of the first other with the largest KL."""
        return self.others[0].worst

    @property
    def findings(self) -> list[Finding]:
        """What looks wrong or remarkable, of all others."""
        return [finding for other in self.others for finding in other.findings]

    def _measure(self, name: str) -> Measure:
        if name not in self.others[0].measures:
            raise AttributeError(f"{name} was not measured; measured: {', '.join(self.others[0].measures)}")
        return self.others[0].measures[name]

    @property
    def page(self) -> Page:
        """All of it as a neutral page, which `kullback.report` renders."""
        from kullback.comparison.page import build_page

        return build_page(self)

    def to_dict(self) -> dict[str, Any]:
        """Everything as numbers, strings, lists and dictionaries; divergences in nats."""
        return {
            "base": self.base,
            "complete": self.complete,
            "notes": list(self.notes),
            "others": [other.to_dict() for other in self.others],
            "paired": [
                {"first": pair.first, "second": pair.second, "kl_difference": pair.difference.to_dict()}
                for pair in self.paired
            ],
            "quantiles": f"exact up to {MAX_KEPT} rows, beyond that within a factor of 1 ± {RELATIVE_ERROR:g}",
        }

    def __str__(self) -> str:
        from kullback.report.terminal import page_to_text

        return page_to_text(self.page).rstrip("\n")

    def __repr__(self) -> str:
        return f"<Comparison: {self.page.title}; print() shows all of it>"

    def _repr_html_(self) -> str:
        from kullback.report.html import page_to_fragment

        return page_to_fragment(self.page)


def comparison_of(
    accumulators: Sequence[tuple[str, KLAccumulator]],
    *,
    base: str,
    paired: Sequence[tuple[str, str, Summary]] = (),
    class_of: Callable[[int, int], int] | None = None,
    **rest: Any,
) -> Comparison:
    """The comparison that accumulators hold, one for each other; `class_of` gives the class of a row's column."""
    results = [_result(name, accumulator, class_of) for name, accumulator in accumulators]
    differences = [PairedDifference(first, second, measure_of(summary)) for first, second, summary in paired]
    return Comparison(base, results, differences, **rest)


def _result(name: str, accumulator: KLAccumulator, class_of: Callable[[int, int], int] | None) -> OtherResult:
    summaries = accumulator.summaries or {measure: Summary() for measure in accumulator.measures}
    measures = {key: measure_of(summary, shares=key == "top1") for key, summary in summaries.items()}
    temperature, temperature_stderr = best_temperature(accumulator)
    worst = accumulator.worst.settled()
    if class_of is not None:
        worst = [
            row._replace(terms=[t._replace(class_index=class_of(row.row, t.class_index)) for t in row.terms])
            for row in worst
        ]
    return OtherResult(
        name=name,
        rows=accumulator.rows,
        classes=accumulator.classes,
        measures=measures,
        temperature=temperature,
        temperature_stderr=temperature_stderr,
        worst=worst,
        findings=find(accumulator, temperature, temperature_stderr),
        top_k=min(accumulator.top_k, accumulator.classes or accumulator.top_k),
        histogram=_histogram(summaries["kl"]),
        positions=accumulator.positions.curve(),
        calibration={side: bins.curve() for side, bins in accumulator.calibration.items()},
    )


def best_temperature(accumulator: KLAccumulator) -> tuple[float | None, float | None]:
    """T at which KL(p ‖ softmax(log q / T)) is smallest over the sampled rows, and its standard error.

    T = 1/β at the root of the derivative in β. The error is that of the mean slope there, divided by how steep it is.
    """
    count = accumulator.slope_rows
    if not count:
        return None, None
    slopes = np.array([exact_to_float(slope, count) for slope in accumulator.slopes])
    if slopes[0] >= 0 or slopes[-1] <= 0:  # rows without any preference, or a temperature beyond the range
        return None, None
    # The cubic in log β through the four nodes around the root.
    first = min(max(int(np.argmax(slopes >= 0)) - 2, 0), len(slopes) - 4)
    nodes = np.log(INVERSE_TEMPERATURES)[first : first + 4]
    cubic = np.polynomial.Polynomial.fit(nodes, slopes[first : first + 4], 3)
    at = int(np.argmax(slopes >= 0)) - first
    low, high = nodes[at - 1], nodes[at]
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if cubic(middle) < 0 else (low, middle)
    temperature = float(np.exp(-(low + high) / 2))
    if count < 2:
        return temperature, None
    squares = np.array([exact_to_float(square, count) for square in accumulator.slope_squares])
    variances = np.maximum(squares - slopes**2, 0)[first : first + 4] * count / (count - 1)
    stderr = math.sqrt(float(np.interp((low + high) / 2, nodes, variances)) / count)
    steepness = float(cubic.deriv()((low + high) / 2))
    return temperature, temperature * stderr / steepness if steepness > 0 else None


def _histogram(summary: Summary) -> list[tuple[float, int]]:
    """Rows by KL, about 8 bars per factor of ten, and 32 where all rows lie within one."""
    from kullback.comparison.summary import bucket_value

    values = [(math.log10(bucket_value(key)), number) for key, number in summary.buckets.items() if key > 0]
    if not values:
        return []
    places = [place for place, _ in values]
    per_decade = 8 if max(places) - min(places) > 1 else 32
    bars: dict[int, int] = {}
    for place, number in values:
        bar = math.floor(per_decade * place)
        bars[bar] = bars.get(bar, 0) + number
    return [(10 ** ((bar + 0.5) / per_decade), bars.get(bar, 0)) for bar in range(min(bars), max(bars) + 1)]


def _quantile_key(share: float) -> str:
    return "median" if share == 0.5 else f"q{100 * share:g}"


def _exp(value: float) -> float:
    try:
        return math.exp(value)
    except OverflowError:
        return math.inf
