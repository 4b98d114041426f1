"""Which components of two mixtures belong together, whatever order they are written in."""

from __future__ import annotations

import functools

import torch
from torch import Tensor
from torch.distributions import MixtureSameFamily

from kullback._core.shapes import joint_shape
from kullback.pairs.densities.shares import log_shares
from kullback.pairs.parameters import read
from kullback.pairs.visible import surely

_TINY = 1e-300


def order_of(p: MixtureSameFamily, q: MixtureSameFamily) -> Tensor | None:
    """For each component of p the place of the one of q that is most like it, no two the same; None if as they stand.

    Likeness is that of all parameters, in parts of themselves and of the largest: a location next to 0 is like another.
    """
    with torch.no_grad():
        unlike = functools.reduce(torch.add, map(_unlike, *(_parameters(mixture) for mixture in (p, q))))
        count = unlike.shape[-1]
        unlike = unlike.expand(*joint_shape(p.batch_shape, q.batch_shape), count, count)
        places = torch.arange(count, device=unlike.device)
        order = []
        for row in unlike.unbind(-2):
            place = row.argmin(-1, keepdim=True)
            order.append(place)
            unlike = torch.where((places == place).unsqueeze(-2), torch.inf, unlike)
        found = torch.cat(order, -1)
        return None if surely(found == places) else found


def _parameters(mixture: MixtureSameFamily) -> list[Tensor]:
    """One value for each component in the last dimension."""
    component = mixture.component_distribution
    names = [name for name in component.arg_constraints if name != "logits"]
    return [torch.exp(log_shares(mixture)), *(value.expand(component.batch_shape) for value in read(component, *names))]


def _unlike(own: Tensor, other: Tensor) -> Tensor:
    """The differences of each of one with each of the other."""
    sizes = own.abs().unsqueeze(-1) + other.abs().unsqueeze(-2)
    apart = (own.unsqueeze(-1) - other.unsqueeze(-2)).abs()
    return (apart / sizes.clamp_min(_TINY) + apart / sizes.amax((-1, -2), keepdim=True).clamp_min(_TINY)).nan_to_num(
        1.0
    )
