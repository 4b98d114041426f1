"""Gauss–Legendre on panels: nodes and weights once, then any number of integrands on them.

Sixteen nodes a panel integrate polynomials up to degree 31, and they give the integrand's Legendre coefficients up to
degree 15. From degree 8–11 to degree 12–15 the coefficients of a smooth integrand fall by some factor; more than four
times that far on is degree 32, where the error begins. What falls slowest may have just come to light, so twice the
factor is taken, and not less than what the fall from degree 12–13 to degree 14–15 says. At an unresolved corner they
hardly fall, and no accident makes four of them small at once. A factor of 8 keeps the estimate above the error there.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from kullback._core.gauss_legendre import gauss_legendre
from kullback.integrate.constants import Constants

ORDER = 16
_MIDDLE, _LAST = range(8, 12), range(12, 16)


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
        panels: ∫f over each panel.
        size: ∫|f|, what roundings are relative to; no derivative.
        error: An estimate of |value − truth|; no derivative.
        panel_error: What each panel contributes to it, roundings apart.
        ends: |f| at the outermost nodes times the length of their panels: what lies beyond, where f falls like that.
    """

    panels: Tensor
    size: Tensor
    error: Tensor
    panel_error: Tensor
    ends: Tensor

    @property
    def value(self) -> Tensor:
        """∫f."""
        return self.panels.sum(-1)


def _polynomials() -> list[list[float]]:
    """Normalised Legendre polynomials at the nodes, middle ones and last ones."""
    polynomials = np.polynomial.legendre.legvander(2 * np.array(_RULE.nodes) - 1, ORDER - 1)
    chosen: list[list[float]] = (polynomials * np.sqrt(2 * np.arange(ORDER) + 1))[:, [*_MIDDLE, *_LAST]].tolist()
    return chosen


_RULE = gauss_legendre(ORDER)
NODES, LOG_WEIGHTS = Constants(_RULE.nodes), Constants([math.log(weight) for weight in _RULE.weights])
POLYNOMIALS, _OUTERMOST = Constants(_polynomials()), _RULE.weights[0]


def place_nodes(edges: Tensor) -> Nodes:
    """Nodes between consecutive edges (the last dimension, ascending); equal edges make a panel of no weight.

    Example:
        >>> nodes = place_nodes(torch.tensor([0.0, 1.0], dtype=torch.float64))
        >>> round(integrate(torch.exp(nodes.at) * nodes.log_weight.exp()).value.item(), 12)
        1.718281828459
    """
    low, width = edges[..., :-1, None], edges.diff(dim=-1).unsqueeze(-1)
    # A panel of no width has no weight, and no derivative.
    some = width > 0
    log_width = torch.where(some, torch.log(torch.where(some, width, 1.0)), -torch.inf)
    at, log_weight = low + width * NODES.like(edges), log_width + LOG_WEIGHTS.like(edges)
    return Nodes(at.flatten(-2), log_weight.flatten(-2))


def integrate(weighted: Tensor) -> Integral:
    """The integrals of f from the products weight·f at the nodes.

    The product is formed by the caller because it may be representable where f is not.
    """
    weighted = weighted.reshape(*weighted.shape[:-1], weighted.shape[-1] // ORDER, ORDER)
    still = weighted.detach()
    size = still.abs().sum((-1, -2))
    parts = torch.split((still @ POLYNOMIALS.like(still)).abs(), [4, 2, 2], dim=-1)
    middle, before, last = (part.amax(-1) for part in parts)
    tiny, top = torch.finfo(size.dtype).tiny, torch.maximum(before, last)
    pace = torch.maximum(2 * top / middle.clamp_min(tiny), (last / before.clamp_min(tiny)) ** 2)
    panel_error = 8 * top * pace.clamp_max(1.0) ** 4
    ends = torch.stack([still[..., 0, 0], still[..., -1, -1]], -1).abs() / _OUTERMOST
    error = panel_error.sum(-1) + 512 * torch.finfo(size.dtype).eps * size
    return Integral(weighted.sum(-1), size, error, panel_error, ends)
