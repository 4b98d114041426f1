"""log Γ around 1 as a function of s = x − 1, for ratios x whose distance from 1 is known better than x itself."""

from __future__ import annotations

import torch
from torch import Tensor

from kullback._core.special._precision import horner
from kullback.special import lgamma_bregman, log1pmx

EULER = 0.5772156649015329

# log Γ(2+s) = (1−γ)s + Σ_{k≥2} (ζ(k)−1)(−s)^k/k (DLMF 5.7.3), terms below 1e-18 of the first for |s| ≤ ½.
_ZETA_LESS_ONE = [
    0.6449340668482264,
    0.2020569031595943,
    0.08232323371113819,
    0.03692775514336993,
    0.01734306198444914,
    0.008349277381922827,
    0.004077356197944339,
    0.0020083928260822143,
    0.0009945751278180854,
    0.0004941886041194645,
    0.0002460865533080483,
    0.00012271334757848915,
    6.124813505870483e-05,
    3.058823630702049e-05,
    1.528225940865187e-05,
    7.637197637899762e-06,
    3.81729326499984e-06,
    1.908212716553939e-06,
    9.539620338727961e-07,
    4.769329867878064e-07,
    2.3845050272773298e-07,
    1.1921992596531106e-07,
    5.960818905125948e-08,
    2.9803503514652282e-08,
    1.490155482836504e-08,
    7.450711789835429e-09,
    3.725334024788457e-09,
    1.862659723513049e-09,
    9.313274324196682e-10,
    4.656629065033784e-10,
]
_SERIES = [(-1) ** k * z / k for k, z in enumerate(_ZETA_LESS_ONE, start=2)]
_NEAR = 0.5


def bregman_from_one(x: Tensor, s: Tensor) -> Tensor:
    """The value log Γ(x) + γ(x − 1) for x = 1 + s > 0, both given: never negative, relatively accurate near s = 0."""
    near = s.abs() <= _NEAR
    small = torch.where(near, s, 0.0)
    return torch.where(near, _tail(small) - log1pmx(small), lgamma_bregman(1.0, torch.where(near, 1.0, x)))


def lgamma_above(x: Tensor, s: Tensor) -> Tensor:
    """The value log Γ(1 + x) for x = 1 + s > 0, both given: relatively accurate at its zeros, x = 0 and x = 1."""
    to_zero, to_one = x <= _NEAR, s.abs() < _NEAR
    tiny = torch.where(to_zero, x, 0.0)
    small = torch.where(to_one, s, 0.0)
    wide = torch.where(to_zero | to_one, 1.0, x)
    at_zero = _tail(tiny) - log1pmx(tiny) - EULER * tiny
    at_one = (1 - EULER) * small + _tail(small)
    far = lgamma_bregman(1.0, wide) + torch.log(wide) - EULER * (wide - 1)
    return torch.where(to_zero, at_zero, torch.where(to_one, at_one, far))


def _tail(s: Tensor) -> Tensor:
    return s * s * horner(s, _SERIES)
