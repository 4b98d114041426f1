"""Elements with a parameter that is no number, whose divergence is not one either.

A formula made of cases answers such an element by whichever case a failed comparison leads to, with a plausible number
or an infinity; a training run that has gone wrong would go on unnoticed.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.distributions import Distribution

from kullback.pairs.parameters import kept_by
from kullback.pairs.visible import hidden


def marked(value: Tensor, *laws: Distribution) -> Tensor:
    """The value, NaN where a parameter of a law is."""
    for law in laws:
        # Laws of vectors are left alone: their formulas are sums over dimensions, in which a NaN stays one.
        lost = None if law.event_shape else _undefined(law)
        value = value if lost is None else torch.where(lost, torch.nan, value)
    return value


def _undefined(law: Distribution) -> Tensor | None:
    """Which elements have a parameter that is NaN; None where none has. A Beta keeps its own in a Dirichlet."""
    found: Tensor | None = None
    for value in kept_by(law):
        lost = None
        if isinstance(value, Tensor) and value.is_floating_point():
            lost = value.isnan()
        elif isinstance(value, Distribution):
            lost = _undefined(value)
        if lost is None or not (hidden() or bool(lost.any())):
            continue
        extra = lost.dim() - len(law.batch_shape)
        lost = lost.flatten(-extra).any(-1) if extra > 0 else lost
        found = lost if found is None else found | lost
    return found
