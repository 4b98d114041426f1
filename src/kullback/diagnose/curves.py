"""The densities of two univariate distributions on a grid, and where their divergence accrues; for pictures and terms.

The grid shows where both have their mass; numbers from it are for looking at, and values come from `kl_with_error`.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.distributions import Distribution, VonMises

from kullback.diagnose.explanation import Term
from kullback.diagnose.rows import contributions
from kullback.report.page import Figure, Series

_POINTS = 240
_DRAWS = 2000
_MAX_ELEMENTS = 1 << 21
_MAX_OUTCOMES = 60


@dataclass(frozen=True)
class Curves:
    """Two densities or probability functions at the same places.

    Attributes:
        x: Where, increasing.
        log_p: log p(x), float64.
        log_q: log q(x).
        discrete: Whether x are single outcomes.
        log_axis: Whether x is drawn on a logarithmic axis.
    """

    x: Tensor
    log_p: Tensor
    log_q: Tensor
    discrete: bool
    log_axis: bool

    @property
    def kind(self) -> str:
        """What the terms are of."""
        return "outcomes" if self.discrete else "intervals of x, where p > q and where q > p"

    @property
    def figures(self) -> list[Figure]:
        """The densities p and q, and below them where both directions accrue."""
        x = self.x.tolist()
        p, q = self.log_p.exp().tolist(), self.log_q.exp().tolist()
        one = contributions(self.log_p, self.log_q).tolist()
        other = contributions(self.log_q, self.log_p).tolist()
        kinds = ("bars", "bars") if self.discrete else ("line", "line")
        top = "Probabilities" if self.discrete else "Densities"
        return [
            Figure(
                f"{top}: p and q",
                [
                    Series("p", x, _drawable(p), kinds[0], 0),  # type: ignore[arg-type]
                    Series("q", x, _drawable(q), kinds[1], 1, dashed=True),  # type: ignore[arg-type]
                ],
                x_label="x",
                log_x=self.log_axis,
            ),
            Figure(
                "Where KL accrues: the area is KL",
                [
                    Series("KL(p ‖ q)", x, _drawable(one), "bars" if self.discrete else "area", 0),
                    Series("KL(q ‖ p)", x, _drawable(other), kinds[1], 1, dashed=True),  # type: ignore[arg-type]
                ],
                x_label="x",
                log_x=self.log_axis,
            ),
        ]

    def terms(self) -> list[Term]:
        """What outcomes, or intervals between the crossings of p and q, add to KL. Shares are left 0."""
        p, q = self.log_p.exp(), self.log_q.exp()
        one, other = contributions(self.log_p, self.log_q), contributions(self.log_q, self.log_p)
        if self.discrete:
            rows = torch.stack([p, q, one, other], -1).tolist()
            return [_term(f"x = {x:g}", row) for x, row in zip(self.x.tolist(), rows, strict=True)]
        above = (self.log_p > self.log_q).tolist()
        starts = [0, *(at for at in range(1, len(above)) if above[at] != above[at - 1]), len(above)]
        found = []
        for start, stop in itertools.pairwise(starts):
            part = slice(start, min(stop + 1, len(above)))
            if part.stop - part.start < 2:
                continue
            x = self.x[part]
            masses = [float(torch.trapezoid(_finite(values[part]), x)) for values in (p, q, one, other)]
            label = f"{float(x[0]):.3g} to {float(x[-1]):.3g}: {'p > q' if above[start] else 'q > p'}"
            found.append(_term(label, masses))
        return found


def _term(label: str, numbers: list[float]) -> Term:
    p, q, one, other = numbers
    return Term(label, p, q, one, other, 0.0)


def draw_curves(p: Distribution, q: Distribution, batch: torch.Size, index: tuple[int, ...]) -> Curves | None:
    """Both on one grid, for one element of the batch; None where they cannot be drawn."""
    if batch.numel() > _MAX_ELEMENTS // _POINTS:
        return None
    discrete = [is_discrete(d) for d in (p, q)]
    if discrete[0] != discrete[1]:
        return None
    try:
        with torch.random.fork_rng(devices=[]):  # draws say where the mass is, and leave no trace
            torch.manual_seed(0)
            places = [_typical(d, batch, index) for d in (p, q)]
            x, log_axis = _outcomes(places) if discrete[0] else _grid(places)
            log_p, log_q = (_log_prob(d, x, batch, index) for d in (p, q))
    except (NotImplementedError, ValueError, RuntimeError):  # a class that cannot be sampled or evaluated
        return None
    seen = (log_p > -math.inf) | (log_q > -math.inf)
    usable = seen if discrete[0] else torch.ones_like(seen)
    if x.numel() < 2 or not bool(seen.any()) or bool(log_p.isnan().any() | log_q.isnan().any()):
        return None
    return Curves(x[usable], log_p[usable], log_q[usable], discrete[0], log_axis)


def is_discrete(d: Distribution) -> bool:
    """Whether it is a distribution of counts or classes."""
    return bool(getattr(_support(d), "is_discrete", False))


def _typical(d: Distribution, batch: torch.Size, index: tuple[int, ...]) -> Tensor:
    """Where one element of a distribution has its mass: sorted draws, or points of a known range."""
    if isinstance(d, VonMises):  # its sampler is slow, and does not end for a very large concentration
        return torch.linspace(-math.pi, math.pi, 99, dtype=torch.float64)
    count = max(min(_DRAWS, _MAX_ELEMENTS // max(batch.numel(), 1)), 100)
    draws = d.expand(batch).sample(torch.Size([count]))
    own: Tensor = _element(draws, index)
    own = own[own.isfinite()].sort().values
    if own.numel() < 2:
        raise ValueError("no finite draws")
    low, middle, high = (float(own[int(share * (len(own) - 1))]) for share in (0.25, 0.5, 0.75))
    # The far draws of a heavy tail would leave nothing of the rest to see.
    width = 8 * (high - low)
    near = own[(own >= middle - width) & (own <= middle + width)] if width > 0 else own
    return near if near.numel() >= 2 else own


def _grid(places: list[Tensor]) -> tuple[Tensor, bool]:
    both = torch.cat(places).sort().values
    low, high = float(both[0]), float(both[-1])
    if not high - low > 0:
        raise ValueError("all draws are equal")
    log_axis = low > 0 and high / low > 1000
    if log_axis:
        even = torch.logspace(math.log10(low), math.log10(high), _POINTS, dtype=torch.float64)
    else:
        even = torch.linspace(low, high, _POINTS, dtype=torch.float64)
    # A narrow distribution beside a wide one gets points of its own.
    own = [place[:: max(len(place) // 60, 1)] for place in places]
    x = _sorted_unique(torch.cat([even, *own]))
    middle = (x[1:] + x[:-1]) / 2
    return _sorted_unique(torch.cat([x, middle]))[1:-1], log_axis


def _outcomes(places: list[Tensor]) -> tuple[Tensor, bool]:
    both = torch.cat(places)
    low, high = float(both.min()), float(both.max())
    if high - low <= _MAX_OUTCOMES:
        return torch.arange(low, high + 1, dtype=torch.float64), False
    return _sorted_unique(torch.linspace(low, high, _MAX_OUTCOMES, dtype=torch.float64).round()), False


def _log_prob(d: Distribution, x: Tensor, batch: torch.Size, index: tuple[int, ...]) -> Tensor:
    """The log-density at each x, −inf outside the support."""
    spread = x.reshape(-1, *(1,) * len(batch)).expand(-1, *batch)
    dtype = d.sample().dtype if not isinstance(d, VonMises) else torch.float64
    value = spread.to(dtype if dtype.is_floating_point else torch.float64)
    support = _support(d)
    inside = torch.ones_like(value, dtype=torch.bool)
    if support is not None:
        inside = support.check(value).bool()  # type: ignore[attr-defined]
    # A value inside the support in every place where the real one is outside of it.
    safe = torch.where(inside, value, d.sample().to(value.dtype).expand(batch)) if not bool(inside.all()) else value
    logs = torch.where(inside, d.log_prob(safe).detach(), -math.inf)
    return _element(logs, index)


def _element(values: Tensor, index: tuple[int, ...]) -> Tensor:
    """One batch element of each of the first dimension's entries."""
    for at in reversed(index):
        values = values[..., at]
    return values.double().cpu()


def _sorted_unique(values: Tensor) -> Tensor:
    return torch.unique(values, sorted=True)  # type: ignore[no-any-return]


def _support(d: Distribution) -> object:
    try:
        return d.support
    except NotImplementedError:
        return None


def _finite(values: Tensor) -> Tensor:
    return torch.where(values.isfinite(), values, 0.0)


def _drawable(values: list[float]) -> list[float]:
    """Without peaks that would flatten the rest: a density may be infinite at the end of its support."""
    finite = sorted(value for value in values if math.isfinite(value))
    if len(finite) < 20:
        return values
    limit = 4 * finite[int(0.98 * (len(finite) - 1))]
    return [min(value, limit) if math.isfinite(value) and limit > 0 else value for value in values]
