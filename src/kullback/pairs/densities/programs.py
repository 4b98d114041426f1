"""The integrand of two families as recorded programs: what is done at every node natively, in one pass.

A description is a few torch operations per parameter and some tens per node. Recorded once for two classes, they are a
program that finds everything the panels need of the parameters, one for the size of the integrand at any point, and one
for the integrand. The last takes for granted what held in the example (that no offset is astronomic, that two supports
begin at the same place); where it does not hold it says NaN, and the integral is taken by torch's operations.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch
from torch import Tensor
from torch.distributions import Distribution, MixtureSameFamily, TransformedDistribution
from torch.distributions.transforms import Transform, _InverseTransform

from kullback._core.shapes import joint_shape
from kullback.integrate.recorded import Found, Placed, RecordedIntegral
from kullback.kernels import native
from kullback.kernels.program import TooLargeError
from kullback.kernels.recorder import LENGTH, RefusedError
from kullback.pairs.densities.describe import in_family
from kullback.pairs.densities.inclusion import outside, same_ends
from kullback.pairs.densities.log_ratio import close_ratio, ratio_of
from kullback.pairs.densities.meeting import everywhere, inner_ends
from kullback.pairs.densities.nesting import as_mixture
from kullback.pairs.densities.parameter_table import Filled, ParameterTable
from kullback.pairs.densities.placing import Pieces, Sample, evaluate, located
from kullback.pairs.densities.point import Point
from kullback.pairs.densities.sides import MixedSide, OneOf, Side, columns_of, side_of
from kullback.pairs.densities.transformed import FOLLOWED
from kullback.pairs.densities.watch import Points, Split, Watch, guarded
from kullback.pairs.parameters import gives_logits, recordable

Integrand = Callable[[Sample], Tensor]
# How many times in a row a plain form must have failed at least before it is not tried any more.
_MEMORY = 8
# Structures with numbers in them are recorded when they were seen this often, so many elements counting as one more
# sight, and not more of them than this.
_RARE, _MANY, _MOST_SIGHTS = 4, 64, 256


class Layout(NamedTuple):
    """What the parameters say, one column per element, or per component of it.

    Attributes:
        filled: Places of marks in the coordinate of the nodes, their widths, kinks, and what programs take.
        infinite: 1 where the integral is infinite by its ends or tails, or whatever else was asked, else 0.
        same: 1 where both supports agree, else 0.
        foreseen: Whether what held in the example holds here; None if it does everywhere.
    """

    filled: Filled
    infinite: Tensor
    same: Tensor
    foreseen: Tensor | None


class Setting(NamedTuple):
    """How two laws meet in an integral over the first.

    Attributes:
        extreme: Where the integral need not be asked, being infinite, or as large as it gets.
        beyond: Whether the first may live where the second does not.
        crossings: Whether the integrand has kinks where the densities are equal.
    """

    extreme: Callable[[Pieces], Tensor | bool]
    beyond: bool = False
    crossings: bool = False


_INSIDE = Setting(outside)


class Programs:
    """All of two classes with given structure, whatever their parameters.

    Args:
        p: An example.
        q: Another.
        integrand: What is integrated over p.
        log_size: How large that may be.
        follow_q: Whether the integrand is of the size of q, too.
        closely: Whether it is told log-ratios that are made of differences of parameters.
        followed: Whether its derivatives by the parameters are integrated, too.
        setting: How the two laws meet.
    """

    def __init__(
        self,
        p: Distribution,
        q: Distribution,
        integrand: Integrand,
        log_size: Integrand,
        *,
        follow_q: bool,
        closely: bool,
        followed: bool,
        setting: Setting,
    ) -> None:
        mixed = isinstance(p, MixtureSameFamily)
        own = OneOf(p) if isinstance(p, MixtureSameFamily) else None
        sides = [side_of(p), side_of(q), *([] if own is None else [own])]
        leaves = [leaf for side in sides for leaf in side.leaves]
        inputs = columns_of(sides)
        y = torch.linspace(-2.0, 2.0, LENGTH, dtype=torch.float64, device="cpu").unsqueeze(-1).requires_grad_(followed)
        weight = torch.zeros_like(y)
        with torch.set_grad_enabled(followed), Watch() as watch:
            for tensor in (*leaves, y, weight):
                watch.input(tensor)
            laws = [side.describe(_lift) for side in sides]
            ratio = _close_ratio(sides) if closely else None
            share = None if own is None else _lift(own.log_share)
            other = everywhere(laws[1], laws[0]) if setting.beyond else laws[1]
            pieces = Pieces(laws[0], other, laws[-1 if mixed else 0], share, frozen=True, log_ratio=ratio)
            if laws[0].unsure or laws[1].unsure:
                raise RefusedError("a map that is known by its values only")
            if followed and any(
                isinstance(side, MixedSide) and law.moving for side, law in zip(sides, laws, strict=True)
            ):
                raise RefusedError("a density that jumps where a parameter says")
            centres, widths = located(pieces, follow_q=follow_q)
            kinks = pieces.kinks()
            infinite, same = _answers(pieces, setting, y)
            always = list(watch.guards)
            sample = evaluate(pieces, y, weight)
            sizes, argument = log_size(sample), _argument(sample)
            careful = _terms(sample, integrand)
            # At an end of q inside p's support the integrand jumps.
            ends = inner_ends(laws[1], laws[0]) if followed and setting.beyond else []
            jumps = len(ends)
            slopes = watch.slopes(careful[0], [*leaves, y] if jumps else leaves) if followed else None
            moves = [
                watch.slopes(torch.where(end.isfinite(), kink, kink.detach()), leaves)
                for (end, _), kink in zip(ends, kinks[len(kinks) - jumps :], strict=True)
            ]
            in_general = list(watch.guards)
            watch.optimistic = True
            plain = _terms(evaluate(pieces, y, weight), integrand)
            watch.optimistic = False
            graph, at = watch.graph, Points(watch.graph, len(inputs))
            self.marks, self.kinks = centres.shape[-1], len(kinks)
            facts = [n for x in (centres, widths, *kinks, infinite, same) for n in watch.columns(x)]
            facts = guarded(graph, facts, always)
            parts = [
                Split(graph, guarded(graph, _firsts(watch, (sizes, argument)), in_general), at),
                Split(graph, guarded(graph, _firsts(watch, plain), watch.guards), at),
                Split(graph, guarded(graph, _firsts(watch, careful), in_general), at),
            ]
            if slopes is not None and jumps:
                slopes.append(_firsts(watch, careful)[0])
            if slopes is not None:
                parts.append(Split(graph, guarded(graph, slopes, in_general), at))
        self._lead, self._facts, self.moving = 0, len(facts), laws[0].moving or laws[1].moving
        needs = list(dict.fromkeys(node for part in parts for node in part.needs))
        place = {n: self._facts + i for i, n in enumerate(needs)}
        placed = [Placed(part.program, [place[node] for node in part.needs]) for part in parts]
        self._integral = RecordedIntegral(
            *placed[:3],
            marks=self.marks,
            kinks=self.kinks,
            follows=follow_q,
            slopes=placed[3] if followed else None,
            jumps=jumps,
            crossings=setting.crossings,
        )
        self._jumps, self._moves = jumps, self._facts + len(needs)
        rows = [*facts, *needs, *(node for move in moves for node in move)]
        self._table = ParameterTable(graph, rows, inputs, mixed=mixed, followed=followed)

    def layout(self, p: Distribution, q: Distribution, batch: torch.Size) -> Layout | None:
        """What the parameters say; None if they are not ordinary tensors."""
        filled = self._table.fill(p, q, batch)
        if filled is None:
            return None
        facts = filled.table[: self._facts]
        lost, infinite, same = facts.isnan().any(0), facts[-2], facts[-1]
        if filled.components > 1:
            shape = -1, filled.components
            lost = lost.reshape(shape).any(-1)
            infinite, same = (part.reshape(shape).amax(-1) for part in (infinite, same))
        return Layout(filled, infinite, same, ~lost if bool(lost.any()) else None)

    def integral(self, layout: Layout, elements: Tensor | None) -> Found:
        """The integral of all elements, or of those with an index."""
        count = layout.filled.components
        columns = elements
        if elements is not None and count > 1:
            columns = (elements.unsqueeze(-1) * count + torch.arange(count, device=elements.device)).flatten()
        # The plain form is tried first as long as it holds more often than not.
        found = self._integral(layout.filled.table, columns, plain_first=self._lead >= 0)
        if found.slopes is not None and self._jumps:
            found = found._replace(slopes=self._with_jumps(found.slopes, layout.filled.table, columns))
        if self._lead >= 0:
            held = float((found.state == 0).sum()) * 2 > len(found.state)
            self._lead = min(self._lead + 1, _MEMORY) if held else self._lead - 1
        if count == 1:
            return found
        value, size, error, noise, state = (part.reshape(-1, count) for part in found[:5])
        return Found(value.sum(-1), size.sum(-1), error.sum(-1), noise.sum(-1), state.amax(-1), found.slopes)

    def _with_jumps(self, slopes: Tensor, table: Tensor, columns: Tensor | None) -> Tensor:
        """The derivatives with what moving ends contribute: the jump there times the derivative of the end's place."""
        moves = table[self._moves :] if columns is None else table[self._moves :].index_select(1, columns)
        slopes, jumps = slopes[: -self._jumps], slopes[-self._jumps :]
        # An end that is far away, or at infinity, moves nothing.
        moves = torch.where(jumps.repeat_interleave(len(slopes), 0) == 0, 0.0, moves)
        return slopes + (moves.reshape(self._jumps, *slopes.shape) * jumps.unsqueeze(1)).sum(0)


