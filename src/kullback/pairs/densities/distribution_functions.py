"""Distribution functions as maps: both tails by formulas, since 1 − F(z) is lost where F(z) rounds to 1."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor
from torch import distributions as d
from torch.distributions import Distribution

from kullback.pairs.densities.generic_maps import DistributionFunction
from kullback.pairs.densities.reading import Given
from kullback.special import log1mexp, log_ndtr

_HALF_LOG_TAU = math.log(2 * math.pi) / 2
_LN2 = math.log(2.0)
_DEEP = -700.0


def _scaled(given: Given, standard: DistributionFunction) -> DistributionFunction:
    """Of loc + scale·z."""
    loc, scale = given.read("loc", "scale")
    log_scale = torch.log(scale)
    return DistributionFunction(
        lambda x: standard.log_tails((x - loc) / scale),
        lambda low, high: loc + scale * standard.back(low, high),
        lambda x: standard.log_slope((x - loc) / scale) - log_scale,
    )


def _mirrored(lower_half: Callable[[Tensor], Tensor]) -> Callable[[Tensor, Tensor], Tensor]:
    """The quantiles of a law that is even, from those below 0."""

    def back(low: Tensor, high: Tensor) -> Tensor:
        z = lower_half(torch.minimum(low, high))
        return torch.where(low <= high, z, -z)

    return back


def _normal(given: Given) -> DistributionFunction:
    standard = DistributionFunction(
        lambda z: (log_ndtr(z), log_ndtr(-z)),
        _mirrored(_log_ndtri),
        lambda z: -z * z / 2 - _HALF_LOG_TAU,
    )
    return _scaled(given, standard)


def _log_ndtri(log_share: Tensor) -> Tensor:
    """The z with log Φ(z) given, at most log ½: torch's, or where that underflows its expansion; two Newton steps."""
    log_share = log_share.clamp_min(-1e30)
    near = torch.special.ndtri(torch.exp(log_share.clamp_min(_DEEP)))
    square = -2 * log_share
    far = -torch.sqrt((square - torch.log(2 * math.pi * square.clamp_min(2.0))).clamp_min(1.0))
    z = torch.where(log_share > _DEEP, near, far)
    for _ in range(2):
        log_below = log_ndtr(z)
        hazard = torch.exp(-z * z / 2 - _HALF_LOG_TAU - log_below)
        z = z - (log_below - log_share) / hazard
    return z


def _laplace(given: Given) -> DistributionFunction:
    def log_tails(z: Tensor) -> tuple[Tensor, Tensor]:
        size = z.abs()
        small = -size - _LN2
        large = torch.log1p(-torch.exp(small))
        return torch.where(z < 0, small, large), torch.where(z < 0, large, small)

    standard = DistributionFunction(log_tails, _mirrored(lambda low: low + _LN2), lambda z: -z.abs() - _LN2)
    return _scaled(given, standard)


def _cauchy(given: Given) -> DistributionFunction:
    def log_tails(z: Tensor) -> tuple[Tensor, Tensor]:
        small = torch.log(torch.atan2(torch.ones_like(z), z.abs()) / math.pi)
        large = torch.log1p(-torch.exp(small))
        return torch.where(z < 0, small, large), torch.where(z < 0, large, small)

    def lower_half(low: Tensor) -> Tensor:
        return -1 / torch.tan(math.pi * torch.exp(low.clamp_min(_DEEP)))

    standard = DistributionFunction(log_tails, _mirrored(lower_half), lambda z: -torch.log1p(z * z) - math.log(math.pi))
    return _scaled(given, standard)


def _gumbel(given: Given) -> DistributionFunction:
    """F = e^(−e^(−z))."""

    def log_tails(z: Tensor) -> tuple[Tensor, Tensor]:
        low = -torch.exp((-z).clamp_max(-_DEEP))
        return low, torch.where(z > 40, -z, log1mexp(torch.where(z > 40, -1.0, low)))

    def back(low: Tensor, high: Tensor) -> Tensor:
        # −log F is what is left to 1 where that is small.
        lost = torch.where(high < -_LN2, -torch.log1p(-torch.exp(high.clamp_max(-_LN2))), -low)
        return torch.where(high < _DEEP, -high, -torch.log(lost.clamp_min(1e-305)))

    standard = DistributionFunction(log_tails, back, lambda z: -z - torch.exp((-z).clamp_max(-_DEEP)))
    return _scaled(given, standard)


def _exponential(given: Given) -> DistributionFunction:
    (rate,) = given.read("rate")

    def log_tails(z: Tensor) -> tuple[Tensor, Tensor]:
        high = -rate * z.clamp_min(1e-300)
        return log1mexp(high), high

    def back(low: Tensor, high: Tensor) -> Tensor:
        return torch.where(low < -_LN2, -torch.log1p(-torch.exp(low.clamp_max(-_LN2))), -high) / rate

    return DistributionFunction(log_tails, back, lambda z: torch.log(rate) - rate * z)


_KNOWN: dict[type[Distribution], Callable[[Given], DistributionFunction]] = {
    d.Cauchy: _cauchy,
    d.Exponential: _exponential,
    d.Gumbel: _gumbel,
    d.Laplace: _laplace,
    d.Normal: _normal,
}


def known(distribution: Distribution) -> bool:
    """Whether there are formulas for a distribution function."""
    return type(distribution) in _KNOWN


def distribution_function(given: Given) -> DistributionFunction | None:
    """The formulas of a distribution, or None."""
    family = _KNOWN.get(type(given.distribution))
    return None if family is None else family(given)
