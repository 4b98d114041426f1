"""KL(Normal ‖ StudentT) and KL(Normal ‖ Cauchy): Gaussian expectations of the logarithm of a heavy tail.

With x = μ_p + σ_p·z, Q = ((x − μ_q)/σ_q)², ν degrees of freedom and f(ν) the logarithm of q's normaliser relative to a
Gaussian's,

    log q/p = f(ν) − log(σ_q/σ_p) − T,    T = (ν+1)/2·log(1 + Q/ν) − z²/2,    KL = −E log q/p.

Where q is nearly Gaussian itself, T = (Q − z²)/2 + ν/2·log1pmx(Q/ν) + ½·log(1 + Q/ν) has only small terms, and KL is
E φ(log q/p), φ(x) = eˣ − 1 − x. T is singular at the points z where Q = −ν, a distance σ_q√ν/σ_p from the real axis:
the panels of the integral shrink towards them.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.distributions import Cauchy, Normal, StudentT

from kullback.integrate.gauss_kronrod import panels
from kullback.kernels.pointwise import Pointwise
from kullback.pairs.gamma_half_step import log_half_step
from kullback.pairs.parameters import read
from kullback.pairs.programs_first import programs_first
from kullback.pairs.ratios import log_ratio
from kullback.pairs.registry import register
from kullback.pairs.second_order import keeps_digits
from kullback.pairs.visible import hidden, surely
from kullback.special import expm1mx, log1pmx

# Beyond this |z| a Gaussian has e^(−46) of its mass.
_REACH = 9.6
# Panels towards the singular points; asinh(10¹³) is 12 times 2.56.
_GRADED, _LONGEST = 12, 2.56
# Relative to the size of the terms: 6e-14 was seen for a scale ratio of 1e8, whose kink lies between close nodes.
_ROUNDING = 1e-13
# Of log q/p, in the same unit.
_ROUNDED_RATIO = 0.05


@register(
    Normal,
    StudentT,
    method="integral",
    source="log(σ_q/σ_p) − f(ν) + E[(ν+1)/2·log(1 + Q/ν) − z²/2]; near equality E φ(log q/p)",
)
@programs_first
def kl_normal_student_t(p: Normal, q: StudentT) -> tuple[Tensor, Tensor]:
    """See the head of this file."""
    return _divergence(*read(p, "loc", "scale"), *read(q, "loc", "scale", "df"))


@register(Normal, Cauchy, method="integral", source="a Cauchy is a StudentT of one degree of freedom")
@programs_first
def kl_normal_cauchy(p: Normal, q: Cauchy) -> tuple[Tensor, Tensor]:
    """See KL(Normal ‖ StudentT)."""
    loc_p, scale_p = read(p, "loc", "scale")
    loc_q, scale_q = read(q, "loc", "scale")
    return _divergence(loc_p, scale_p, loc_q, scale_q, torch.ones_like(scale_q))


def _divergence(loc_p: Tensor, scale_p: Tensor, loc_q: Tensor, scale_q: Tensor, df: Tensor) -> tuple[Tensor, Tensor]:
    ratio, rise = scale_p / scale_q, (scale_p - scale_q) / scale_q
    given = log_ratio(scale_p, scale_q), ratio, rise, (loc_p - loc_q) / scale_q, df
    log_scales, ratio, rise, shift, df = torch.broadcast_tensors(*given)  # type: ignore[no-untyped-call]
    constant = log_half_step(df / 2) + log_scales
    # Both signs of z − c as both signs of the shift: at equal locations the gradient to them is then exactly 0.
    sides = torch.stack([shift, -shift], -1)
    each = [value.unsqueeze(-1) + torch.zeros_like(sides) for value in (ratio, rise, df, constant)]
    ratios, rises, dfs, constants = each
    exact = (-sides / ratios).detach()
    centre = exact.clamp(-_REACH, _REACH)
    # Side by side, as a vectorised sinh may round the same number differently elsewhere in a tensor.
    distances = (dfs.sqrt() / ratios).detach()
    count = _graded_count(torch.asinh(1 / distances.clamp(1e-13, 1.0)))
    halves = [_steps(c, d, count) for c, d in zip(centre.unbind(-1), distances.unbind(-1), strict=True)]
    steps, kronrod, gauss = (torch.stack(half, -2) for half in zip(*halves, strict=True))
    z = centre.unsqueeze(-1) + steps
    # The root of Q at the centre, 0 by its definition: adding the steps to it, not to c, keeps their digits beside a
    # singular point that is closer than eps·c. Its derivatives are those of ratio·c + shift.
    lean = (ratios - ratios.detach()) * centre + (sides - sides.detach())
    lean = torch.where(centre == exact, lean, ratios * centre + sides)
    columns = [value.unsqueeze(-1) for value in (lean, ratios, rises, sides, dfs)]
    tilt = _weighted_tilt(z, steps, *columns)

    def total(terms: Tensor) -> Tensor:
        return terms.sum(-1).sum(-1)

    far = total(kronrod * tilt) - constant
    with torch.no_grad():
        coarse = total(gauss * tilt) - constant
        size = total(kronrod * tilt.abs()) + log_half_step(df / 2).abs() + log_scales.abs()
    apart = keeps_digits(far, size)
    value, error = far, (far - coarse).detach().abs()
    if not surely(apart):
        skipped = apart.to(z.dtype)[..., None, None].expand_as(z[..., :1])
        second = _weighted_rest(z, steps, *columns, constants.unsqueeze(-1), skipped)
        value = torch.where(apart, far, total(kronrod * second))
        error = torch.where(apart, error, total((kronrod - gauss) * second).detach().abs())
    # What the terms round off does not show in the difference of the two rules; near equality it is log q/p that is
    # rounded, and the slope of φ there is about √(2·KL).
    rounded = value + _ROUNDED_RATIO * value.detach().clamp_min(0.0).sqrt()
    return value, error + _ROUNDING * torch.where(apart, size, rounded).detach()


def _tilt(z: Tensor, step: Tensor, *given: Tensor) -> Tensor:
    """T of the module's formula; ratio is σ_p/σ_q, rise σ_p/σ_q − 1, shift (μ_p − μ_q)/σ_q, √Q = ratio·step + lean."""
    lean, ratio, rise, shift, df = given
    root = ratio * step + lean
    relative = root * (root / df)
    flat = relative < 0.5
    # Q − z² as a product: of squares 10²⁶ in size nothing would be left beside a narrow q.
    excess = torch.where(ratio < 2, rise * z + shift, root - z) * (root + z)
    near = torch.where(flat, relative, 0.0)
    close = excess / 2 + df / 2 * log1pmx(near) + torch.log1p(near) / 2
    return torch.where(flat, close, (df + 1) / 2 * torch.log1p(torch.where(flat, 0.0, relative)) - z * z / 2)


