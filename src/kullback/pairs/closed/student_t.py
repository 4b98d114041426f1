"""KL(StudentT ‖ q). Called by `pairs.dispatch`."""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.distributions import Normal, StudentT

from kullback.pairs.moments import kl_to_normal
from kullback.pairs.parameters import read
from kullback.pairs.registry import register
from kullback.special import binet, log1pmx


@register(StudentT, Normal, source="J(ν) + KL(Normal of the same moments ‖ q); infinite if ν ≤ 2")
def kl_student_t_normal(p: StudentT, q: Normal) -> Tensor:
    """The variance is σ²·ν/(ν−2)."""
    df, loc, scale = read(p, "df", "loc", "scale")
    infinite = df <= 2
    df = torch.where(infinite, 3.0, df)
    sd = scale * torch.sqrt(df / (df - 2))
    return torch.where(infinite, math.inf, kl_to_normal(_negentropy(df), sd, loc, *read(q, "loc", "scale")))


def _negentropy(df: Tensor) -> Tensor:
    """J = ½log(ν/(ν−2)) − ½/ν + f(x) − (x+½)·f′(x), f(x) = log[Γ(x+½)/(Γ(x)√x)], x = ν/2; about ¾/ν².

    By Stirling's formula f = x·(log(1 + ½/x) − ½/x) + R(x+½) − R(x), R Binet's remainder.
    """
    x = df / 2
    step = log1pmx(0.5 / x)
    value = x * step + (binet(x + 0.5) - binet(x))
    slope = step + 0.25 / (x * (x + 0.5)) + (binet(x + 0.5, 1) - binet(x, 1))
    return torch.log1p(2 / (df - 2)) / 2 - 0.5 / df + value - (x + 0.5) * slope
