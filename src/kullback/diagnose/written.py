"""Distributions, views and numbers in words, for reports."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.distributions import Distribution, Independent, MixtureSameFamily, TransformedDistribution

from kullback.densities.mixed import Mixture

_MAX_SHOWN = 24


def write_number(number: float, digits: int = 10) -> str:
    """As many digits as a reader wants and the number has.

    Example:
        >>> write_number(1.0), write_number(1 / 3)
        ('1', '0.3333333333')
    """
    return f"{number:.{digits}g}"


def digits_of(tensor: Tensor) -> int:
    """How many digits of the numbers in a tensor are shown: ten, or what its dtype has.

    Example:
        >>> import torch
        >>> digits_of(torch.tensor(0.1)), digits_of(torch.tensor(0.1, dtype=torch.float64))
        (7, 10)
    """
    eps = torch.finfo(tensor.dtype).eps if tensor.is_floating_point() else 0.0
    return 10 if eps < 1e-10 else 7 if eps < 1e-5 else 4


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
    return _listed(tensor.detach().tolist(), digits_of(tensor))


def _listed(numbers: float | list[Any], digits: int) -> str:
    if isinstance(numbers, list):
        return f"[{', '.join(_listed(number, digits) for number in numbers)}]"
    return write_number(numbers, digits)
