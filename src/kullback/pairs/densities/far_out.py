"""Tails of laws that are not known by parameters, looked at from far out."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from kullback.pairs.densities.expectation import log_size_of
from kullback.pairs.densities.placing import Pieces, evaluate

# Where tails are looked at, and the log-density at which a slope has swallowed it.
_OUT, _SWALLOWED = (15.0, 30.0, 60.0, 120.0), 1e12


def does_not_fall(pieces: Pieces) -> Tensor:
    """Whether p·(1 + |log p/q|) stays up far out in p's coordinate, whose tails are exponential or lighter.

    For laws whose tails are not known by parameters: from one place to another twice as far an integrable tail falls by
    more than e. Places where the slope of a map has swallowed the density say nothing.
    """
    with torch.no_grad():
        like = pieces.over.chart.locate((*pieces.over.bulk, *pieces.over.marks)[0])[0] * 0
        found = torch.zeros_like(like, dtype=torch.bool)
        for sign in (-1.0, 1.0):
            places = sign * torch.tensor(_OUT, dtype=like.dtype, device=like.device) + like
            sample = evaluate(pieces, places, torch.zeros_like(places))
            size = log_size_of(sample, follow_q=False)
            known = (sample.log_p.abs() < _SWALLOWED) & (size > -math.inf)
            stays = torch.zeros_like(size[..., :1], dtype=torch.bool)
            for near in range(len(_OUT) - 1):
                far = near + 1
                kept = size[..., far : far + 1] > size[..., near:far] - 1
                stays = torch.where(known[..., far : far + 1], kept, stays)
            found = found | stays
        return found
