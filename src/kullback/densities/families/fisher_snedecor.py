"""The FisherSnedecor density for integrals; `registry` finds it."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.distributions import FisherSnedecor

from kullback.densities.describe import Density, Point, above_zero, beta_core, family, power


@family(FisherSnedecor, "df1", "df2")
def fisher_snedecor(df1: Tensor, df2: Tensor) -> Density:
    """x·df1/df2 is the odds of a Beta(df1/2, df2/2): t = log x is its logit from the centre."""
    a, b = df1 / 2, df2 / 2

    def log_prob(x: Point) -> Tensor:
        t = x.log_distance(0.0)
        return beta_core(a, b, t) - t

    return above_zero(torch.zeros_like(a), (1 / a + 1 / b).sqrt().clamp_max(1.0), log_prob, power(a), power(b))
