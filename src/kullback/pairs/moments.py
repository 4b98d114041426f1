"""KL(p ‖ Normal) from two moments, for every p that has them.

The Gaussian with p's own mean and variance is the closest one, and the distance splits exactly:

    KL(p ‖ N(μ, σ)) = J(p) + ½φ(2·log(s/σ)) + ½(d/σ)²,    φ(x) = eˣ − 1 − x,  s = sd_p,  d = mean_p − μ,

where the negentropy J(p) = ½·log(2πe·var_p) − H(p) ≥ 0 does not depend on location or scale. No term is negative. The
derivatives are (s² − σ²)/(sσ²), d/σ² and −(s² + d² − σ²)/σ³. Next to the closest Gaussian the first two vanish, and the
third wherever d² + s² is close to σ², so that the moments come with what their roundings lost.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.distributions import Normal

from kullback._core.special._derivatives import attach, split_point
from kullback._core.special._double_double import Pair, minus, plus, rounded, times, two_product
from kullback.pairs.parameters import read
from kullback.pairs.ratios import log_ratio
from kullback.special import expm1mx

# Squares beyond these are not added up.
_SMALL, _LARGE = 1e-280, 1e280


def kl_to_normal(negentropy: Tensor | float, sd: Pair, offset: Pair, q: Normal) -> Tensor:
    """KL of a law with this negentropy and standard deviation, its mean `offset` above q's location.

    Both moments are differentiable numbers with the rounding they lack, which is not.
    """
    (scale,) = read(q, "scale")
    zero = torch.zeros_like(sd[0] + offset[0] + scale)
    (s, s_step), (d, d_step), (t, t_step) = (split_point(x + zero) for x in (sd[0], offset[0], scale))
    s_low, d_low = (torch.where(low.isfinite(), low, 0.0).detach() + zero.detach() for low in (sd[1], offset[1]))
    relative = ((s - t) + s_low) / t
    near = relative.abs() < 0.5
    relative = torch.where(near, relative, 0.0)
    log_scales = torch.where(near, torch.log1p(relative), log_ratio(s, t))
    ratio = s / t
    wider = torch.where(near, relative * (2 + relative), ratio * ratio - 1)
    z = (d + d_low) / t
    value = (expm1mx(2 * log_scales) + z * z) / 2
    squares = minus(plus(times((s, s_low), (s, s_low)), times((d, d_low), (d, d_low))), two_product(t, t))
    usual = (t * t > _SMALL) & (s * s + d * d < _LARGE) & (t * t < _LARGE)
    excess = torch.where(usual, rounded(squares) / t / t, wider + z * z)
    first = (wider / s, z / t, -excess / t)
    second = (
        1 / t / t + 1 / s / s,
        zero.detach(),
        -2 * ratio / t / t,
        1 / t / t,
        -2 * z / t / t,
        (3 * (ratio * ratio + z * z) - 1) / t / t,
    )
    return negentropy + attach(value, [s_step, d_step, t_step], first, second)


def known_to(plain: Tensor, better: Pair) -> Pair:
    """A differentiable number with what it lacks of a better one."""
    return plain, ((better[0] - plain) + better[1]).detach()


def exact(x: Tensor) -> Pair:
    """A number that lacks nothing."""
    return x, torch.zeros_like(x)


def multiple(x: Tensor, factor: tuple[float, float]) -> Pair:
    """X times a constant, which is given by its leading digits and by those that follow."""
    _, low = two_product(x.detach(), torch.full_like(x, factor[0]).detach())
    return factor[0] * x, low + factor[1] * x.detach()