def _graded_count(reach: Tensor) -> int:
    """So many panels that none is longer than those of the longest reach there is."""
    if hidden() or not reach.numel():
        return _GRADED
    return min(max(math.ceil(float(reach.nan_to_num(0.0).max()) / _LONGEST), 2), _GRADED)


@Pointwise
def _weighted_tilt(z: Tensor, *given: Tensor) -> Tensor:
    """T under the Gaussian's density."""
    return torch.exp(-z * z / 2) / math.sqrt(2 * math.pi) * _tilt(z, *given)


@Pointwise
def _weighted_rest(z: Tensor, *given: Tensor) -> Tensor:
    """φ(log q/p) under the Gaussian's density; 0 where it is skipped."""
    *law, constant, skipped = given
    log_q_over_p = torch.where(skipped != 0, 0.0, constant - _tilt(z, *law))
    return torch.exp(-z * z / 2) / math.sqrt(2 * math.pi) * expm1mx(log_q_over_p)


def _steps(centre: Tensor, distance: Tensor, count: int) -> tuple[Tensor, Tensor, Tensor]:
    """Nodes of z less c, the singular points' real part, and two sets of weights: graded within 1 of it, then even."""
    unit, length = distance.clamp(1e-13, 1.0), _REACH - centre
    inner = length.clamp_max(1.0)
    reach = torch.asinh(inner / unit)
    u, *weights = panels(torch.zeros_like(centre), reach, count)
    slope = unit.unsqueeze(-1) * torch.cosh(u)
    v, *even = panels(inner, length, 7)
    kronrod, gauss = (torch.cat([graded * slope, flat], -1) for graded, flat in zip(weights, even, strict=True))
    return torch.cat([unit.unsqueeze(-1) * torch.sinh(u), v], -1), kronrod, gauss
