"""VonMises on (−π, π) for integrals; `registry` finds it."""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.distributions import VonMises

from kullback.densities import LOG_2PI, Density, Logit, Point, centred, family, power


@family(VonMises, "loc", "concentration")
def von_mises(loc: Tensor, concentration: Tensor) -> Density:
    """−2κ sin²((x − μ)/2) − log 2π I₀(κ)e^(−κ); the mark of the nearest period beyond an end counts, too."""
    k = concentration
    constant = -LOG_2PI - torch.log(torch.special.i0e(k))
    log_width = -torch.log(k.clamp_min(1.0)) / 2
    inner = loc - 2 * math.pi * torch.round(loc.detach() / (2 * math.pi))
    beyond = torch.where(inner > 0, inner - 2 * math.pi, inner + 2 * math.pi)
    zero = torch.zeros_like(k)

    def log_prob(x: Point) -> Tensor:
        return constant - 2 * k * torch.sin(x.z(inner, zero) / 2) ** 2

    coordinate = Logit(-math.pi, math.pi, torch.full_like(k, math.log(2 * math.pi)))
    # A mark on an end has no coordinate, and one that moves beside it moves fast, which costs the gradient digits.
    width = torch.exp(log_width.detach())
    most = math.pi - width / 8
    mode = torch.maximum(torch.minimum(inner.detach(), most), -most)
    marks = centred(mode, log_width), centred(beyond, log_width)
    return Density(-math.pi, math.pi, coordinate, log_prob, marks, (power(1.0), power(1.0)))
