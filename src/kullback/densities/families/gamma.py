"""Gamma, and with it Chi2, Exponential and InverseGamma, and Weibull, for integrals; `registry` finds them."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor
from torch.distributions import Chi2, Exponential, Gamma, InverseGamma, Weibull

from kullback.densities import LOG_2PI, Density, binet, exponential, family, of_log, power, stable_exp


@family(Gamma, "concentration", "rate")
def gamma(concentration: Tensor, rate: Tensor) -> Density:
    """The density of log x, less log x."""
    unit, core, spread = _log_gamma(concentration)
    return of_log(unit - torch.log(rate), spread, core, power(concentration), exponential(1.0, rate))


@family(InverseGamma, "concentration", "rate")
def inverse_gamma(concentration: Tensor, rate: Tensor) -> Density:
    """The reciprocal of a Gamma, whose logarithm has the other sign."""
    unit, core, spread = _log_gamma(concentration)
    return of_log(torch.log(rate) - unit, spread, lambda t: core(-t), exponential(1.0, rate), power(concentration))


@family(Chi2, "df")
def chi2(df: Tensor) -> Density:
    """Gamma(df/2, ½)."""
    return gamma(df / 2, torch.full_like(df, 0.5))


@family(Exponential, "rate")
def exponential_density(rate: Tensor) -> Density:
    """Gamma(1, rate)."""
    return gamma(torch.ones_like(rate), rate)


@family(Weibull, "scale", "concentration")
def weibull(scale: Tensor, concentration: Tensor) -> Density:
    """Log k + kt − e^(kt) − log x, t = log(x/scale)."""
    k, unit = concentration, torch.log(scale)
    upper = exponential(k, stable_exp(-k * unit))
    return of_log(unit, 1 / k, lambda t: torch.log(k) + k * t - torch.exp((k * t).clamp_max(690.0)), power(k), upper)


def _log_gamma(a: Tensor) -> tuple[Tensor, Callable[[Tensor], Tensor], Tensor]:
    """The logarithm of a Gamma(a, 1): log a, the log-density a·(t − e^t + 1) + … about it, and its spread."""
    constant = (torch.log(a) - LOG_2PI) / 2 - binet(a)
    return torch.log(a), lambda t: a * (t - torch.expm1(t.clamp_max(690.0))) + constant, a.rsqrt().clamp_max(1.0)
