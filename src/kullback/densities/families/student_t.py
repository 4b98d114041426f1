"""StudentT, Cauchy and HalfCauchy for integrals; `registry` finds them."""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.distributions import Cauchy, HalfCauchy, StudentT

from kullback.densities import LOG_2PI, Density, Point, above_zero, binet, family, on_line, power, softplus


@family(StudentT, "df", "loc", "scale")
def student_t(df: Tensor, loc: Tensor, scale: Tensor) -> Density:
    """−(ν + 1)/2 · log(1 + z²/ν) and its constant by Stirling's formula."""
    log_scale, a = torch.log(scale), df / 2
    constant = a * torch.log1p(0.5 / a) - 0.5 + binet(a + 0.5) - binet(a) - LOG_2PI / 2 - log_scale

    def log_prob(x: Point) -> Tensor:
        return constant - (df + 1) / 2 * softplus(2 * x.log_distance(loc, log_scale) - torch.log(df))

    return on_line(loc, log_scale, log_prob, power(df), power(df))


@family(Cauchy, "loc", "scale")
def cauchy(loc: Tensor, scale: Tensor) -> Density:
    """−log(1 + z²) − log πγ, z = (x − μ)/γ."""
    log_scale = torch.log(scale)

    def log_prob(x: Point) -> Tensor:
        return -softplus(2 * x.log_distance(loc, log_scale)) - log_scale - math.log(math.pi)

    return on_line(loc, log_scale, log_prob, power(1.0), power(1.0))


@family(HalfCauchy, "scale")
def half_cauchy(scale: Tensor) -> Density:
    """−log(1 + z²) − log(πγ/2), z = x/γ."""
    log_scale = torch.log(scale)

    def log_prob(x: Point) -> Tensor:
        return -softplus(2 * x.log_distance(0.0, log_scale)) - log_scale - math.log(math.pi / 2)

    return above_zero(log_scale, 1.0, log_prob, power(1.0), power(1.0))