def _answers(pieces: Pieces, setting: Setting, y: Tensor) -> list[Tensor]:
    """1 where the integral need not be asked, and where both supports agree, else 0."""
    zero, one = torch.zeros_like(y), torch.ones_like(y)
    found = [
        torch.where(x, one, zero) if isinstance(x, Tensor) else zero + int(x)
        for x in (setting.extreme(pieces), same_ends(pieces))
    ]
    if pieces.log_share is not None:  # a component of no weight does not count
        found[0] = torch.where(pieces.log_share == -torch.inf, zero, found[0])
    return found


def is_lost(found: Found) -> Tensor:
    """Where no program holds."""
    lost = (found.state > 1) | found.value.isnan()
    if found.slopes is not None:
        lost = lost | found.slopes.isnan().any(0).reshape(len(lost), -1).any(-1)
    return lost


def _close_ratio(sides: Sequence[Side | MixedSide | OneOf]) -> Callable[[Point], Tensor]:
    p, q = sides[:2]
    if not (isinstance(p, Side) and isinstance(q, Side)):
        raise RefusedError("mixtures that are close")
    return close_ratio(p.law, q.law, _lift)


def _terms(sample: Sample, integrand: Integrand) -> tuple[Tensor, Tensor]:
    heights = sample.log_p.abs() + sample.log_q.level.abs()
    return integrand(sample), torch.exp(sample.log_weight) * heights


