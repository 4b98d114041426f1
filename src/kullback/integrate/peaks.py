"""Where a function of the coordinate is largest: marks for integrands that peak away from any density's mass.

`expectation` calls `find_peaks` for integrands that are known by their logarithm; `largest` is the supremum of log p −
log q itself, which `divergences` asks for.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from kullback.densities.registry import Reading
from kullback.integrate.panels import NEGLIGIBLE, Marks, find_range, locate, place_edges
from kullback.integrate.problem import Densities

_NUM_PEAKS = 3
# Places looked at in a neighbourhood, which is made a sixth as wide as often as it takes.
_NUM_PLACES, _NUM_ROUNDS = 17, 14
# A logarithm of a density is rounded to about so many units of its size.
_ROUNDING = 8 * torch.finfo(torch.float64).eps


class Peaks(NamedTuple):
    """Local maxima, (elements, peaks).

    Attributes:
        place: Where they are in the coordinate.
        width: How far the function stays within ½ of them.
        reach: How far it is not negligible, on a logarithmic scale.
        height: Its values.
    """

    place: Tensor
    width: Tensor
    reach: Tensor
    height: Tensor


def find_peaks(edges: Tensor, height: Callable[[Tensor], Tensor], *, lattice: bool) -> Peaks:
    """The largest local maxima of a function, from a grid between edges and finer and finer neighbourhoods."""
    quarter = torch.arange(4, dtype=edges.dtype, device=edges.device) / 4
    grid = torch.cat([(edges[:, :-1, None] + edges.diff(dim=-1)[..., None] * quarter).flatten(1), edges[:, -1:]], -1)

    def looked(v: Tensor) -> Tensor:
        return height(v.flatten(1)).nan_to_num(-math.inf).reshape(v.shape)

    def tidy(v: Tensor) -> Tensor:
        return v.floor().clamp_min(0.0) + 0.5 if lattice else v

    heights = looked(tidy(grid))
    padded = torch.nn.functional.pad(heights, (1, 1), value=-math.inf)
    is_peak = (heights >= padded[:, :-2]) & (heights >= padded[:, 2:])
    index = torch.where(is_peak, heights, -math.inf).topk(_NUM_PEAKS, -1).indices
    place = grid.gather(-1, index)
    last = grid.shape[-1] - 1
    reach = torch.maximum(
        grid.gather(-1, (index + 1).clamp_max(last)) - place, place - grid.gather(-1, (index - 1).clamp_min(0))
    )
    # Edges may coincide; a neighbourhood still has to be one.
    reach = torch.maximum(reach, 1e-3 * (1 + place.abs()) if not lattice else torch.ones_like(place))
    start = reach
    steps = torch.linspace(-1.0, 1.0, _NUM_PLACES, dtype=edges.dtype, device=edges.device)
    for _ in range(_NUM_ROUNDS):
        around = tidy(place.unsqueeze(-1) + reach.unsqueeze(-1) * steps)
        # The height of this very look: beside a jump, another rounding of the place may be on its other side.
        top, best = looked(around).max(-1, keepdim=True)
        place, reach = around.gather(-1, best).squeeze(-1), reach / 6
    distances = start.unsqueeze(-1) * 2.0 ** torch.arange(-45.0, 6.0, dtype=edges.dtype, device=edges.device)
    lower, upper = (looked(tidy(place.unsqueeze(-1) + sign * distances)) for sign in (-1.0, 1.0))
    number = torch.arange(distances.shape[-1], device=edges.device)
    near, alive = top - torch.minimum(lower, upper) < 0.5, top - torch.maximum(lower, upper) < NEGLIGIBLE
    width = distances.gather(-1, torch.where(near, number, 0).amax(-1, keepdim=True)).squeeze(-1)
    beyond = torch.where(alive, number + 1, 0).amax(-1, keepdim=True).clamp_max(distances.shape[-1] - 1)
    reach = distances.gather(-1, beyond).squeeze(-1)
    return Peaks(place, width, reach, top.squeeze(-1))


def edges_of(densities: Densities, marks: Marks, log_size: Callable[[Tensor], Tensor]) -> Tensor:
    """Edges for a search: as far as the function is not negligible beside its largest value."""

    def relative(v: Tensor) -> tuple[Tensor, Tensor]:
        size = log_size(v).nan_to_num(-math.inf, posinf=-math.inf)
        return size - size.amax(-1, keepdim=True).clamp_min(-1e300), torch.zeros_like(size, dtype=torch.bool)

    return place_edges(densities.over, marks, find_range(densities.over, marks, relative))


def largest(over: Reading, p: Reading, q: Reading) -> tuple[Tensor, Tensor]:
    """The supremum of log p − log q where `over` lives and an estimate of its error; infinite where it grows for ever.

    Derivatives are those at the place of the supremum.
    """
    with torch.no_grad():
        fixed = _densities(*(side.mapped(torch.Tensor.detach) for side in (over, p, q)))
        marks = locate(fixed.over, fixed.others(), ())
        count = 40
        powers = 2.0 ** torch.arange(-4, count - 4, dtype=marks.own.dtype, device=marks.own.device)
        middle = marks.own[:, :1].nan_to_num(0.0)
        step = marks.own_width.amin(-1, keepdim=True) * powers
        step = step.clamp_max(300.0) if not fixed.over.lattice else step
        unbounded = torch.zeros_like(middle[:, 0], dtype=torch.bool)
        ladder = []
        for sign in (-1.0, 1.0):
            v = middle + sign * step
            v = v.floor().clamp_min(0.0) + 0.5 if fixed.over.lattice else v
            ladder.append(v)
            if sign > 0 or not fixed.over.lattice:  # counts have a lower end
                unbounded = unbounded | _grows(fixed, v)
        edges = torch.cat([ladder[0].flip(-1), middle, ladder[1], marks.other.nan_to_num(0.0)], -1).sort(-1).values

        def height(v: Tensor) -> Tensor:
            ratio, rounding = _ratio(fixed, v)
            return ratio - rounding

        found = find_peaks(edges, height, lattice=fixed.over.lattice)
        best = found.height.argmax(-1, keepdim=True)
        place = found.place.gather(-1, best)
    ratio, rounding = _ratio(_densities(over, p, q), place)
    value = torch.where(unbounded, math.inf, ratio.squeeze(-1))
    return value, torch.where(unbounded, 0.0, rounding.squeeze(-1).detach())


def _densities(over: Reading, p: Reading, q: Reading) -> Densities:
    first = over.density()
    return Densities(first, first if p is over else p.density(), q.density())


def _ratio(densities: Densities, v: Tensor) -> tuple[Tensor, Tensor]:
    """The log-ratio log p − log q, −inf where `over` has no mass, and what its rounding may be."""
    sample = densities.sample(v)
    alive = (sample.log_weight > -math.inf) & sample.log_q.isfinite() & sample.log_p.isfinite()
    ratio = torch.where(alive, -sample.log_ratio, -math.inf)
    size = torch.where(alive, sample.log_p.abs() + sample.log_q.abs(), 0.0)
    return ratio, _ROUNDING * size


def _grows(densities: Densities, v: Tensor) -> Tensor:
    """Whether the log-ratio grows for ever: at doubling steps, its last certain increments do not shrink."""
    ratio, rounding = _ratio(densities, v)
    rise = ratio.diff(dim=-1)
    noise = rounding[:, 1:] + rounding[:, :-1]
    certain = (rise.abs() > 1e3 * noise) & rise.isfinite()
    not_shrinking = torch.cat([torch.zeros_like(rise[:, :1]), rise[:, 1:] - 0.9 * rise[:, :-1]], -1) > 0
    number = torch.arange(rise.shape[-1], device=v.device)
    last = torch.where(certain, number, 0).amax(-1, keepdim=True)
    goes_on = ratio[:, -1] > -math.inf  # a support that ends has a largest ratio
    return (certain & not_shrinking & (rise > 0)).gather(-1, last).squeeze(-1) & goes_on
