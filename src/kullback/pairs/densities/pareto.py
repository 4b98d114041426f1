"""Pareto and generalised Pareto laws."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from kullback.pairs.densities.chart import Mark
from kullback.pairs.densities.law import Law, LogDensity
from kullback.pairs.densities.point import CAP, Point
from kullback.pairs.densities.power_chart import ParetoLog, pareto_depth
from kullback.pairs.densities.reading import Given
from kullback.pairs.densities.soft import softplus
from kullback.pairs.densities.tails import Kind, Tail


def describe_pareto(given: Given) -> Law:
    """α·m^α/x^(α+1) on x > m: log(x/m) is exponential."""
    scale, alpha = given.read("scale", "alpha")
    zero = torch.zeros_like(scale)
    level = torch.log(alpha) - torch.log(scale)

    def log_density(point: Point) -> LogDensity:
        # x − m may be far below the rounding of m; log(x/m) is then what the distance says.
        return LogDensity(level - (alpha + 1) * softplus(point.log_above(scale, scale)))

    chart = ParetoLog(scale, scale / alpha, 1 / alpha, 2 * scale)
    upper = [Tail(Kind.LOG, alpha)]
    marks, bulk = [Mark(zero, zero)], [Mark(torch.log(scale / alpha), torch.ones_like(scale), lower=scale)]
    return Law(chart, log_density, scale, math.inf, [Tail(Kind.LOG)], upper, marks=marks, bulk=bulk, moving=True)


def describe_generalized_pareto(given: Given) -> Law:
    """(1 + ξz)^(−1/ξ − 1)/σ: heavy for ξ > 0, exponential at 0, on a bounded interval for ξ < 0."""
    loc, scale, shape = given.read("loc", "scale", "concentration")
    bounded, even = shape < 0, shape == 0
    reach = scale / torch.where(even, 1.0, shape.abs())
    end = loc + reach
    upper = torch.where(bounded, end, math.inf)
    level = -torch.log(scale)

    def log_density(point: Point) -> LogDensity:
        log_z = point.log_above(loc, scale)
        depth = pareto_depth(shape, log_z, point.log_below(end, reach))
        grown = torch.where(even, torch.exp(log_z.clamp_max(CAP)), 0.0)
        # At ξ = 0 all of it is what it grows by; the rest is 0 there and has derivatives.
        return LogDensity(level - ((1 + shape) * depth - grown), grown, torch.where(even, log_z, 0.0))

    tails = [
        Tail(Kind.LOG, _inverse(shape), where=~even),
        Tail(Kind.POWER, 1.0, 1 / scale, where=even),
    ]
    marks = [Mark(loc - scale / torch.where(even, 1.0, shape), torch.zeros_like(loc))]
    bulk = [Mark(torch.log(scale), torch.ones_like(scale), lower=loc)]
    chart = ParetoLog(loc, scale, shape, end)
    return Law(chart, log_density, loc, upper, [Tail(Kind.LOG)], tails, marks=marks, bulk=bulk, moving=True)


def _inverse(shape: Tensor) -> Tensor:
    return 1 / torch.where(shape == 0, 1.0, shape.abs())
