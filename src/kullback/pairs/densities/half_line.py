"""Laws on a half-line from 0: Exponential, Gamma, InverseGamma, HalfNormal, HalfCauchy, LogNormal, Weibull, Fisher."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from kullback.pairs.densities.chart import Log, Mark
from kullback.pairs.densities.law import Law, LogDensity
from kullback.pairs.densities.point import CAP, MODEST, Point
from kullback.pairs.densities.reading import Given
from kullback.pairs.densities.soft import exp_rest, softplus
from kullback.pairs.densities.stirling import stirling_rest
from kullback.pairs.densities.tails import Kind, Tail
from kullback.pairs.densities.tilt import log_normaliser, tilt
from kullback.pairs.visible import at_most

_HALF_LOG_TAU = math.log(2 * math.pi) / 2
_LN2 = math.log(2.0)
# Locations of a LogNormal beyond this are carried by the coordinate, so that its unit is representable.
_REACH = 600.0


def describe_exponential(given: Given) -> Law:
    """λ·e^(−λx)."""
    (rate,) = given.read("rate")
    zero, scale = torch.zeros_like(rate), 1 / rate
    level = torch.log(rate)

    def log_density(point: Point) -> LogDensity:
        log_x = point.log_above(zero, scale)
        return LogDensity(level, torch.exp(log_x.clamp_max(CAP)), log_x)

    bulk = [Mark(-level, torch.ones_like(rate), lower=zero)]
    upper = [Tail(Kind.POWER, 1.0, rate)]
    return Law(Log(zero, scale), log_density, zero, math.inf, [Tail(Kind.LOG)], upper, bulk=bulk)


def describe_gamma(given: Given) -> Law:
    """In u = log(x/mean) the density is √(a/2π)·e^(−R(a) − a·φ(u)), R Binet's remainder, φ(u) = eᵘ − 1 − u."""
    shape, rate = given.read("concentration", "rate")
    zero, mean = torch.zeros_like(rate), shape / rate
    level = _gamma_level(shape) - torch.log(mean)

    def log_density(point: Point) -> LogDensity:
        u = point.log_above(zero, mean)
        return LogDensity(level - u, shape * exp_rest(u.clamp_max(CAP)), u + torch.log(shape))

    bulk = [_gamma_bulk(shape, torch.log(shape.clamp_min(1.0)) - torch.log(rate), zero)]
    lower, upper = [Tail(Kind.LOG, shape)], [Tail(Kind.POWER, 1.0, rate)]
    return Law(Log(zero, mean), log_density, zero, math.inf, lower, upper, marks=[_end(zero)], bulk=bulk)


def describe_inverse_gamma(given: Given) -> Law:
    """The law of 1/x, x a Gamma."""
    shape, rate = given.read("concentration", "rate")
    zero, centre = torch.zeros_like(rate), rate / shape
    level = _gamma_level(shape) - torch.log(centre)

    def log_density(point: Point) -> LogDensity:
        u = point.log_above(zero, centre)
        return LogDensity(level - u, shape * exp_rest((-u).clamp_max(CAP)), -u + torch.log(shape))

    bulk = [_gamma_bulk(shape, torch.log(rate) - torch.log(shape.clamp_min(1.0)), zero)]
    lower, upper = [Tail(Kind.POWER, 1.0, rate)], [Tail(Kind.LOG, shape)]
    return Law(Log(zero, centre), log_density, zero, math.inf, lower, upper, marks=[_end(zero)], bulk=bulk)


def _gamma_level(shape: Tensor) -> Tensor:
    return torch.log(shape) / 2 - _HALF_LOG_TAU - stirling_rest(shape)


def _gamma_bulk(shape: Tensor, log_place: Tensor, zero: Tensor) -> Mark:
    return Mark(log_place, torch.rsqrt(shape.clamp_min(1.0)), lower=zero)


