"""The summand of two families of counts as recorded programs; see `programs`, which does so for densities."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor
from torch import distributions as d
from torch.distributions import Distribution, MixtureSameFamily

from kullback.integrate.recorded import Placed
from kullback.integrate.recorded_series import RecordedSeries, Sums, Window
from kullback.kernels import native
from kullback.kernels.program import TooLargeError
from kullback.kernels.recorder import LENGTH, RefusedError
from kullback.pairs.densities.count_mixture import describe_counts, joined_counts
from kullback.pairs.densities.counts import CountLaw
from kullback.pairs.densities.parameter_table import Filled, ParameterTable
from kullback.pairs.densities.sides import MixedSide, Side, columns_of, side_of
from kullback.pairs.densities.watch import Points, Split, Watch, guarded
from kullback.pairs.parameters import gives_logits, recordable

# Value, whether the second law lacks a count that the first has, and what roundings are relative to.
Terms = tuple[Tensor, Tensor, Tensor]
Summand = Callable[[CountLaw, CountLaw, Tensor], Terms]


class CountPrograms:
    """All of two classes with given structure, whatever their parameters.

    Args:
        p: An example.
        q: Another.
        summand: What is summed, given both laws and counts.
        window: Which counts matter.
        both: Whether those that matter to q do, too.
        followed: Whether derivatives by the parameters are summed, too.
    """

    def __init__(
        self, p: Distribution, q: Distribution, summand: Summand, window: Window, *, both: bool, followed: bool
    ) -> None:
        sides = side_of(p), side_of(q)
        leaves = [leaf for side in sides for leaf in side.leaves]
        inputs = columns_of(sides)
        k = torch.arange(LENGTH, dtype=torch.float64, device="cpu").unsqueeze(-1)
        unused = torch.zeros_like(k)
        with torch.set_grad_enabled(followed), Watch() as watch:
            for tensor in (*leaves, k, unused):
                watch.input(tensor)
            # Means are moderate wherever sums are short enough for programs.
            watch.optimistic = True
            laws = [_described(side) for side in sides]
            watch.optimistic = False
            always = list(watch.guards)
            value, lacking, noise = summand(laws[0], laws[1], k)
            slopes = watch.slopes(value, leaves) if followed else None
            lacks = torch.where(lacking, torch.ones_like(value), torch.zeros_like(value))
            graph, at = watch.graph, Points(watch.graph, len(inputs))
            marks = [law.marks for law in laws]
            facts = [watch.columns(law.upper)[0] for law in laws]
            facts += [watch.columns(pair[i])[0] for pairs in marks for i in (0, 1) for pair in pairs]
            facts = guarded(graph, facts, always)
            outputs = [
                [watch.columns(laws[0].log_pmf(k))[0]],
                [watch.columns(_size_of_q(summand, laws, k))[0]] if both else None,
                [watch.columns(part)[0] for part in (value, noise, lacks)],
                slopes,
            ]
            parts = [None if nodes is None else Split(graph, nodes, at) for nodes in outputs]
        needs = list(dict.fromkeys(node for part in parts if part is not None for node in part.needs))
        place = {n: len(facts) + i for i, n in enumerate(needs)}
        placed = [
            None if part is None else Placed(part.program, [place[node] for node in part.needs]) for part in parts
        ]
        log_p, log_q, terms, derivatives = placed
        assert log_p is not None
        assert terms is not None
        counts = len(marks[0]), len(marks[1])
        self._series = RecordedSeries(log_p, log_q, terms, derivatives, marks=counts, window=window)
        self._table = ParameterTable(graph, [*facts, *needs], inputs, mixed=False, followed=followed)

    def fill(self, p: Distribution, q: Distribution, batch: torch.Size) -> Filled | None:
        """What the parameters say: the largest counts of p and of q first; None if they are not ordinary tensors."""
        return self._table.fill(p, q, batch)

    def sums(self, filled: Filled, elements: Tensor | None) -> Sums:
        """The sums of all elements, or of those with an index."""
        return self._series(filled.table, elements)


def _size_of_q(summand: Summand, laws: Sequence[CountLaw], k: Tensor) -> Tensor:
    """The logarithm of q, or of what a summand says is the larger beside it."""
    log_size = getattr(summand, "log_size", None)
    found: Tensor = laws[1].log_pmf(k) if log_size is None else log_size(laws[0], laws[1], k)
    return found


def _described(side: Side | MixedSide) -> CountLaw:
    if isinstance(side, Side):
        return describe_counts(side.law, _lift)
    return joined_counts([describe_counts(part.law, _lift) for part in side.parts], [_lift(s) for s in side.shares])


def _lift(tensor: Tensor) -> Tensor:
    return tensor.reshape(LENGTH, 1)


# A table of probabilities is no formula.
_FAMILIES = {d.Bernoulli, d.Binomial, d.Geometric, d.NegativeBinomial, d.Poisson}


def _structure(distribution: Distribution) -> tuple[object, ...] | None:
    """What a description depends on besides parameters."""
    if type(distribution) is MixtureSameFamily:
        component = distribution.component_distribution
        inner = None if type(component) is MixtureSameFamily else _structure(component)
        return None if inner is None else (MixtureSameFamily, component.batch_shape[-1], *inner)
    return (type(distribution), gives_logits(distribution)) if type(distribution) in _FAMILIES else None


_known: dict[tuple[object, ...], CountPrograms | None] = {}


def count_programs_for(
    p: Distribution, q: Distribution, summand: Summand, window: Window, *, both: bool, followed: bool
) -> CountPrograms | None:
    """The programs for two objects; None if there are none."""
    sides = _structure(p), _structure(q)
    if sides[0] is None or sides[1] is None or native.library() is None:
        return None
    key = (*sides, summand, followed)
    if key not in _known:
        if not recordable(p, q):
            return None
        try:
            with torch.inference_mode(mode=False):
                _known[key] = CountPrograms(p, q, summand, window, both=both, followed=followed)
        except (RefusedError, TooLargeError):
            _known[key] = None
    return _known[key]
