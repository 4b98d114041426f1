"""Laws on an interval: Uniform, Beta, Kumaraswamy, ContinuousBernoulli, RelaxedBernoulli, VonMises."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from kullback._core.special._derivatives import attach, split_point
from kullback.pairs.densities.chart import Around, Logit, Mark
from kullback.pairs.densities.law import Law, LogDensity
from kullback.pairs.densities.line import logistic_drop, logistic_parameters
from kullback.pairs.densities.point import CAP, Point
from kullback.pairs.densities.power_chart import PowerLogit, log_complement
from kullback.pairs.densities.reading import Given
from kullback.pairs.densities.soft import softplus
from kullback.pairs.densities.tails import Kind, Tail
from kullback.pairs.densities.tilt import log_normaliser, tilt
from kullback.pairs.log_sinhc import log_sinhc
from kullback.pairs.outcomes import chance
from kullback.pairs.visible import hidden, surely
from kullback.special import log_ive

_FLAT = [Tail(Kind.LOG)]


def describe_uniform(given: Given) -> Law:
    """1/(high − low)."""
    low, high = given.read("low", "high")
    width = high - low
    level = -torch.log(width)
    bulk = [Mark((low + high) / 2, width / 2)]
    chart = Logit(low, high, width, torch.zeros_like(low))
    return Law(chart, lambda _: LogDensity(level), low, high, _FLAT, _FLAT, bulk=bulk, moving=True)


def describe_beta(given: Given) -> Law:
    """See `tilt`: the density of the log-odds."""
    a, b = given.read("concentration1", "concentration0")
    zero, one = torch.zeros_like(a), torch.ones_like(a)
    shift = torch.log(a) - torch.log(b)
    level = log_normaliser(a, b)

    def log_density(point: Point) -> LogDensity:
        above, below = point.log_above(zero, one), point.log_below(one, one)
        return LogDensity(level - tilt(a, b, point.log_odds(shift, above, below)) - above - below)

    larger = torch.maximum(a, b)
    share = a / larger / (a / larger + b / larger)
    spread = torch.sqrt(1 / a + 1 / b).clamp_max(1.0)
    bulk = [Mark(torch.log(share), spread * (1 - share), lower=zero), _middle(zero)]
    lower, upper = [Tail(Kind.LOG, a)], [Tail(Kind.LOG, b)]
    marks = [Mark(zero, zero), Mark(one, zero)]
    return Law(Logit(zero, one, one, shift, unit=True), log_density, zero, one, lower, upper, marks=marks, bulk=bulk)


def describe_kumaraswamy(given: Given) -> Law:
    """a·b·x^(a−1)·(1 − x^a)^(b−1): x^a is a Beta(1, b), whose log-odds are the coordinate."""
    a, b = given.read("concentration1", "concentration0")
    zero, one = torch.zeros_like(a), torch.ones_like(a)
    level = torch.log(a) + torch.log(b)

    def log_density(point: Point) -> LogDensity:
        log_x = point.log_above(zero, one)
        return LogDensity(level + (a - 1) * log_x + (b - 1) * log_complement(a, log_x, point.log_below(one, one)))

    # x^a is about 1/b; 1 − x^a turns from its slope at x = 1 into 1 within a distance of 1/a.
    bulk = [Mark(-torch.log1p(b.clamp_min(1.0)) / a, 1 / a, lower=zero)]
    marks = [Mark(zero, zero), Mark(one, zero), Mark(-torch.log(a.clamp_min(2.0)), one, upper=one)]
    lower, upper = [Tail(Kind.LOG, a)], [Tail(Kind.LOG, b)]
    return Law(PowerLogit(a, zero, one), log_density, zero, one, lower, upper, marks=marks, bulk=bulk)


def describe_continuous_bernoulli(given: Given) -> Law:
    """Proportional to e^(ηx) on [0, 1]; it falls from the end where it is high at the rate |η|."""
    eta = given.shaped(chance(given.distribution).inner().as_logits().given)
    zero, one = torch.zeros_like(eta), torch.ones_like(eta)
    # |η|, with a derivative at η = 0, where either end may be called the high one.
    size = torch.where(eta > 0, eta, -eta)
    at, step = split_point(eta)
    normaliser = log_sinhc(at, 0)
    if hidden() or eta.requires_grad:
        normaliser = attach(normaliser, [step], [log_sinhc(at, 1)], [log_sinhc(at, 2)])
    level = size / 2 - normaliser

    def log_density(point: Point) -> LogDensity:
        distance = torch.where(eta > 0, point.log_below(one, one), point.log_above(zero, one))
        return LogDensity(level - size * torch.exp(distance.clamp_max(CAP)))

    log_place = -torch.log(size.clamp_min(2.0))
    bulk = [Mark(log_place, one, lower=zero), Mark(log_place, one, upper=one)]
    return Law(Logit(zero, one, one, zero, unit=True), log_density, zero, one, _FLAT, _FLAT, bulk=bulk)


def describe_relaxed_bernoulli(given: Given) -> Law:
    """The law of σ(x), x logistic."""
    loc, scale = logistic_parameters(given)
    zero, one = torch.zeros_like(loc), torch.ones_like(loc)
    level = -torch.log(scale)

    def log_density(point: Point) -> LogDensity:
        above, below = point.log_above(zero, one), point.log_below(one, one)
        return LogDensity(level - logistic_drop(point.log_odds(loc, above, below) / scale) - above - below)

    tails = [Tail(Kind.LOG, 1 / scale)]
    marks = [Mark(-softplus(-loc), scale * torch.sigmoid(-loc), lower=zero), _middle(zero)]
    marks += [Mark(zero, zero), Mark(one, zero)]
    return Law(Logit(zero, one, one, loc, unit=True), log_density, zero, one, tails, tails, marks=marks)


def describe_von_mises(given: Given) -> Law:
    """e^(κ·cos(x − μ))/(2π·I₀(κ)), a law on [−π, π), where torch draws its samples."""
    loc, concentration = given.read("loc", "concentration")
    half_turn = torch.full_like(loc, math.pi)
    one = torch.ones_like(loc)
    level = -math.log(2 * math.pi) - log_ive(torch.zeros_like(loc), concentration)

    def log_density(point: Point) -> LogDensity:
        angle, _ = point.standard(loc, one)
        return LogDensity(level - 2 * concentration * torch.sin(angle / 2) ** 2)

    width = torch.rsqrt(concentration.clamp_min(1.0))
    centre = loc if surely(loc.abs() <= math.pi) else torch.remainder(loc + math.pi, 2 * math.pi) - math.pi
    bulk = [Mark(centre + turn * 2 * math.pi, width) for turn in (-1, 0, 1)]
    chart = Around.on(-half_turn, half_turn, centre)
    return Law(chart, log_density, -half_turn, half_turn, _FLAT, _FLAT, bulk=bulk)


def _middle(zero: Tensor) -> Mark:
    """Where log-odds change sign: sums of powers of x and 1 − x turn from one to the other."""
    return Mark(zero - math.log(2.0), zero + 0.5, lower=zero)
