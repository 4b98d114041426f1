"""What a distribution holds: its tensors, the dtype of an answer; formulas read parameters through it, too."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.distributions import Distribution, Kumaraswamy, Transform, VonMises, Weibull

from kullback.densities.parameters import gives_logits, number, read, working

__all__ = [
    "construct_unvalidated",
    "gives_logits",
    "number",
    "read",
    "result_dtype",
    "stored_values",
    "tensors_of",
    "working",
]


# Tuples, because `A | B` is made anew at each call, which small inputs feel.
_WITH_DERIVED_TENSORS = (VonMises, Weibull, Kumaraswamy)
_HOLDERS, _SEQUENCES = (Distribution, Transform), (list, tuple)


def construct_unvalidated(kind: type[Distribution], state: dict[str, object], batch_shape: torch.Size) -> Distribution:
    """An object without going through its constructor, which would validate and derive anew."""
    made = object.__new__(kind)
    vars(made).update(state, _batch_shape=batch_shape)
    return made


def stored_values(holder: Distribution | Transform) -> list[Any]:
    """What a distribution stores, without copies that would change an answer.

    A sampled VonMises keeps its parameters in float64, too, and a number derived from them that overflows. Weibull and
    Kumaraswamy keep reciprocals, whose derivatives overflow.
    """
    stored = vars(holder)
    if isinstance(holder, _WITH_DERIVED_TENSORS):
        return [value for name, value in stored.items() if name in holder.arg_constraints]
    return list(stored.values())


def tensors_of(holder: Distribution | Transform) -> list[Tensor]:
    """Every floating tensor a distribution holds; those of inner distributions and of transforms, too."""
    found: list[Tensor] = []
    for value in stored_values(holder):
        if isinstance(value, Tensor):
            if value.is_floating_point():
                found.append(value)
        elif type(value) is torch.Size:
            continue
        elif isinstance(value, Distribution):  # a transform's own transform may be its inverse, which holds it
            found += tensors_of(value)
        elif isinstance(value, _SEQUENCES):
            for part in value:
                if isinstance(part, _HOLDERS):
                    found += tensors_of(part)
    return found


def result_dtype(p: Distribution, q: Distribution) -> torch.dtype:
    """The dtype of an answer: float64 if any parameter is, else float32."""
    for side in (p, q):
        for tensor in tensors_of(side):
            if tensor.dtype is torch.float64:
                return torch.float64
    return torch.float32
