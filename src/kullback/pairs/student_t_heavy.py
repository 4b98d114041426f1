r"""KL(StudentT ‖ StudentT) for few degrees of freedom of p: panels that follow both laws however far they are apart.

With (x − μ_p)/σ_p = √ν_p·sinh w, p is proportional to cosh(w)^(−ν_p). Let ε = σ_q√ν_q/(σ_p√ν_p), δ the distance of the
locations over σ_p√ν_p, and own = E[2·log cosh w]. Then with F(ν) = log Γ((ν+1)/2) − log Γ(ν/2), F'(ν_p) = own/2,

    KL = F(ν_p) − F(ν_q) − (ν_p − ν_q)·F'(ν_p) − ν_q·log ε + (ν_q+1)/2·E[D],  D = log{[ε² + (sinh w − δ)²]/cosh² w},

where D vanishes for w → ±∞: tiny ν_p, whose w is of the order 1/ν_p, cost no digit. For ν_q > 2 the terms in ν_q could
cancel, and E log(1 + (sinh w − δ)²/ε²) is taken as it is. The integrands are singular at sinh w = δ ± iε and bend at
asinh ε.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from kullback.integrate.gauss_kronrod import panels
from kullback.pairs.gamma_half_step import half_step_difference, half_step_slope, log_half_step
from kullback.pairs.ratios import log_ratio

# Above so many degrees of freedom of q nothing is split off its logarithm.
_LIGHT = 2.0
# e^(−40)/(ν_q + 1) of p's mass is left out.
_REACH = 40.0
# Degrees of freedom of p below which these panels are used; for a q with more than _MANY of its own, sooner.
_FEW, _FEW_FOR_MANY, _MANY = 0.5, 2.5, 1e4
# The smallest step beside the centre, and the log(ε/cosh) of a q that such steps do not follow.
_FINEST, _NARROW = 1e-13, -27.0
# Where |log ε| is larger the laws are apart whatever the divergence is.
_APART = 0.5


def is_heavy(df_p: Tensor, df_q: Tensor) -> Tensor:
    """Where p's tails decide, so that its logarithm must be followed far out."""
    return (df_p < _FEW) | ((df_p < _FEW_FOR_MANY) & (df_q > _MANY))


def scales_apart(df_p: Tensor, df_q: Tensor, log_scales: Tensor) -> Tensor:
    """Where ε is far from 1."""
    return ((torch.log(df_q) - torch.log(df_p)) / 2 - log_scales).abs() > _APART


def by_panels(df_p: Tensor, df_q: Tensor, log_scales: Tensor, shift: Tensor) -> tuple[Tensor, Tensor]:
    """The divergence and its error estimate; log_scales is log(σ_p/σ_q), shift (μ_p − μ_q)/σ_p."""
    log_epsilon = log_ratio(df_q, df_p) / 2 - log_scales
    delta = shift.abs() / df_p.sqrt()
    light = df_q.detach() > _LIGHT
    # The derivative of D to δ has a pole on either side of sinh w = δ. Where q is too narrow for the nodes to follow
    # it, they move with δ, and it falls on the density instead.
    narrow = log_epsilon.detach() - torch.asinh(delta.detach()) < _NARROW
    anchor = torch.where(narrow, delta, delta.detach())
    step, centre, kronrod, gauss = _nodes(df_p.detach(), df_q.detach(), log_epsilon.detach(), anchor)
    terms = _terms(step, centre, *(x.unsqueeze(-1) for x in (df_p, log_epsilon, delta, anchor, light)))
    fine, coarse = ((weight * terms).sum(-1) for weight in (kronrod, gauss))
    own = half_step_slope(df_p / 2) + 1 / df_p
    normaliser = half_step_difference(df_p / 2, df_q / 2)
    direct = -normaliser - log_scales - (df_p + 1) / 2 * own
    gap = torch.where(light, 0.0, df_q - df_p)
    split = -normaliser - log_ratio(df_q, df_p) / 2 + gap / 2 * own - torch.where(light, 0.0, df_q * log_epsilon)
    value = torch.where(light, direct, split) + (df_q + 1) / 2 * fine
    return value, (df_q + 1) / 2 * (fine - coarse).detach().abs()


