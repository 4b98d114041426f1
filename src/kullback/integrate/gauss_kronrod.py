"""∫ f by Gauss–Kronrod rules on panels: one smooth piece of an axis, cut into equal parts.

Each panel has 21 nodes, of which ten are Gauss's own, so that the error is estimated from values already at hand.

References:
    Piessens, de Doncker-Kapenga, Überhuber, Kahaner, "QUADPACK", Springer 1983, rule QK21.
"""

from __future__ import annotations

import torch
from torch import Tensor

# Non-negative nodes on [−1, 1], their Kronrod weights, and Gauss's weights at every second one.
_NODES = [
    0.0,
    0.14887433898163121,
    0.2943928627014602,
    0.4333953941292472,
    0.5627571346686047,
    0.6794095682990244,
    0.7808177265864169,
    0.8650633666889845,
    0.9301574913557082,
    0.9739065285171717,
    0.9956571630258081,
]
_KRONROD = [
    0.1494455540029169,
    0.1477391049013385,
    0.1427759385770601,
    0.13470921731147333,
    0.12349197626206585,
    0.1093871588022976,
    0.0931254545836976,
    0.07503967481091995,
    0.054755896574351996,
    0.032558162307964725,
    0.011694638867371874,
]
_GAUSS = [0.29552422471475287, 0.26926671930999635, 0.21908636251598204, 0.14945134915058059, 0.06667134430868814]


def _rule() -> tuple[list[float], list[float], list[float]]:
    """Nodes on [0, 1], Kronrod weights and Gauss weights."""
    gauss = [0.0 if k % 2 == 0 else _GAUSS[k // 2] for k in range(len(_NODES))]
    mirrored = [[*reversed(side[1:]), *side] for side in (_KRONROD, gauss)]
    nodes = [*(-x for x in reversed(_NODES[1:])), *_NODES]
    return [(1 + x) / 2 for x in nodes], [w / 2 for w in mirrored[0]], [w / 2 for w in mirrored[1]]


_RULE = _rule()


def panels(low: Tensor, high: Tensor, count: int) -> tuple[Tensor, Tensor, Tensor]:
    """Nodes on [low, high], along a new last dimension, with Kronrod's and Gauss's weights.

    Args:
        low: Where the piece begins; one per batch element.
        high: Where it ends.
        count: Number of panels.
    """
    nodes, kronrod, gauss = (torch.tensor(side, dtype=low.dtype, device=low.device) for side in _RULE)
    index = torch.arange(count, dtype=low.dtype, device=low.device).unsqueeze(-1)
    unit = ((index + nodes) / count).flatten()
    width = ((high - low) / count).unsqueeze(-1)
    return (
        low.unsqueeze(-1) + (high - low).unsqueeze(-1) * unit,
        width * kronrod.repeat(count),
        width * gauss.repeat(count),
    )
