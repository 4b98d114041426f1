"""A divergence of the elements where it is finite, and of pairs of equal parameters; all divergences call it."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from kullback.densities.density import Density
from kullback.densities.registry import Reading
from kullback.kernels.levels import is_traced

ValueAndError = tuple[Tensor, Tensor]
Formula = Callable[..., ValueAndError]


def where_not(
    extreme: Tensor, most: float | Tensor, p: Reading, q: Reading, formula: Formula, *masks: Tensor
) -> ValueAndError:
    """The formula's value and error where `extreme` is false, and `most`, without gradient, where it is.

    The formula is called with p, q and the masks, of all elements or of some.
    """
    if is_traced():
        p, q = (side.mapped(lambda t: torch.where(extreme, t.detach(), t)) for side in (p, q))
        value, error = formula(p, q, *masks)
        return torch.where(extreme, most, value), torch.where(extreme, 0.0, error)
    if not bool(extreme.any()):
        return formula(p, q, *masks)
    return at_some(~extreme, constant(most, p, q), p, q, formula, *masks)


def at_some(
    where: Tensor, others: ValueAndError, p: Reading, q: Reading, formula: Formula, *masks: Tensor
) -> ValueAndError:
    """The formula's value and error at some elements, and those given at the others."""
    rows = torch.nonzero(where).squeeze(-1)
    if not len(rows):
        return others
    value, error = formula(p.mapped(lambda t: t[rows]), q.mapped(lambda t: t[rows]), *(mask[rows] for mask in masks))
    return others[0].index_put((rows,), value), others[1].index_put((rows,), error)


def constant(number: float | Tensor, p: Reading, q: Reading) -> ValueAndError:
    """A number for each element that belongs to the graph, with a gradient of 0."""
    value = torch.zeros_like(p.parameters[0])
    for parameter in (*p.parameters, *q.parameters):
        value = value + torch.where(torch.ones_like(parameter, dtype=torch.bool), 0.0, parameter)
    return value + number, torch.zeros_like(value.detach())


def snapped(p: Reading, q: Reading, value: Tensor) -> Tensor:
    """The value, not negative, and exactly 0 for equal parameters, with the derivatives it has there."""
    value = torch.where(value < 0, 0.0, value)
    return torch.where(equal_parameters(p, q), value - value.detach(), value) if _same_family(p, q) else value


def equal_parameters(p: Reading, q: Reading) -> Tensor:
    """Which elements have the same density on both sides by equal parameters."""
    equal = torch.full_like(p.parameters[0], _same_family(p, q), dtype=torch.bool)
    for own, other in zip(p.parameters, q.parameters, strict=False):
        equal = equal & (own.detach() == other.detach())
    return equal


def _same_family(p: Reading, q: Reading) -> bool:
    """Whether equal parameters make the same density: of a family, or of mixtures of such."""
    makers = [[make for make, _ in side.components] or [side.make] for side in (p, q)]
    return makers[0] == makers[1] and bool(p.components) == bool(q.components) and not p.searched


def ends(density: Density, like: Tensor) -> tuple[Tensor, Tensor]:
    """Both ends of a support, one for each element."""
    low, high = (torch.as_tensor(end, dtype=like.dtype, device=like.device) for end in (density.low, density.high))
    return low.expand_as(like), high.expand_as(like)


def disjoint(p: Reading, q: Reading) -> Tensor:
    """Which elements have supports without a common point, by their ends."""
    with torch.no_grad():
        like = p.parameters[0].detach().unsqueeze(-1)
        (low_p, high_p), (low_q, high_q) = (ends(side.mapped(torch.Tensor.detach).density(), like) for side in (p, q))
        apart = torch.lt if p.lattice else torch.le  # two intervals that share an end share no mass
        found = apart(high_p, low_q) | apart(high_q, low_p)
    return found.squeeze(-1)