def describe_half_normal(given: Given) -> Law:
    """2·φ(x/σ)/σ on x > 0."""
    (scale,) = given.read("scale")
    zero = torch.zeros_like(scale)
    level = _LN2 - _HALF_LOG_TAU - torch.log(scale)

    def log_density(point: Point) -> LogDensity:
        log_x = point.log_above(zero, scale)
        return LogDensity(level, torch.exp(2 * log_x.clamp_max(CAP)) / 2, 2 * log_x - _LN2)

    bulk = [Mark(torch.log(scale), torch.ones_like(scale), lower=zero)]
    return Law(
        Log(zero, scale),
        log_density,
        zero,
        math.inf,
        [Tail(Kind.LOG)],
        [Tail(Kind.POWER, 2.0, 0.5 / scale**2)],
        bulk=bulk,
    )


def describe_half_cauchy(given: Given) -> Law:
    """2/(πγ(1 + (x/γ)²)) on x > 0."""
    (scale,) = given.read("scale")
    zero = torch.zeros_like(scale)
    level = math.log(2 / math.pi) - torch.log(scale)

    def log_density(point: Point) -> LogDensity:
        return LogDensity(level - softplus(2 * point.log_above(zero, scale)))

    tails = [Tail(Kind.LOG)]
    return Law(Log(zero, scale), log_density, zero, math.inf, tails, tails, marks=[Mark(zero, scale)])


def describe_log_normal(given: Given) -> Law:
    """The law of eˣ, x Normal."""
    loc, scale = given.read("loc", "scale")
    within = loc.clamp(-_REACH, _REACH)
    zero, centre = torch.zeros_like(loc), torch.exp(within)
    level = -torch.log(scale) - _HALF_LOG_TAU - within
    # The nodes move with the location: it has no part in their offsets, not even one that cancels.
    beyond = torch.where(loc.abs() > _REACH, within - loc, 0.0)

    def log_density(point: Point) -> LogDensity:
        u = point.log_above(zero, centre)
        z = (u + beyond) / scale
        size = z.abs()
        log_drop = None if at_most(size, MODEST) else 2 * torch.log(size.clamp_min(1.0)) - _LN2
        return LogDensity(level - u, z * z / 2, log_drop)

    tails = [Tail(Kind.LOG_POWER, 2.0, 0.5 / scale**2)]
    bulk = [Mark(loc, scale, lower=zero)]
    return Law(Log(zero, centre), log_density, zero, math.inf, tails, tails, marks=[_end(zero)], bulk=bulk)


def describe_weibull(given: Given) -> Law:
    """(k/λ)·(x/λ)^(k−1)·e^(−(x/λ)^k)."""
    scale, power = given.read("scale", "concentration")
    zero = torch.zeros_like(scale)
    level = torch.log(power) - torch.log(scale)

    def log_density(point: Point) -> LogDensity:
        u = point.log_above(zero, scale)
        grown = power * u
        return LogDensity(level + (power - 1) * u, torch.exp(grown.clamp_max(CAP)), grown)

    bulk = [Mark(torch.log(scale), 1 / power, lower=zero)]
    lower, upper = [Tail(Kind.LOG, power)], [Tail(Kind.POWER, power, scale**-power)]
    return Law(Log(zero, scale), log_density, zero, math.inf, lower, upper, marks=[_end(zero)], bulk=bulk)


def describe_fisher_snedecor(given: Given) -> Law:
    """d₁x/d₂ is the odds of a Beta(d₁/2, d₂/2)."""
    df1, df2 = given.read("df1", "df2")
    zero, one = torch.zeros_like(df1), torch.ones_like(df1)
    a, b = df1 / 2, df2 / 2
    level = log_normaliser(a, b)

    def log_density(point: Point) -> LogDensity:
        log_x = point.log_above(zero, one)
        return LogDensity(level - tilt(a, b, log_x) - log_x)

    width = torch.sqrt(1 / a + 1 / b).clamp_max(1.0)
    lower, upper = [Tail(Kind.LOG, a)], [Tail(Kind.LOG, b)]
    marks = [_end(zero), Mark(-df2 / df1, zero)]
    bulk = [Mark(zero, width, lower=zero)]
    return Law(Log(zero, one), log_density, zero, math.inf, lower, upper, marks=marks, bulk=bulk)


def _end(zero: Tensor) -> Mark:
    """The branch point of log x at an end, felt by a law whose support begins beyond it."""
    return Mark(zero, zero)
