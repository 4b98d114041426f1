"""A univariate continuous law as integrals see it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from torch import Tensor

from kullback.pairs.densities.chart import Chart, Mark
from kullback.pairs.densities.point import Point
from kullback.pairs.densities.tails import Tail
from kullback.pairs.support import Bound


class LogDensity(NamedTuple):
    """log f(x) = level − drop, the drop being what may grow beyond any bound on the number range.

    Attributes:
        level: The part that grows at most like a power of log x.
        drop: Non-negative, capped where it is astronomic; None if there is none.
        log_drop: Its logarithm, not capped; read only where the drop is large.
    """

    level: Tensor
    drop: Tensor | None = None
    log_drop: Tensor | None = None

    def total(self) -> Tensor:
        """Log f(x)."""
        return self.level if self.drop is None else self.level - self.drop


class Law(NamedTuple):
    """One batch of laws, every tensor with a trailing dimension for the nodes.

    Attributes:
        chart: The coordinate y ∈ ℝ of integrals over the law: smooth there, with exponential or lighter tails.
        log_density: Of a point, with respect to dx.
        lower: Lower end of the support.
        upper: Upper end.
        lower_tails: How the density falls at the lower end; several where that depends on parameters.
        upper_tails: Likewise at the upper end.
        marks: Where the logarithm of the density is singular, or nearly so, and on which scale.
        bulk: Where the mass lies, if there are no marks there already.
        kinks: Points at which the density has no derivative.
        moving: Whether the ends depend on parameters.
        inner: The law before the last map, if there is one and the chart is its chart followed by that map.
        unsure: Whether the tails are those of a map that is known by its values only, and not listed.
        steep: The mark next to which the slope of the log-density is much larger than its change, if there is one.
    """

    chart: Chart
    log_density: Callable[[Point], LogDensity]
    lower: Bound
    upper: Bound
    lower_tails: list[Tail]
    upper_tails: list[Tail]
    marks: Sequence[Mark] = ()
    bulk: Sequence[Mark] = ()
    kinks: tuple[Tensor, ...] = ()
    moving: bool = False
    inner: Law | None = None
    unsure: bool = False
    steep: Mark | None = None
