"""Gauss–Legendre on panels: nodes and weights once, then any number of integrands on them.

Sixteen nodes a panel integrate polynomials up to degree 31. Ten of the same nodes carry a second rule of degree 9; from
the difference of the two the error of the first is estimated the way QUADPACK does it (Piessens et al., 1983, §2.2).
"""

from __future__ import annotations

import functools
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

ORDER = 16
_SUBSET = [0, 2, 4, 5, 7, 8, 10, 11, 13, 15]


class Nodes(NamedTuple):
    """Where integrands are evaluated: panels of a batch of integrals, flattened into the last dimension.

    Attributes:
        at: The points.
        log_weight: Logarithm of the weights, -inf in panels of no width.
    """

    at: Tensor
    log_weight: Tensor


class Integral(NamedTuple):
    """A batch of integrals.

    Attributes:
        value: ∫f.
        size: ∫|f|, what roundings are relative to; no derivative.
        error: An estimate of |value − truth|; no derivative.
    """

    value: Tensor
    size: Tensor
    error: Tensor


@functools.cache
def _rule() -> tuple[list[float], list[float], list[float]]:
    """Nodes on [0, 1], weights, and weights of the coarser rule relative to these."""
    nodes, weights = np.polynomial.legendre.leggauss(ORDER)
    powers = np.polynomial.legendre.legvander(nodes[_SUBSET], len(_SUBSET) - 1).T
    moments = np.zeros(len(_SUBSET))
    moments[0] = 2.0
    coarse = np.zeros(ORDER)
    coarse[_SUBSET] = np.linalg.solve(powers, moments)
    return ((nodes + 1) / 2).tolist(), (weights / 2).tolist(), (coarse / weights).tolist()


def place_nodes(edges: Tensor) -> Nodes:
    """Nodes between consecutive edges (the last dimension, ascending); equal edges make a panel of no weight.

    Example:
        >>> nodes = place_nodes(torch.tensor([0.0, 1.0], dtype=torch.float64))
        >>> round(integrate(torch.exp(nodes.at) * nodes.log_weight.exp()).value.item(), 12)
        1.718281828459
    """
    t, weight, _ = (torch.tensor(part, dtype=edges.dtype, device=edges.device) for part in _rule())
    low, width = edges[..., :-1, None], edges.diff(dim=-1).unsqueeze(-1)
    some = width > 0
    log_width = torch.where(some, torch.log(torch.where(some, width, 1.0)), -torch.inf)
    at, log_weight = low + width * t, log_width + torch.log(weight)
    return Nodes(at.flatten(-2), log_weight.flatten(-2))


def integrate(weighted: Tensor) -> Integral:
    """The integrals of f from the products weight·f at the nodes.

    The product is formed by the caller because it may be representable where f is not.
    """
    ratio = torch.tensor(_rule()[2], dtype=weighted.dtype, device=weighted.device)
    still = weighted.detach().unflatten(-1, (-1, ORDER))
    size = still.abs().sum((-1, -2))
    gap = (still * (1 - ratio)).sum(-1).abs().sum(-1)
    tiny = torch.finfo(size.dtype).tiny
    relative = (200 * gap / size.clamp_min(tiny)).clamp_max(1.0)
    error = torch.minimum(gap, size * relative**1.5) + 4 * torch.finfo(size.dtype).eps * size
    return Integral(weighted.sum(-1), size, error)
