"""Coordinates that begin at a steep place of q, so that nodes next to it know exactly how far from it they are.

The slope of log q for a Cauchy of scale γ, which derivatives are averages of, changes sign within γ of its location and
is 1/γ there. A node next to it whose offset has a rounding of x's size spoils all digits beyond γ/x. The coordinate of
p, moved to have its 0 at the place, gives x − place by a formula in which nothing cancels.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from kullback.pairs.densities.chart import Around, Chart, Line, Log, Logit, Mark, Sinh
from kullback.pairs.densities.law import Law
from kullback.pairs.densities.point import Point
from kullback.pairs.densities.power_chart import ParetoLog, log_expm1_ratio

# Steeper places are narrower than this in the coordinate, and are felt up to this distance.
_NARROW, _FELT = 1e-3, 0.5


class Beside(NamedTuple):
    """The coordinate of `whole` less `origin`, which is that of the place, or 0 where `steep` says that there is none.

    Attributes:
        whole: The coordinate.
        origin: What is taken away; no derivative.
        steep: Where there is a place.
        place: The place; no derivative.
    """

    whole: Chart
    origin: Tensor
    steep: Tensor
    place: Tensor

    def point(self, y: Tensor) -> Point:
        """The point at y."""
        found = self.whole.point(y + self.origin)
        near = self.steep & (y.abs() < _FELT)
        at, value = _FROM_PLACE[type(self.whole)](self.whole, self.origin, self.place, torch.where(near, y, 0.0))
        # The map moves with p's parameters, and the place with it.
        place = self.place + (at - at.detach())
        return found._replace(beside=(place, value, near))

    def locate(self, mark: Mark) -> tuple[Tensor, Tensor]:
        """Place and width of a mark in y."""
        at, width = self.whole.locate(mark)
        return at - self.origin, width

    def coordinate(self, x: Tensor) -> Tensor:
        """The y of an x."""
        return self.whole.coordinate(x) - self.origin


def beside(law: Law, q: Law) -> Law:
    """A law in a coordinate that begins at a steep place of q, if there is one."""
    mark, chart = q.steep, law.chart
    if mark is None or type(chart) not in _FROM_PLACE:
        return law
    place = mark.at.detach()
    at, width = (part[..., :1].detach() for part in chart.locate(mark._replace(at=place, width=mark.width.detach())))
    steep = (width < _NARROW) & (place > law.lower) & (place < law.upper)
    return law._replace(chart=Beside(chart, torch.where(steep, at, 0.0), steep, place))


Found = tuple[Tensor, Tensor]


def _on_line(chart: Line, origin: Tensor, _: Tensor, y: Tensor) -> Found:
    return chart.loc + chart.scale * origin, chart.scale * y


def _on_sinh(chart: Sinh, origin: Tensor, _: Tensor, y: Tensor) -> Found:
    """Sinh(o + y) − sinh(o) = 2·cosh(o + y/2)·sinh(y/2)."""
    return chart.loc + chart.scale * torch.sinh(origin), 2 * chart.scale * torch.cosh(origin + y / 2) * torch.sinh(
        y / 2
    )


def _on_log(chart: Log, _: Tensor, place: Tensor, y: Tensor) -> Found:
    distance = (place - chart.lower.detach()) * (chart.scale / chart.scale.detach())
    return chart.lower + distance, distance * torch.expm1(y)


def _on_logit(chart: Logit, _: Tensor, place: Tensor, y: Tensor) -> Found:
    """See `Around`; the share of the place moves with the shift of the log-odds."""
    width = chart.width
    share = (place - chart.lower.detach()) / width.detach()
    moved = share * torch.exp(chart.shift - chart.shift.detach())
    share, rest = moved / (1 - share + moved), (1 - share) / (1 - share + moved)
    return chart.lower + width * share, width * share * rest * torch.expm1(y) / (share * torch.expm1(y) + 1)


def _around(chart: Around, origin: Tensor, place: Tensor, y: Tensor) -> Found:
    return _on_logit(chart.whole, origin, place, y)


def _on_pareto(chart: ParetoLog, origin: Tensor, _: Tensor, y: Tensor) -> Found:
    """E^(ξv) − e^(ξo) = e^(ξo)·(e^(ξ(v−o)) − 1), o = e^origin and v − o = o·(e^y − 1)."""
    scale, shape, v = chart.scale, chart.shape, torch.exp(origin)
    more = v * torch.expm1(y)
    value = scale * more * torch.exp(shape * v + log_expm1_ratio(shape * more))
    return chart.loc + scale * v * torch.exp(log_expm1_ratio(shape * v)), value


_FROM_PLACE: dict[type, Callable[..., Found]] = {
    Around: _around,
    Line: _on_line,
    Log: _on_log,
    Logit: _on_logit,
    ParetoLog: _on_pareto,
    Sinh: _on_sinh,
}
