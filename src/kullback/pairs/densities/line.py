"""Laws on the whole line: Normal, Laplace, Cauchy, StudentT, Gumbel, and the logistic law of a relaxed Bernoulli."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from kullback.pairs.densities.chart import Line, Mark, Sinh
from kullback.pairs.densities.law import Law, LogDensity
from kullback.pairs.densities.point import CAP, Point
from kullback.pairs.densities.reading import Given
from kullback.pairs.densities.soft import softplus
from kullback.pairs.densities.tails import Kind, Tail
from kullback.pairs.gamma_half_step import log_half_step
from kullback.pairs.outcomes import chance
from kullback.pairs.visible import at_most

_HALF_LOG_TAU = math.log(2 * math.pi) / 2
_LN2 = math.log(2.0)


def describe_normal(given: Given) -> Law:
    """φ((x − μ)/σ)/σ."""
    loc, scale = given.read("loc", "scale")
    level = -torch.log(scale) - _HALF_LOG_TAU

    def log_density(point: Point) -> LogDensity:
        z, log_size = point.standard(loc, scale)
        return LogDensity(level, z * z / 2, None if log_size is None else 2 * log_size - _LN2)

    tails = [Tail(Kind.POWER, 2.0, 0.5 / scale**2)]
    return Law(Line(loc, scale), log_density, -math.inf, math.inf, tails, tails, bulk=[Mark(loc, scale)])


def describe_laplace(given: Given) -> Law:
    """e^(−|x − μ|/b)/(2b)."""
    loc, scale = given.read("loc", "scale")
    level = -torch.log(scale) - _LN2

    def log_density(point: Point) -> LogDensity:
        z, log_size = point.standard(loc, scale)
        return LogDensity(level, z.abs(), log_size)

    tails = [Tail(Kind.POWER, 1.0, 1 / scale)]
    bulk = [Mark(loc, scale)]
    return Law(Line(loc, scale), log_density, -math.inf, math.inf, tails, tails, bulk=bulk, kinks=(loc,))


def describe_cauchy(given: Given) -> Law:
    """1/(πγ(1 + z²)), with poles at ±iγ from the location."""
    loc, scale = given.read("loc", "scale")
    level = -torch.log(scale) - math.log(math.pi)

    def log_density(point: Point) -> LogDensity:
        return LogDensity(level - log1p_square(*point.standard(loc, scale)))

    tails, mark = [Tail(Kind.LOG, 1.0)], Mark(loc, scale)
    return Law(Sinh(loc, scale), log_density, -math.inf, math.inf, tails, tails, marks=[mark], steep=mark)


def describe_student_t(given: Given) -> Law:
    """C(ν)·(1 + z²/ν)^(−(ν+1)/2)/σ, with branch points at ±iσ√ν from the location."""
    df, loc, scale = given.read("df", "loc", "scale")
    reach = scale * torch.sqrt(df)
    level = log_half_step(df / 2) - _HALF_LOG_TAU - torch.log(scale)

    def log_density(point: Point) -> LogDensity:
        return LogDensity(level - (df + 1) / 2 * log1p_square(*point.standard(loc, reach)))

    tails = [Tail(Kind.LOG, df)]
    marks = [Mark(loc, reach)]
    bulk = [Mark(loc, torch.minimum(scale, reach))]
    law = Law(Sinh(loc, reach), log_density, -math.inf, math.inf, tails, tails, marks=marks, bulk=bulk)
    return law._replace(steep=marks[0])


def describe_gumbel(given: Given) -> Law:
    """e^(−(z + e^−z))/β."""
    loc, scale = given.read("loc", "scale")
    level = -torch.log(scale)

    def log_density(point: Point) -> LogDensity:
        z, log_size = point.standard(loc, scale)
        if at_most(-z, CAP / 2):
            return LogDensity(level, z + torch.exp(-z), log_size)
        if log_size is None:
            log_size = torch.log(z.abs().clamp_min(1.0))
        return LogDensity(level, z + torch.exp((-z).clamp_max(CAP)), torch.where(z > 0, log_size, -z))

    lower, upper = [Tail(Kind.EXP, rate=1 / scale)], [Tail(Kind.POWER, 1.0, 1 / scale)]
    return Law(Line(loc, scale), log_density, -math.inf, math.inf, lower, upper, bulk=[Mark(loc, scale)])


def describe_logit_relaxed_bernoulli(given: Given) -> Law:
    """A logistic law with location a/T and scale 1/T."""
    loc, scale = logistic_parameters(given)
    level = -torch.log(scale)

    def log_density(point: Point) -> LogDensity:
        z, log_size = point.standard(loc, scale)
        return LogDensity(level, logistic_drop(z), log_size)

    tails = [Tail(Kind.POWER, 1.0, 1 / scale)]
    return Law(Line(loc, scale), log_density, -math.inf, math.inf, tails, tails, marks=[Mark(loc, scale)])


def logistic_parameters(given: Given) -> tuple[Tensor, Tensor]:
    """Location and scale of the logits of a relaxed Bernoulli."""
    logits = given.shaped(chance(given.distribution).inner().as_logits().given)
    (temperature,) = given.read("temperature")
    return logits / temperature, 1 / temperature


def logistic_drop(z: Tensor) -> Tensor:
    """Z + 2·log(1 + e^−z), even in z."""
    size = z.abs()
    return size + 2 * softplus(-size)


def log1p_square(z: Tensor, log_size: Tensor | None) -> Tensor:
    """log(1 + z²), also where z is known by its logarithm only."""
    if log_size is None:
        return torch.log1p(z * z)
    return torch.where(log_size > CAP / 2, 2 * log_size, torch.log1p(z * z))
