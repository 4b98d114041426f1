"""How densities fall at the ends of their supports, and when an expectation diverges there; `divergences` asks.

A density's tail at an end is (order, exponent, rate) in L = log|x| for an infinite end and L = −log|x − end| for a
finite one:

    order 0    L^(−exponent), a power of the logarithm
    order 1    e^(−exponent·L), a power
    order 2    e^(−rate·L^exponent), exponent above 1: a log-normal has 2
    order 3    e^(−rate·e^(exponent·L)), an exponential of a power
    order 4    e^(−e^(rate·|x|)), Gumbel's lower tail
"""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor


class Tail(NamedTuple):
    """How fast the mass beyond a point falls towards an end."""

    order: Tensor | float
    exponent: Tensor | float = 0.0
    rate: Tensor | float = 0.0


def power(exponent: Tensor | float) -> Tail:
    """The mass falls as e^(−exponent·L)."""
    return Tail(1.0, exponent)


def log_normal(rate: Tensor | float) -> Tail:
    """The mass falls as e^(−rate·L²)."""
    return Tail(2.0, 2.0, rate)


def exponential(exponent: Tensor | float, rate: Tensor | float) -> Tail:
    """The mass falls as e^(−rate·|x|^exponent)."""
    return Tail(3.0, exponent, rate)


def double_exponential(rate: Tensor | float) -> Tail:
    """The mass falls as e^(−e^(rate·|x|))."""
    return Tail(4.0, 1.0, rate)


def _tensors(tail: Tail, like: Tensor) -> tuple[Tensor, ...]:
    return tuple(torch.as_tensor(value, dtype=like.dtype, device=like.device) for value in tail)


def diverges(p: Tail, q: Tail, like: Tensor) -> Tensor:
    """Whether E_p[−log q] is infinite at an end that p and q share."""
    if isinstance(p.order, float) and isinstance(q.order, float) and p.order >= 1 and q.order < 3:
        return torch.zeros_like(like, dtype=torch.bool)
    (order, k, rate), (growth, m, growth_rate) = _tensors(p, like), _tensors(q, like)
    by_power = (growth == 3) & ((order == 0) | ((order == 1) & (k <= m)))
    by_power = by_power | ((order == 0) & (((growth == 1) & (k <= 1)) | ((growth == 2) & (k <= 2))))
    slower = (order < 3) | ((order == 3) & ((k < 1) | ((k == 1) & (rate <= growth_rate))))
    return by_power | ((growth == 4) & slower)


def powers_diverge(p: Tail, q: Tail, alpha: float, like: Tensor) -> Tensor:
    """Whether ∫ p^α q^(1−α) is infinite at an end that p and q share, α > 1; for α = ∞ whether p/q is unbounded.

    Where two tails are the same to the last of their numbers at α = ∞, they do not say.
    """
    (order, k, rate), (growth, m, growth_rate) = _tensors(p, like), _tensors(q, like)
    own, other = torch.where(order <= 1, k, rate), torch.where(growth <= 1, m, growth_rate)
    # Two rates that are one number may differ by its rounding.
    outweighed = own < other * (1 - 1e-12) if alpha == math.inf else alpha * own - (alpha - 1) * other <= 0
    by_exponent = ((order == 2) | (order == 3)) & (k != m)
    slower = torch.where(by_exponent, k < m, torch.where(order == 4, rate < growth_rate, outweighed))
    return (order < growth) | ((order == growth) & slower)


def heavier(s: Tail, t: Tail, like: Tensor) -> Tail:
    """The tail of a mixture of two: the one that falls more slowly."""
    first, second = _tensors(s, like), _tensors(t, like)
    same = first[0] == second[0]
    slower = (first[1] < second[1]) | ((first[1] == second[1]) & (first[2] <= second[2]))
    chosen = (first[0] < second[0]) | (same & slower)
    return Tail(*(torch.where(chosen, a, b) for a, b in zip(first, second, strict=True)))


def scaled(tail: Tail, by: Tensor | float) -> Tail:
    """The tail with another unit of |x|, or of the inverse distance from an end."""
    order, k, rate = _parts(tail)
    return tail._replace(rate=torch.where(order == 4, rate * by, torch.where(order == 3, rate * by**k, rate)))


def of_exponential(tail: Tail) -> Tail:
    """The tail of e^x where x goes to ±∞: L = |x|."""
    order, k, rate = _parts(tail)
    light = torch.where(k == 1, 1.0, torch.where(k > 1, 2.0, 0.0))
    new_order = torch.where(order == 4, 3.0, torch.where(order == 3, light, 0.0))
    light = torch.where(k == 1, rate, torch.where(k > 1, k, torch.inf))
    heavy = torch.where(order == 2, torch.inf, torch.where(order == 1, k, 0.0))
    exponent = torch.where(order == 4, rate, torch.where(order == 3, light, heavy))
    return Tail(new_order, exponent, torch.where((order == 3) & (k > 1), rate, 1.0))


def of_logarithm(tail: Tail) -> Tail:
    """The tail of log x where x goes to 0 or ∞."""
    order, k, rate = _parts(tail)
    new_order = torch.where(order == 0, torch.where(k == torch.inf, 3.0, 1.0), torch.where(order < 3, 3.0, 4.0))
    heavy = torch.where(k == torch.inf, 0.5, k)
    exponent = torch.where(order == 0, heavy, torch.where(order == 2, k, 1.0))
    light = torch.where(order == 2, rate, torch.where(order == 4, torch.inf, 1.0))
    rate = torch.where((order == 1) | (order == 3), k, light)
    return Tail(new_order, exponent, rate)


def chosen(mask: Tensor | bool, first: Tail, second: Tail) -> Tail:
    """The first tail where the mask holds."""
    if isinstance(mask, bool):
        return first if mask else second
    pairs = zip(_tensors(first, mask.double()), _tensors(second, mask.double()), strict=True)
    return Tail(*(torch.where(mask, a, b) for a, b in pairs))


def _parts(tail: Tail) -> tuple[Tensor, ...]:
    tensors = [part for part in tail if isinstance(part, Tensor)]
    return _tensors(tail, max(tensors, key=Tensor.element_size, default=torch.zeros((), dtype=torch.float64)))
