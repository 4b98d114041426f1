"""Integrals over a law p of anything made of two densities: nodes, weights, log p and log q at the nodes.

A mixture is integrated piece by piece, each component in its own coordinate with its own weight. Panels are found
without derivatives: graded towards all marks first, then split where the rule says its error is. Where values can be
seen, only the elements of a batch that need it are gone through again.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterable
from typing import NamedTuple

import torch
from torch import Tensor
from torch.distributions import Distribution

from kullback._core.shapes import joint_shape
from kullback.integrate import Integral, Nodes, Span, graded_panels, integrate, place_nodes, split_panels, tightened
from kullback.integrate.constants import Constants
from kullback.pairs.densities.describe import describe
from kullback.pairs.densities.log_ratio import close_ratio
from kullback.pairs.densities.nesting import as_mixture, flat
from kullback.pairs.densities.placing import NOWHERE, Pieces, Problem, Sample, evaluate, with_kinks
from kullback.pairs.densities.reading import Chosen, Lift, component_lift
from kullback.pairs.parameters import tensors_of
from kullback.pairs.visible import hidden, surely

__all__ = ["NOWHERE", "Expectation", "Pieces", "Sample", "evaluate", "first_nodes", "integral_over", "pieces_of"]

# The length of a panel in the stretched coordinate, and how many there may be at first. Short ones are for derivatives,
# whose integrands have stronger singularities, and for a few elements, where going twice costs more than nodes do;
# there may be more of them for derivatives, which nothing splits later.
_LENGTH, _SHORT, _FEWEST, _PANELS, _FOLLOWED = 0.8, 0.5, 4, 48, 160
_FEW = 16
# The logarithm of the largest number; that of a drop beyond it is known as such only.
_MOST = 709.0
# Where values cannot be seen, so many splittings into so many panels for all seasons.
_FIXED_PANELS, _FIXED_TOTAL, _FIXED_ROUNDS = 48, 112, 3
_ROUNDS, _PANEL_ROUNDS, _SPLIT = 6, 12, 4
_ENOUGH, _MOST = 1e-11, 600
_LEAST = 1e-280
_PARTS = Constants([k / _SPLIT for k in range(_SPLIT + 1)])
# Numbers in a chunk: 256 kB of float64 for each thread, and as many as torch gives a thread.
_CHUNK = 32768


class Expectation(NamedTuple):
    """An integral over p, one per batch element.

    Attributes:
        value: The integral.
        size: That of its absolute value.
        error: An estimate of the error of the rule, and of the rounding of the sum.
        noise: E_p(|log p| + |log q|): what roundings of the log-densities are relative to.
    """

    value: Tensor
    size: Tensor
    error: Tensor
    noise: Tensor


def pieces_of(
    p: Distribution,
    q: Distribution,
    index: Tensor | None = None,
    component: Tensor | None = None,
    *,
    closely: bool = False,
) -> Pieces:
    """Describe both laws in shapes that fit together, all elements or those with an index; see `Pieces.part`.

    With `closely`, samples know log-ratios that are made of differences of parameters.
    """
    frozen = not any(tensor.requires_grad for side in (p, q) for tensor in tensors_of(side))
    batch = joint_shape(p.batch_shape, q.batch_shape)

    def lift(dims: int, component: Tensor | None = None) -> Lift:
        if index is not None:
            return Chosen(batch, index, dims, component)
        return lambda tensor: tensor.reshape(*tensor.shape, *(1,) * dims)

    def part(some: Tensor, component: Tensor | None = None, /) -> Pieces:
        return pieces_of(p, q, some if index is None else index[some], component, closely=closely)

    mixture = as_mixture(p)
    if mixture is not None:
        deep, each = lift(2), component_lift(lift(1, component))
        shares, inner, merge = flat(mixture)
        over = describe(inner, lambda tensor: each(merge(tensor)))
        log_ratio = close_ratio(p, q, deep) if closely else None
        return Pieces(describe(p, deep), describe(q, deep), over, each(shares), frozen, part, log_ratio)
    law, log_ratio = describe(p, lift(1)), close_ratio(p, q, lift(1)) if closely else None
    return Pieces(law, describe(q, lift(1)), law, None, frozen, part, log_ratio)


def integral_over(
    pieces: Problem,
    f: Callable[[Sample], Tensor],
    *,
    follow_q: bool = False,
    log_size: Callable[[Sample], Tensor] | None = None,
    breaks: Tensor | None = None,
    roughly: bool = False,
    apart: bool = False,
) -> Expectation:
    """∫ f over p, where f is given both densities and returns the integrand times the weight of a node.

    Args:
        pieces: The two laws.
        f: The integrand.
        follow_q: Whether f is of the size of q, too, not only of p·(1 + |log p/q|).
        log_size: The logarithm of |f| itself, where that says better how far f reaches.
        breaks: Nodes' coordinates at which f has kinks of its own, in the last dimension.
        roughly: Whether the first panels will do.
        apart: Whether f looks at nothing but the sample, so that some elements can be gone through by themselves.
    """
    log_size = log_size or functools.partial(log_size_of, follow_q=follow_q)
    if hidden():
        edges = _unseen_panels(pieces, f, follow_q, log_size, breaks)
        return _expectation(pieces, *_integrated(pieces, f, with_kinks(pieces, edges, breaks)))
    differentiated = torch.is_grad_enabled() and not pieces.frozen
    with torch.no_grad():
        wide, sizes = pieces.spanned(log_size, follow_q=follow_q)
        narrow = tightened(wide, sizes)
        length = _SHORT if differentiated or sizes.numel() <= _FEW * sizes.shape[-1] else _LENGTH
        most = _FOLLOWED if differentiated else _PANELS
        count = min(max(math.ceil(narrow.length() / length), _FEWEST), most)
        edges = graded_panels(narrow, count)
    edges = with_kinks(pieces, edges, breaks)
    found, noise = _integrated(pieces, f, edges)
    if roughly:
        return _expectation(pieces, found, noise)
    allowed = _allowed(pieces, found)
    cut = found.ends > _ENOUGH * found.size.unsqueeze(-1)
    bad = found.panel_error > allowed.unsqueeze(-1)
    bad[..., :1] |= cut[..., :1]
    bad[..., -1:] |= cut[..., 1:]
    if not bool(bad.any()):
        return _expectation(pieces, found, noise)
    edges = _widened(edges, cut, wide)
    if not apart or pieces.part is None:
        return _refined(pieces, f, edges.detach(), bad, breaks)
    found = _refined_by_panel(pieces, f, edges, found, bad=bad, allowed=allowed)
    return _expectation(pieces, found, noise)


def _widened(edges: Tensor, cut: Tensor, wide: Span) -> Tensor:
    """Panels whose outermost edges are those of the whole range where they left something out."""
    low, high = wide.ends()
    first = torch.where(cut[..., :1], low, edges[..., :1])
    return torch.cat([first, edges[..., 1:-1], torch.where(cut[..., 1:], high, edges[..., -1:])], -1)


def _expectation(pieces: Problem, found: Integral, noise: Tensor) -> Expectation:
    parts = (found.value, found.size, found.error + found.ends.sum(-1), noise + found.size)
    return Expectation(*(part if pieces.log_share is None else part.sum(-1) for part in parts))


def _allowed(pieces: Problem, found: Integral) -> Tensor:
    """The error that a panel may have."""
    size, whole = found.size, found.value.detach()
    if pieces.log_share is not None:
        size, whole = size.sum(-1, keepdim=True), whole.sum(-1, keepdim=True)
    return (_ENOUGH * torch.maximum(whole.abs(), 1e-2 * size)).expand_as(found.size)


def _refined_by_panel(
    pieces: Problem, f: Callable[[Sample], Tensor], edges: Tensor, found: Integral, *, bad: Tensor, allowed: Tensor
) -> Integral:
    """The integral with the panels that do not hold split by themselves, each as if it were an element of a batch."""
    assert pieces.part is not None
    panels, batch = bad.shape[-1], bad.shape[:-1]
    components = 1 if pieces.log_share is None else batch[-1]
    row, column = bad.reshape(-1, panels).nonzero().unbind(-1)
    edges = edges.expand(*batch, panels + 1).reshape(-1, panels + 1)
    low, high = edges[row, column], edges[row, column + 1]
    before = found.panel_error.reshape(-1, panels)[row, column]
    value, error, allowed = (
        part.reshape(-1)
        for part in (
            torch.where(bad, 0.0, found.panels).sum(-1),
            torch.where(bad, 0.0, found.panel_error).sum(-1),
            allowed,
        )
    )
    share = _PARTS.like(edges)
    alone = len(value) == 1 and pieces.log_share is None
    most = 64 + 16 * len(row)
    for turn in range(_PANEL_ROUNDS):
        element, component = row // components, row % components
        inner: Problem = pieces if alone else pieces.part(element, None if pieces.log_share is None else component)
        split = low.unsqueeze(-1) + (high - low).unsqueeze(-1) * share
        new, _ = _integrated(inner, f, split if pieces.log_share is None else split.unsqueeze(-2))
        values, errors = (part.reshape(len(row), _SPLIT) for part in (new.panels, new.panel_error))
        again = errors > allowed[row].unsqueeze(-1)
        # Splitting that does not help meets rounding, not the rule; a corner stays in one part, or two, however short.
        again = again & ((errors.sum(-1) < before / 2) | (again.sum(-1) <= 2)).unsqueeze(-1)
        if turn == _PANEL_ROUNDS - 1 or len(row) > most:
            again = torch.zeros_like(again)
        value = value.index_add(0, row, torch.where(again, 0.0, values).sum(-1))
        error = error.index_add(0, row, torch.where(again, 0.0, errors).sum(-1))
        if not bool(again.any()):
            break
        line, column = again.nonzero().unbind(-1)
        low, high, before = split[line, column], split[line, column + 1], errors[line, column]
        row = row[line]
    rounding = found.error - found.panel_error.sum(-1)
    ends = torch.zeros_like(found.ends)
    return found._replace(
        panels=value.reshape(*batch, 1),
        error=error.reshape(batch) + rounding,
        panel_error=error.reshape(*batch, 1),
        ends=ends,
    )


def _refined(
    pieces: Problem, f: Callable[[Sample], Tensor], edges: Tensor, bad: Tensor, breaks: Tensor | None
) -> Expectation:
    """The integral on panels that are split until they hold it, or until that does not help any more."""
    with torch.no_grad():
        before = math.inf
        for _ in range(_ROUNDS):
            parts = torch.where(bad, _SPLIT, 1)
            edges = with_kinks(pieces, split_panels(edges, parts, int(parts.sum(-1).max())), breaks)
            found, noise = _integrated(pieces, f, edges)
            whole = found.value.abs() if pieces.log_share is None else found.value.sum(-1, keepdim=True).abs()
            bad = found.panel_error > _allowed(pieces, found).unsqueeze(-1)
            # Splitting that does not help meets rounding, not the rule.
            worst = float((found.error / whole.clamp_min(_LEAST)).nan_to_num().amax())
            if surely(~bad) or worst > before / 3 or edges.shape[-1] > _MOST:
                break
            before = worst
    if torch.is_grad_enabled() and not pieces.frozen:
        found, noise = _integrated(pieces, f, with_kinks(pieces, edges, breaks))
    return _expectation(pieces, found, noise)


def _unseen_panels(
    pieces: Problem,
    f: Callable[[Sample], Tensor],
    follow_q: bool,
    log_size: Callable[[Sample], Tensor],
    breaks: Tensor | None,
) -> Tensor:
    """Edges of a fixed number of panels."""
    with torch.no_grad():
        wide, _ = pieces.spanned(log_size, follow_q=follow_q)
        edges = graded_panels(wide, _FIXED_PANELS)
        for _ in range(_FIXED_ROUNDS):
            edges = with_kinks(pieces, edges, breaks)
            found, _ = _integrated(pieces, f, edges)
            bad = found.panel_error > _allowed(pieces, found).unsqueeze(-1)
            edges = split_panels(edges, torch.where(bad, _SPLIT, 1), _FIXED_TOTAL)
        return edges


def _integrated(pieces: Problem, f: Callable[[Sample], Tensor], edges: Tensor) -> tuple[Integral, Tensor]:
    """The integral on these panels and E_p(|log p| + |level of log q|)."""
    terms, noises = [], []
    nodes = place_nodes(edges)
    for at, log_weight in _chunks(nodes) if pieces.in_chunks else [nodes]:
        term, noise = pieces.terms(f, at, log_weight)
        terms.append(term)
        noises.append(noise.sum(-1))
    return integrate(terms[0] if len(terms) == 1 else torch.cat(terms, -1)), sum(noises[1:], noises[0])


def _chunks(nodes: Nodes) -> Iterable[Nodes]:
    """Nodes a few panels at a time, so that what is computed of them stays in the cache."""
    at, log_weight = nodes
    count = at.shape[-1]
    most = _CHUNK * torch.get_num_threads() if not hidden() else at.numel()
    size = max(most * count // max(at.numel(), 1), 16) if at.numel() > most else count
    if size >= count:
        return [nodes]
    return map(Nodes, torch.split(at, size, dim=-1), torch.split(log_weight, size, dim=-1))


def first_nodes(pieces: Pieces, log_size: Callable[[Sample], Tensor]) -> Tensor:
    """Coordinates of nodes, ascending in the last dimension, that see all that an integrand of this size has."""
    with torch.no_grad():
        wide, _ = pieces.spanned(log_size, follow_q=True)
        return place_nodes(with_kinks(pieces, graded_panels(wide, _FIXED_PANELS), None)).at


def log_size_of(sample: Sample, *, follow_q: bool) -> Tensor:
    """How large an integrand may be, as a logarithm."""
    level, drop, log_drop = sample.log_q
    if drop is not None and log_drop is None:
        level = level - drop
    log_size = torch.log1p((sample.log_p - level).abs())
    if drop is not None and log_drop is not None:
        # Of a drop with two parts the logarithm may know the one that has no number only.
        known = torch.log1p(drop).clamp_max(_MOST)
        log_size = torch.maximum(log_size, torch.where(log_drop > 1, torch.maximum(known, log_drop), known))
    log_size = sample.log_weight + log_size
    if follow_q:
        log_size = torch.maximum(log_size, sample.log_weight - sample.log_p + sample.log_q.total())
    return torch.where(sample.log_weight > NOWHERE, log_size, -math.inf)
