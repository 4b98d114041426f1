"""KL(Gumbel ‖ q)."""

from __future__ import annotations

import math

from torch import Tensor
from torch.distributions import Gumbel, Normal

from kullback._core.special._double_double import plus, two_difference
from kullback.pairs.lgamma_near_one import EULER, bregman_from_one, lgamma_above
from kullback.pairs.moments import kl_to_normal, multiple
from kullback.pairs.parameters import read
from kullback.pairs.products import settled
from kullback.pairs.registry import register
from kullback.special import expm1mx

_NEGENTROPY = 0.5 * math.log(2 * math.pi * math.e * math.pi**2 / 6) - EULER - 1
# γ and π/√6, each with what follows its double.
_EULER = (0.5772156649015329, -4.942915152430645e-18)
_PI_OVER_ROOT_6 = (1.282549830161864, 1.6029947261005143e-17)


@register(Gumbel, Gumbel, source="φ(log Γ(1+r) − Δμ/β_q) + log Γ(r) + γ(r−1), r = β_p/β_q")
def kl_gumbel_gumbel(p: Gumbel, q: Gumbel) -> Tensor:
    """Ratio and difference of the scales are both given, since one does not determine the other near equality."""
    loc_p, scale_p = read(p, "loc", "scale")
    loc_q, scale_q = read(q, "loc", "scale")
    return gumbel_gumbel(scale_p / scale_q, (scale_p - scale_q) / scale_q, (loc_q - loc_p) / scale_q)


@register(Gumbel, Normal, source="½log(π³/3) − ½ − γ + KL(Normal of the same moments ‖ q)")
def kl_gumbel_normal(p: Gumbel, q: Normal) -> Tensor:
    """Mean μ + γβ, variance (πβ)²/6."""
    loc, scale = read(p, "loc", "scale")
    offset = plus(two_difference(loc, read(q, "loc")[0]), multiple(scale, _EULER))
    return kl_to_normal(_NEGENTROPY, multiple(scale, _PI_OVER_ROOT_6), offset, q)


def gumbel_gumbel(r: Tensor, r_less_one: Tensor, shift: Tensor) -> Tensor:
    """KL by the ratio of the scales, its distance from 1, and (μ_q − μ_p)/β_q; a logarithm of a Weibull is a Gumbel.

    E e^(−z) = e^L with L = shift + log Γ(1+r); φ(L) and the Bregman divergence log Γ(r) + γ(r−1) are non-negative.
    """
    return settled(expm1mx(shift + lgamma_above(r, r_less_one)) + bregman_from_one(r, r_less_one))
