"""What a distribution holds: its tensors, and the dtype of an answer; all of `pairs` calls it.

`densities.parameters` reads parameters by their names.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.distributions import Distribution, Transform

from kullback.densities.parameters import working

# Tuples, because `A | B` is made anew at each call, which small inputs feel.
_HOLDERS, _SEQUENCES = (Distribution, Transform), (list, tuple)


def construct_unvalidated(kind: type[Distribution], state: dict[str, object], batch_shape: torch.Size) -> Distribution:
    """An object without going through its constructor, which would validate and derive anew."""
    made = object.__new__(kind)
    vars(made).update(state, _batch_shape=batch_shape)
    return made


def in_working_precision(distribution: Distribution) -> Distribution:
    """The same distribution with every parameter in working precision."""
    state = dict(vars(distribution))
    for name, value in state.items():
        if isinstance(value, Distribution):
            state[name] = in_working_precision(value)
        elif isinstance(value, Tensor) and value.is_floating_point():
            state[name] = working(value)
    return construct_unvalidated(type(distribution), state, distribution.batch_shape)


def stored_values(holder: Distribution | Transform) -> list[Any]:
    """What a distribution stores; of torch's families the parameters where all of them are stored.

    What they derive from those would change an answer: a VonMises keeps a number that overflows, Weibull and
    Kumaraswamy keep reciprocals, whose derivatives overflow.
    """
    stored, names = vars(holder), getattr(holder, "arg_constraints", None)
    if names and names.keys() <= stored.keys() and type(holder).__module__.startswith("torch."):
        return [stored[name] for name in names]
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
