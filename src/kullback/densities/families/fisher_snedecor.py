"""The FisherSnedecor density for integrals; `registry` finds it."""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.distributions import FisherSnedecor

from kullback.densities.coordinate import Log, mark_above
from kullback.densities.density import Density
from kullback.densities.point import Point
from kullback.densities.registry import family
from kullback.densities.stirling import beta_core
from kullback.densities.tails import power


@family(FisherSnedecor, "df1", "df2")
def fisher_snedecor(df1: Tensor, df2: Tensor) -> Density:
    """x·df1/df2 is the odds of a Beta(df1/2, df2/2): t = log x is its logit from the centre."""
    a, b = df1 / 2, df2 / 2
    one = torch.zeros_like(a)

    def log_prob(x: Point) -> Tensor:
        t = x.log_distance(0.0)
        return beta_core(a, b, t) - t

    spread = (1 / a + 1 / b).sqrt().clamp_max(1.0)
    return Density(0.0, math.inf, Log(0.0, one), log_prob, (mark_above(0.0, one, spread),), (power(a), power(b)))
