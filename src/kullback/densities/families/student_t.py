"""Student's density for integrals; `registry` finds it."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.distributions import StudentT

from kullback.densities.describe import LOG_2PI, Density, Point, binet, family, on_line, power, softplus


@family(StudentT, "df", "loc", "scale")
def student_t(df: Tensor, loc: Tensor, scale: Tensor) -> Density:
    """−(ν + 1)/2 · log(1 + z²/ν) and its constant by Stirling's formula."""
    log_scale, a = torch.log(scale), df / 2
    constant = a * torch.log1p(0.5 / a) - 0.5 + binet(a + 0.5) - binet(a) - LOG_2PI / 2 - log_scale

    def log_prob(x: Point) -> Tensor:
        return constant - (df + 1) / 2 * softplus(2 * x.log_distance(loc, log_scale) - torch.log(df))

    return on_line(loc, log_scale, log_prob, power(df), power(df))
