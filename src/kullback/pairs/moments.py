"""KL(p ‖ Normal) from two moments, for every p that has them.

The Gaussian with p's own mean and variance is the closest one, and the distance splits exactly:

    KL(p ‖ N(μ, σ)) = J(p) + ½φ(2·log(sd_p/σ)) + ½((mean_p − μ)/σ)²,    φ(x) = eˣ − 1 − x,

where the negentropy J(p) = ½·log(2πe·var_p) − H(p) ≥ 0 does not depend on location or scale. No term is negative.
"""

from __future__ import annotations

from torch import Tensor
from torch.distributions import Normal

from kullback.pairs.parameters import read
from kullback.pairs.ratios import log_ratio
from kullback.special import expm1mx


def kl_to_normal(negentropy: Tensor | float, sd: Tensor, offset: Tensor, q: Normal) -> Tensor:
    """KL of a law with this negentropy and standard deviation, its mean `offset` above q's location."""
    (scale,) = read(q, "scale")
    return negentropy + (expm1mx(2 * log_ratio(sd, scale)) + (offset / scale) ** 2) / 2
