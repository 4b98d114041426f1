"""What a distribution holds: its tensors, the dtype of an answer; formulas read parameters through it, too."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.distributions import Distribution, VonMises

from kullback.densities.parameters import gives_logits, number, read, working

__all__ = ["gives_logits", "kept_by", "made", "number", "read", "result_dtype", "tensors_of", "working"]


def made(kind: type[Distribution], state: dict[str, object], batch_shape: torch.Size) -> Distribution:
    """An object without going through its constructor, which would validate and derive anew."""
    law = object.__new__(kind)
    vars(law).update(state, _batch_shape=batch_shape)
    return law


def kept_by(distribution: Distribution) -> list[object]:
    """What a distribution stores, without copies that would change an answer.

    A sampled VonMises keeps its parameters in float64, too, and a number derived from them that overflows.
    """
    stored = vars(distribution)
    if not isinstance(distribution, VonMises):
        return list(stored.values())
    return [value for name, value in stored.items() if name in distribution.arg_constraints]


def tensors_of(distribution: Distribution) -> list[Tensor]:
    """Every floating tensor a distribution holds, wrapped distributions included."""
    found: list[Tensor] = []
    for value in kept_by(distribution):
        if isinstance(value, Tensor) and value.is_floating_point():
            found.append(value)
        elif isinstance(value, Distribution):
            found.extend(tensors_of(value))
        elif isinstance(value, list | tuple):
            parts = [getattr(part, "__dict__", {}).values() for part in value]
            found.extend(t for part in parts for t in part if isinstance(t, Tensor) and t.is_floating_point())
            inner = [law for part in parts for law in part if isinstance(law, Distribution)]
            found.extend(t for law in inner for t in tensors_of(law))
    return found


def result_dtype(p: Distribution, q: Distribution) -> torch.dtype:
    """The dtype of an answer: float64 if any parameter is, else float32."""
    for d in (p, q):
        for value in vars(d).values():  # most often the first one decides
            if isinstance(value, Tensor) and value.dtype is torch.float64 and not isinstance(d, VonMises):
                return torch.float64
    dtypes = {t.dtype for d in (p, q) for t in tensors_of(d)}
    return torch.float64 if torch.float64 in dtypes else torch.float32
