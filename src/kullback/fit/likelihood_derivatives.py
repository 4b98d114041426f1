"""−E log q with its gradient and Hessian by formulas, for families without a simpler equation. Called by `forward.py`.

Each needs few means over the data: derivatives by backpropagation would pass over the data once per parameter.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from kullback.fit.families import INFINITE, Coordinates
from kullback.fit.newton import Derivatives
from kullback.fit.one_or_many import Number, apply, exp, log, means, number, trigamma

_Parts = tuple[Number, list[Number], list[list[Number]]]


def derivative_formulas(coordinates: Coordinates, x: Tensor, w: Tensor) -> Derivatives | None:
    """U ↦ (value, gradient, Hessian) of −Σ wᵢ log q(xᵢ; u) in these coordinates, or None if there are no formulas."""
    family = coordinates.family
    if family.fixed or family.components > 1 or not family.is_torch_family():
        return None
    if family.name == "StudentT":
        return lambda u: _tensors(_student_t(u, x, w), u[:, :1])
    if family.name == "FisherSnedecor":
        (mean_log,) = means(w, x.log())
        return lambda u: _tensors(_fisher_snedecor(u, x, w, mean_log), u)
    return None


def _tensors(parts: _Parts, degrees: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Minus everything, as tensors; +inf where the degrees of freedom have left for infinity."""
    value, gradient, hessian = parts
    if isinstance(value, Tensor):
        rows = torch.stack([torch.stack(row, dim=-1) for row in hessian], dim=-2)
        inside = (degrees < math.log(INFINITE)).all(-1)
        return torch.where(inside, -value, torch.inf), -torch.stack(gradient, dim=-1), -rows
    if degrees.max().item() >= math.log(INFINITE):
        value = -math.inf
    scalar, vector, matrix = (torch.tensor([part], dtype=torch.float64) for part in (value, gradient, hessian))
    return -scalar, -vector, -matrix


def _student_t(u: Tensor, x: Tensor, w: Tensor) -> _Parts:
    """Coordinates log ν, μ, log σ. With s = z²/ν and r = 1/(1 + s) all derivatives are means of r, r², zr, zr²."""
    log_df, loc, log_scale = (number(each) for each in u.unbind(-1))
    df, scale = exp(log_df), exp(log_scale)
    z = (x - loc).div_(scale)
    s = z.square().div_(df)
    r = (s + 1).reciprocal_()
    (mean_log,), (mean_r,) = means(w, s.log1p_()), means(w, r)
    (mean_zr,), (mean_zr2,) = means(w, z.mul_(r)), means(w, z.mul_(r))
    spread = mean_r - means(w, r.square_())[0]  # E[s r²]
    half, rest = (df + 1) / 2, 1 - mean_r  # rest = E[s r]
    unit = 2 / (df * scale)
    log_gammas, digammas, trigammas = (apply(f, [half, df / 2]) for f in (torch.lgamma, torch.digamma, trigamma))
    constant = log_gammas[0] - log_gammas[1] - 0.5 * log_df - 0.5 * math.log(math.pi)
    slope = 0.5 * df * (digammas[0] - digammas[1]) - 0.5
    bend = 0.25 * df * df * (trigammas[0] - trigammas[1]) + 0.5
    df_loc = df / 2 * unit * mean_zr - half * unit * mean_zr2
    df_scale = df * rest - 2 * half * spread
    loc_scale = -2 * half * unit * mean_zr2
    hessian = [
        [slope + bend - df / 2 * mean_log + df * rest - half * spread, df_loc, df_scale],
        [df_loc, half * unit / scale * (2 * spread - mean_r), loc_scale],
        [df_scale, loc_scale, -4 * half * spread],
    ]
    gradient = [slope - df / 2 * mean_log + half * rest, half * unit * mean_zr, 2 * half * rest - 1]
    return constant - log_scale - half * mean_log, gradient, hessian


def _fisher_snedecor(u: Tensor, x: Tensor, w: Tensor, mean_log: Number) -> _Parts:
    """Coordinates log df1, log df2. With t = x·df1/df2, r = 1/(1 + t): means of log(1 + t), r and r²."""
    a, b = (number(each) for each in (u - math.log(2)).exp().unbind(-1))
    total, log_ratio = a + b, log(a / b)
    t = x * (a / b)
    r = (t + 1).reciprocal_()
    (mean_log1p,), (mean_r,) = means(w, t.log1p_()), means(w, r)
    spread, rest = mean_r - means(w, r.square_())[0], 1 - mean_r
    log_gammas, digammas, trigammas = (apply(f, [total, a, b]) for f in (torch.lgamma, torch.digamma, trigamma))
    normaliser = log_gammas[0] - log_gammas[1] - log_gammas[2]
    pull_a = a * (log_ratio + 1 + mean_log - mean_log1p + digammas[0] - digammas[1])
    pull_b = b * (digammas[0] - digammas[2] - mean_log1p)
    cross = -a + (a - b) * rest + total * spread + a * b * trigammas[0]
    hessian = [
        [pull_a + a * (mean_r - rest) - total * spread + a * a * (trigammas[0] - trigammas[1]), cross],
        [cross, pull_b + 2 * b * rest - total * spread + b * b * (trigammas[0] - trigammas[2])],
    ]
    value = a * log_ratio + (a - 1) * mean_log - total * mean_log1p + normaliser
    return value, [pull_a - total * rest, pull_b - a + total * rest], hessian
