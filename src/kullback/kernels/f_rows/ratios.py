"""Divergences that are elementary in the ratio: Jeffreys, Hellinger, chi-squared, total variation."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from kullback.kernels.f_rows.exponential import expm1
from kullback.kernels.f_rows.generator import Generator, Larger, f_divergence
from kullback.kernels.f_rows.pair import Frozen, read_pair
from kullback.kernels.sides import Side

# exp of more overflows float64.
_LARGEST_EXPONENT = 709.0


def jeffreys_value(p: Side, q: Side) -> Tensor:
    """Σ (p - q)(log p - log q)."""
    return f_divergence(p, q, jeffreys_generator())


def hellinger_value(p: Side, q: Side) -> Tensor:
    """The root of ½ Σ (√p - √q)²."""
    return root(f_divergence(p, q, hellinger_generator()))


def chi2_value(p: Side, q: Side) -> Tensor:
    """Σ (p - q)²/q; rows that overflow are infinite, with zero gradient like all such rows."""
    rows = f_divergence(p, q, chi2_generator())
    return torch.where(rows > math.exp(_LARGEST_EXPONENT - 1), torch.inf, rows)


def jeffreys_generator() -> Generator:
    """The f of Jeffreys' divergence."""
    return Generator(_jeffreys, None, math.inf, math.inf, None, None)


def hellinger_generator() -> Generator:
    """The f of the squared Hellinger distance."""
    return Generator(_hellinger, None, 0.5, 0.5, None, None)


def chi2_generator() -> Generator:
    """The f of the chi-squared divergence."""
    return Generator(_chi2_from_p, _chi2_from_q, math.inf, 1.0, -2.0, None)


def total_variation_value(p: Side, q: Side) -> Tensor:
    """½ Σ |p - q|, whose derivative at a tie is taken to be 0, the middle of the subgradients.

    As ½ Σ (s - s₀)(p - q), s the sign of p - q and s₀ that of the heaviest class: Σ s₀(p - q) = 0, so a class that is
    nearly certain, whose change is the small difference of large numbers, drops out of value and gradient.
    """
    pair = read_pair(p, q, Frozen(False, False, False, False))
    shared = pair.in_p & pair.in_q
    ratio = pair.log_ratio.detach()
    larger = torch.where(ratio <= 0, pair.p, pair.q).detach()
    distance = torch.where(shared, larger * -expm1(-ratio.abs()), (pair.p + pair.q).detach())
    only = (pair.in_p & ~pair.in_q).to(ratio.dtype) - (pair.in_q & ~pair.in_p).to(ratio.dtype)
    sign = torch.where(shared, -ratio.sign(), only)
    slope = torch.where(shared & (ratio.abs() <= pair.tie), 0.0, sign)
    heaviest = pair.p.detach().expand_as(sign).argmax(-1, keepdim=True)
    value = (sign - sign.gather(-1, heaviest)).abs() * distance
    difference = (pair.p + pair.zero_p) - (pair.q + pair.zero_q)
    step = (slope - slope.gather(-1, heaviest)) * (difference - difference.detach())
    return 0.5 * (value + step).sum(-1)


def root(rows: Tensor) -> Tensor:
    """The square root, whose derivative at 0 is taken to be 0: the distance has its minimum there, and a kink."""
    positive = rows > 0
    return torch.where(positive, torch.sqrt(torch.where(positive, rows, 1.0)), 0.0)


def _jeffreys(c: Larger) -> Tensor:
    return c.m * expm1(c.x) * c.x


def _hellinger(c: Larger) -> Tensor:
    return 0.5 * c.m * expm1(0.5 * c.x).square()


def _chi2_from_p(c: Larger) -> Tensor:
    """(p - q)²/q = (p²/q) expm1(x)²."""
    return torch.exp((c.log_m - c.x).clamp(max=_LARGEST_EXPONENT)) * expm1(c.x).square()


def _chi2_from_q(c: Larger) -> Tensor:
    return c.m * expm1(c.x).square()
