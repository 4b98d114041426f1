"""Axes: which range and which ticks; used by the SVG and the terminal figures, so that both show the same."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from kullback.report.page import Figure


class Scale(NamedTuple):
    """A linear or logarithmic axis.

    Attributes:
        low: The left or lower end.
        high: The other end, greater than `low`.
        log: Whether equal ratios have equal lengths.
    """

    low: float
    high: float
    log: bool = False

    def place(self, value: float) -> float | None:
        """Where a value lies, 0 at `low` and 1 at `high`, clipped a little outside; None where it cannot be drawn."""
        if not math.isfinite(value) or (self.log and value <= 0):
            return None
        if self.log:
            at = (math.log(value) - math.log(self.low)) / (math.log(self.high) - math.log(self.low))
        else:
            # Halves, so that the difference of two numbers near the largest does not overflow.
            at = (value / 2 - self.low / 2) / (self.high / 2 - self.low / 2)
        return min(max(at, -0.05), 1.05)

    def ticks(self, about: int = 5) -> list[tuple[float, str]]:
        """Round numbers within the axis and how they are written.

        Example:
            >>> Scale(0.0, 0.9).ticks()
            [(0.0, '0'), (0.2, '0.2'), (0.4, '0.4'), (0.6, '0.6'), (0.8, '0.8')]
            >>> Scale(1e-3, 20.0, log=True).ticks()
            [(0.001, '0.001'), (0.01, '0.01'), (0.1, '0.1'), (1.0, '1'), (10.0, '10')]
        """
        values = self._log_ticks(about) if self.log else self._linear_ticks(about)
        return [(value, f"{value:.6g}") for value in values]

    def _linear_ticks(self, about: int) -> list[float]:
        width = self.high / about - self.low / about
        power = 10.0 ** math.floor(math.log10(width))
        step = next((m * power for m in (1, 2, 2.5, 5) if m * power >= width), 10 * power)
        first = math.ceil(self.low / step - 1e-9)
        count = math.floor(self.high / step + 1e-9) - first + 1
        ticks = [round((first + i) * step, 12 - math.floor(math.log10(step))) + 0.0 for i in range(min(count, 50))]
        return ticks if len({f"{tick:.6g}" for tick in ticks}) == len(ticks) else [self.low, self.high]

    def _log_ticks(self, about: int) -> list[float]:
        low, high = math.ceil(math.log10(self.low) - 1e-9), math.floor(math.log10(self.high) + 1e-9)
        if high <= low:
            return [self.low, self.high]
        return [10.0**power for power in range(low, high + 1, -(-(high - low + 1) // (about + 1)))]


def axis(values: Sequence[float], *, log: bool = False, include_zero: bool = False) -> Scale:
    """The axis that shows all finite values."""
    # Clipped, so that there is room around the largest and the smallest numbers.
    edge, least = 1e300, 1e-300
    if log:
        seen = [min(max(value, least), edge) for value in values if 0 < value < math.inf]
        low, high = min(seen, default=1.0), max(seen, default=1.0)
        return Scale(low / 2, high * 2, True) if low == high else Scale(low, high, True)
    seen = [min(max(value, -edge), edge) for value in values if math.isfinite(value)]
    low, high = min(seen, default=0.0), max(seen, default=1.0)
    if include_zero:
        low, high = min(low, 0.0), max(high, 0.0)
    if not high - low > 1e-12 * max(abs(low), abs(high)):
        around = abs(low) / 2 or 0.5
        low, high = low - around, high + around
    return Scale(low, high)


def axes(figure: Figure) -> tuple[Scale, Scale]:
    """The x-axis and the y-axis of a figure with numbers as x; areas and bars stand on 0."""
    x = [value for series in figure.series for value in series.numbers()] + [mark for mark, _ in figure.marks]
    y = [float(value) for series in figure.series for value in series.y]
    standing = any(series.kind in ("area", "bars") for series in figure.series)
    upright = axis(y, log=figure.log_y, include_zero=standing or min(y, default=0.0) >= 0)
    if not figure.log_y and upright.high > 0:
        upright = Scale(upright.low, upright.high * 1.04)
    return axis(x, log=figure.log_x), upright
