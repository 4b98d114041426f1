"""Distributions, views and numbers in words, for reports."""

from __future__ import annotations

from typing import Any

from torch import Tensor
from torch.distributions import Distribution, Independent, MixtureSameFamily, TransformedDistribution

from kullback.densities.mixed import Mixture

_MAX_SHOWN = 24


def write_number(number: float) -> str:
    """Ten digits at most.

    Example:
        >>> write_number(1.0), write_number(1 / 3)
        ('1', '0.3333333333')
    """
    return f"{number:.10g}"


def write_distribution(d: Distribution) -> str:
    """The distribution with its parameters as they were given.

    Example:
        >>> from torch.distributions import Bernoulli
        >>> import torch
        >>> write_distribution(Bernoulli(logits=torch.tensor([2.0, -800.0])))
        'Bernoulli(logits: [2, -800])'
    """
    if isinstance(d, Independent):
        return f"Independent({write_distribution(d.base_dist)}, {d.reinterpreted_batch_ndims})"
    if isinstance(d, MixtureSameFamily):
        mixing, components = write_distribution(d.mixture_distribution), write_distribution(d.component_distribution)
        return f"MixtureSameFamily({mixing}, {components})"
    if isinstance(d, Mixture):
        parts = zip(d.weights.tolist(), d.parts, strict=True)
        return " + ".join(f"{write_number(weight)}*{write_distribution(part)}" for weight, part in parts)
    if type(d) is TransformedDistribution:
        return f"TransformedDistribution({write_distribution(d.base_dist)}, {d.transforms})"
    constraints: Any = d.arg_constraints
    keep = given_first(d)
    names = [name for name in constraints if name not in ("probs", "logits") or name == keep]
    given = {name: vars(d).get(name) for name in names}
    if not any(isinstance(value, Tensor) for value in given.values()):  # kept on an inner distribution
        given = {name: getattr(d, name, None) for name in names}
    shown = [f"{name}: {_values(value)}" for name, value in given.items() if isinstance(value, Tensor)]
    return f"{type(d).__name__}({', '.join(shown)})" if shown else repr(d)


def given_first(d: Distribution) -> str:
    """Which of probs and logits was given: torch computes the other when it is asked for, and stores it behind."""
    for name, value in vars(d).items():
        if name in ("probs", "logits"):
            return name
        if isinstance(value, Distribution):
            return given_first(value)
    return "probs"


def _values(tensor: Tensor) -> str:
    if tensor.numel() > _MAX_SHOWN:
        return f"tensor of shape {tuple(tensor.shape)}"
    return _listed(tensor.detach().tolist())


def _listed(numbers: float | list[Any]) -> str:
    return f"[{', '.join(map(_listed, numbers))}]" if isinstance(numbers, list) else write_number(numbers)