def _argument(sample: Sample) -> Tensor:
    """The log-ratio with the digits that the sample knows; no derivative is taken of it."""
    return sample.log_p - sample.log_q.total() if sample.log_ratio is None else ratio_of(sample)


def _firsts(watch: Watch, tensors: Sequence[Tensor]) -> list[int]:
    return [watch.columns(tensor)[0] for tensor in tensors]


def _lift(tensor: Tensor) -> Tensor:
    return tensor.reshape(LENGTH, 1)


class Constant(NamedTuple):
    """A number that is part of what is recorded."""

    value: float


_sights: dict[tuple[object, ...], int] = {}


def _worthwhile(key: tuple[object, ...], elements: int) -> bool:
    """Whether a structure with numbers of its own has been seen often enough; a recording costs dozens of integrals."""
    if len(_sights) >= _MOST_SIGHTS and key not in _sights:
        _sights.clear()
    _sights[key] = _sights.get(key, 0) + 1 + elements // _MANY
    return _sights[key] > _RARE


_known: dict[tuple[object, ...], Programs | None] = {}


def programs_for(
    p: Distribution,
    q: Distribution,
    integrand: Integrand,
    log_size: Integrand,
    *,
    follow_q: bool,
    closely: bool = False,
    followed: bool = False,
    setting: Setting = _INSIDE,
) -> Programs | None:
    """The programs for two objects; None if there are none."""
    sides = structure(p), structure(q)
    if sides[0] is None or sides[1] is None or native.library() is None:
        return None
    key = (*sides, integrand, closely, followed)
    if key not in _known:
        if not recordable(p, q):
            return None
        if "Constant(" in repr(key) and not _worthwhile(key, joint_shape(p.batch_shape, q.batch_shape).numel()):
            return None
        try:
            with torch.inference_mode(mode=False):
                _known[key] = Programs(
                    p,
                    q,
                    integrand,
                    log_size,
                    follow_q=follow_q,
                    closely=closely,
                    followed=followed,
                    setting=setting,
                )
        except (RefusedError, TooLargeError):
            _known[key] = None
    return _known[key]


def structure(distribution: Distribution) -> tuple[object, ...] | None:
    """What a description depends on besides parameters."""
    if in_family(distribution):
        return type(distribution), gives_logits(distribution)
    if type(distribution) is MixtureSameFamily:
        return _structure_of_mixture(distribution)
    if type(distribution) is not TransformedDistribution or as_mixture(distribution) is not None:
        return None
    base = structure(distribution.base_dist)
    if base is None:
        return None
    maps = [_structure_of_map(transform) for transform in distribution.transforms]
    return None if any(found is None for found in maps) else (TransformedDistribution, *maps, base)


def _structure_of_mixture(mixture: MixtureSameFamily) -> tuple[object, ...] | None:
    component = mixture.component_distribution
    inner = structure(component) if in_family(component) and not component.event_shape else None
    return None if inner is None else (MixtureSameFamily, component.batch_shape[-1], inner)


def _structure_of_map(transform: Transform) -> tuple[object, ...] | None:
    """Its class and its numbers; None for a map that a recording could not follow, or with tensors, not seen by it."""
    if isinstance(transform, _InverseTransform):
        inner = _structure_of_map(transform.inv)
        return None if inner is None else ("inverse", inner)
    numbers = {name: value for name, value in vars(transform).items() if not name.startswith("_")}
    if type(transform) not in FOLLOWED or not all(isinstance(value, int | float) for value in numbers.values()):
        return None
    return type(transform), *(Constant(value) for value in numbers.values())
