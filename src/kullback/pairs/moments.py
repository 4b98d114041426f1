"""KL(p ‖ q) from moments of p, for q whose −log density is a sum of them; the files in `closed/` call it.

The divergence splits at the closest member of q's family, so that every term is non-negative: with φ(x) = eˣ − 1 − x,

    ‖ Normal(μ, σ):    J + ½φ(2·log(s/σ)) + ½((m − μ)/σ)²,   s and m the deviation and mean of p;
    ‖ Laplace(μ, b):   φ(log(t/b)) + 1 + log 2t − H(p),      t = E|x − μ|,

where J = ½log(2πe·s²) − H(p) is the negentropy.
"""

from __future__ import annotations

from torch import Tensor

from kullback.special import expm1mx, kl_div

EULER = 0.5772156649015329
_OVERFLOWING_LOG = 709.7828  # the exponential of a little less is the largest double


def kl_to_normal(negentropy: Tensor | float, sd: Tensor, mean: Tensor, loc: Tensor, scale: Tensor) -> Tensor:
    """KL(p ‖ Normal(loc, scale)) of a p with this negentropy, standard deviation and mean."""
    wider = (sd - scale) / scale
    offset = (mean - loc) / scale
    return negentropy + kl_div(scale, sd) / scale + (wider * wider + offset * offset) / 2


def phi_of_log_mean(log_mean: Tensor) -> Tensor:
    """φ of the logarithm of an expectation; infinite, without a slope, where the expectation overflows."""
    return expm1mx(log_mean.clamp_max(_OVERFLOWING_LOG))
