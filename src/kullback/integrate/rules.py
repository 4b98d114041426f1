"""Gauss rules on a panel, for integrals and for sums over integers; `panels` and `expectation` call them.

The Gauss rule of n equal masses in the middles of n equal cells of [0, 1] sums n integers exactly up to degree 31;
its limit n = ∞ is Gauss–Legendre's. Jacobi's matrix of both has the entries k·√((1 − (k/n)²)/(4k² − 1))/2, analytic
in (16/n)², so that the rule for any n comes from a Chebyshev series in that number.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor

NUM_NODES = 16
_TERMS = 52


class Rule(NamedTuple):
    """A rule on [0, 1].

    Attributes:
        nodes: Where to look.
        weights: They sum to 1.
        odd: A rule that gives 0 for every polynomial of degree below 14, to see what is not one.
        even: Another for degrees below 15.
    """

    nodes: Tensor
    weights: Tensor
    odd: Tensor
    even: Tensor


def _gauss(inverse_n: Tensor) -> Tensor:
    """The four rows of the rules for 1/n: (..., 4, NUM_NODES)."""
    k = torch.arange(1, NUM_NODES, dtype=torch.float64, device="cpu")
    off = k * torch.sqrt((1 - (k * inverse_n[..., None]) ** 2) / (4 * k * k - 1))
    x, vectors = torch.linalg.eigh(torch.diag_embed(off, 1) + torch.diag_embed(off, -1))
    first = vectors[..., 0, :]
    rows = [(1 + x) / 2, first**2, first * vectors[..., -2, :], first * vectors[..., -1, :]]
    return torch.stack(rows, -2)


def _series() -> Tensor:
    """Chebyshev coefficients of the rules in (16/n)² on [0, 1]: (_TERMS, 4·NUM_NODES)."""
    angles = (torch.arange(_TERMS, dtype=torch.float64, device="cpu") + 0.5) * math.pi / _TERMS
    share = (1 + torch.cos(angles)) / 2
    values = _gauss(torch.sqrt(share) / NUM_NODES).flatten(1)
    table = torch.cos(torch.arange(_TERMS, dtype=torch.float64, device="cpu")[:, None] * angles)
    table[0] /= 2
    return 2 / _TERMS * table @ values


def _edge_weights() -> Tensor:
    x = 2 * _LEGENDRE[0] - 1
    edges = torch.tensor([-1.0, 1.0], dtype=torch.float64, device="cpu")
    found: Tensor = torch.linalg.solve(torch.vander(x).T, torch.vander(edges, NUM_NODES).T)
    return found.T.contiguous()


# Constants from the start: a compiler would otherwise trace the eigenvalue problem into every graph.
with torch.no_grad():
    _LEGENDRE = _gauss(torch.zeros((), dtype=torch.float64, device="cpu"))
    _SERIES = _series()
    # What the polynomial through Legendre's nodes says at both edges of a panel: (2, NUM_NODES).
    EDGE_WEIGHTS = _edge_weights()


def legendre(like: Tensor) -> Rule:
    """Gauss–Legendre's rule, the rows of shape (NUM_NODES,)."""
    return Rule(*_LEGENDRE.to(like).unbind(0))


def lattice_rule(counts: Tensor) -> Rule:
    """The rules for panels of these many integers each, rows of shape (panels, NUM_NODES).

    Up to 16 integers are taken one by one, and what is left of the nodes has no weight.
    """
    few = counts <= NUM_NODES
    share = (NUM_NODES / torch.where(few, NUM_NODES, counts)) ** 2
    angle = torch.arccos((2 * share - 1).clamp(-1.0, 1.0))
    order = torch.arange(_TERMS, dtype=counts.dtype, device=counts.device)
    many = torch.cos(angle[..., None] * order) @ _SERIES.to(counts)
    many = many.reshape(*counts.shape, 4, NUM_NODES)
    number = torch.arange(NUM_NODES, dtype=counts.dtype, device=counts.device)
    size = counts.clamp_min(1.0)[..., None]
    used = number < counts[..., None]
    nodes = torch.where(used, number + 0.5, 0.5) / size
    zero = torch.zeros_like(nodes)
    one_by_one = torch.stack([nodes, torch.where(used, 1 / size, 0.0), zero, zero], -2)
    return Rule(*torch.where(few[..., None, None], one_by_one, many).unbind(-2))