def _terms(step: Tensor, centre: Tensor, *given: Tensor) -> Tensor:
    """Density times D, or the whole logarithm, at w = ±(centre + step), both signs together.

    Everything is divided by cosh w: t = tanh w, d = δ/cosh w, v = ε/cosh w. The product for both signs is

        [v² + (t−d)²]·[v² + (t+d)²] = (v² + t² − d²)² + (2vd)²,

    a function of δ², so that its slope is as small as δ. Where w is close to asinh δ the factor t − d of t² − d² is
    taken from the step.
    """
    df, log_epsilon, delta, anchor, light = given
    w = centre + step
    fall = torch.exp(-2 * w)
    sech, tanh = 2 * torch.exp(-w) / (1 + fall), -torch.expm1(-2 * w) / (1 + fall)
    level = 2 * (w + torch.log1p(fall) - math.log(2))
    log_constant = log_half_step(df / 2) + torch.log(df / (2 * math.pi)) / 2
    density = torch.exp(log_constant - df / 2 * level)
    epsilon, aside = torch.exp(log_epsilon), delta * sech
    near = (step.abs() < 1) & ((centre > 0) | (anchor < 1))
    inner = torch.where(near, step, 0.0)
    close = torch.sinh(inner / 2) * torch.cosh(torch.where(near, centre, 0.0) + inner / 2) * 2 * sech
    toward, away = torch.where(near, close, tanh - anchor * sech), tanh + anchor * sech
    squares = toward * away - (delta * delta - anchor * anchor) * sech * sech
    wide = epsilon * sech
    real, imaginary = wide * wide + squares, 2 * wide * aside
    ahead = real.detach().abs() > imaginary.detach()
    large, small = torch.where(ahead, real.abs(), imaginary), torch.where(ahead, imaginary, real)
    log_product = 2 * torch.log(large) + torch.log1p((small / large).square())
    change = (epsilon * epsilon - 1 + delta * delta) * sech * sech
    change = 2 * change + change * change - 4 * (aside * tanh).square()
    slight = change.detach().abs() < 0.5
    split = torch.where(slight, torch.log1p(torch.where(slight, change, 0.0)), log_product)
    # Far out cosh w overflows, and the logarithm of the ratio is the difference of the logarithms.
    within = (tanh + aside).detach() < wide.detach()
    unit = torch.where(within, wide, 1.0)
    ratio = torch.where(within, 2 * (tanh * tanh + aside * aside) + (squares / unit).square(), 0.0) / unit / unit
    whole = torch.where(within, torch.log1p(ratio), log_product + 2 * (level - 2 * log_epsilon))
    return density * torch.where(light, whole, split)


def _nodes(df: Tensor, df_q: Tensor, log_epsilon: Tensor, delta: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Steps from the centre asinh δ, the centre, and two sets of weights, for w ≥ 0."""
    centre = torch.asinh(delta)
    end = (_REACH + torch.log1p(df_q)) / df + 1
    centre = torch.where(centre > end, 0.0, centre)
    bend = torch.maximum(centre + 1, torch.asinh(torch.exp(log_epsilon)) + 2)
    last = torch.maximum(torch.minimum(bend, end), centre + torch.minimum(end - centre, torch.ones_like(end)))
    first = torch.minimum(centre + 1, last)
    unit = (torch.exp(log_epsilon) / torch.cosh(centre)).detach().clamp(_FINEST, 1.0)
    one = torch.ones_like(unit)
    half = (last - first) / 2
    pieces = [
        _graded(centre, first, unit, 12),
        _graded(first, first + half, one, 6),
        _graded(last, first + half, one, 6),
        _graded(last, end, one, 8),
        _graded(centre, centre / 2, unit, 12),
        _graded(torch.zeros_like(centre), centre / 2, one, 6),
    ]
    starts = (centre, first, last, last, centre, torch.zeros_like(centre))
    steps = [piece[0] + (start - centre).unsqueeze(-1) for piece, start in zip(pieces, starts, strict=True)]
    kronrod, gauss = (torch.cat([piece[i] for piece in pieces], -1) for i in (1, 2))
    return torch.cat(steps, -1), centre.unsqueeze(-1), kronrod, gauss


def _graded(start: Tensor, end: Tensor, unit: Tensor, count: int) -> tuple[Tensor, Tensor, Tensor]:
    """Distances from `start` towards `end` with Kronrod's and Gauss's weights, growing from steps of size `unit`."""
    u, *weights = panels(torch.zeros_like(start), torch.asinh((end - start).abs() / unit), count)
    side, scale = torch.sign(end - start).unsqueeze(-1), unit.unsqueeze(-1)
    kronrod, gauss = (weight * scale * torch.cosh(u) for weight in weights)
    return side * scale * torch.sinh(u), kronrod, gauss
