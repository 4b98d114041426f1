"""Beta, and FisherSnedecor, a multiple of its odds, for integrals; `registry` finds them."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.distributions import Beta, FisherSnedecor

from kullback.densities import Density, beta_core, family, of_log, of_logit, power


@family(Beta, "concentration1", "concentration0")
def beta(concentration1: Tensor, concentration0: Tensor) -> Density:
    """The density of the logit about log(a/b), less log x(1 − x)."""
    a, b = concentration1, concentration0
    return of_logit(torch.log(a / b), _spread(a, b), lambda t: beta_core(a, b, t), power(a), power(b))


@family(FisherSnedecor, "df1", "df2")
def fisher_snedecor(df1: Tensor, df2: Tensor) -> Density:
    """x·df1/df2 is the odds of a Beta(df1/2, df2/2): log x is its logit from the centre."""
    a, b = df1 / 2, df2 / 2
    return of_log(torch.zeros_like(a), _spread(a, b), lambda t: beta_core(a, b, t), power(a), power(b))


def _spread(a: Tensor, b: Tensor) -> Tensor:
    return (1 / a + 1 / b).sqrt().clamp_max(1.0)
