"""Standard errors and intervals of what a `Summary` holds; called by `result.py`."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from kullback.comparison.summary import Summary

_REPLICATES = 2000
_SEED = 20
_MAX_CHOSEN = 1 << 18  # blocks that are chosen at a time, for memory


class Bootstrap(NamedTuple):
    """A standard error and a 95 % interval of a mean by resampling blocks; NaN for fewer than two blocks."""

    stderr: float
    low: float
    high: float
    blocks: int


def mean_stderr(summary: Summary) -> float:
    """Standard error of the mean of independent rows: s / √n."""
    if summary.infinite or summary.count < 2:
        return math.nan
    return math.sqrt(summary.variance() / summary.count)


def binomial_stderr(share: float, count: int) -> float:
    """Standard error of a share of `count` independent rows: √(share (1 - share) / (count - 1)).

    Example:
        >>> round(100 * binomial_stderr(0.85584, 167_025), 3)  # llama.cpp publishes 85.584 ± 0.086 %
        0.086
    """
    return math.sqrt(share * (1 - share) / (count - 1)) if count > 1 else math.nan


def block_bootstrap(summary: Summary) -> Bootstrap:
    """Resample whole blocks of rows with replacement: neighbouring tokens are correlated, blocks much less.

    The resamples come from a generator with a fixed seed, so that the same rows give the same digits.
    """
    counts, sums = summary.block_sums()
    if summary.infinite or len(counts) < 2:
        return Bootstrap(math.nan, math.nan, math.nan, len(counts))
    generator = np.random.default_rng(_SEED)
    center = summary.mean()
    means = np.empty(_REPLICATES)
    deviations = sums - counts * center  # of about the size of the result: nothing is lost in the sums
    step = max(_MAX_CHOSEN // len(counts), 1)
    for start in range(0, _REPLICATES, step):
        chosen = generator.integers(len(counts), size=(min(step, _REPLICATES - start), len(counts)))
        means[start : start + step] = deviations[chosen].sum(1) / counts[chosen].sum(1)
    low, high = np.quantile(means, [0.025, 0.975])
    return Bootstrap(float(means.std(ddof=1)), center + float(low), center + float(high), len(counts))


def quantile_interval(summary: Summary, share: float) -> tuple[float, float]:
    """An interval that covers the quantile with at least 95 % for independent rows, from order statistics.

    The number of rows below the quantile is binomial, so its ranks are those of np ± 1.96 √(np(1-p)), rounded outwards.
    An end beyond the data is infinite or minus infinite.
    """
    count = summary.count + summary.infinite
    if count < 2:
        return -math.inf, math.inf
    spread = 1.959964 * math.sqrt(count * share * (1 - share))
    low, high = math.floor(count * share - spread) - 1, math.ceil(count * share + spread)
    return (
        summary.quantile(low / (count - 1)) if low >= 0 else -math.inf,
        summary.quantile(high / (count - 1)) if high < count else math.inf,
    )
