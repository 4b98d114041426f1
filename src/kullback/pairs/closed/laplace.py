"""KL(Laplace ‖ q). Called by `pairs.dispatch`."""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.distributions import Gumbel, Laplace, Normal

from kullback._core.special.exp_log import log_ratio
from kullback.densities.parameters import read
from kullback.kernels.pair_ops import PairOp
from kullback.pairs.closed.normal import kl_to_normal
from kullback.pairs.registry import register
from kullback.special import expm1mx, kl_div

_NEGENTROPY = 0.5 * math.log(math.pi) - 0.5


@register(Laplace, Laplace, source="φ(log(b_p/b_q)) + (b_p/b_q)·φ(−δ), δ = |Δμ|/b_p, φ(x) = eˣ − 1 − x", finished=True)
def kl_laplace_laplace(p: Laplace, q: Laplace) -> Tensor:
    """See `_laplace_laplace`."""
    return laplace_op(p.loc, p.scale, q.loc, q.scale)


def _laplace_laplace(loc_p: Tensor, scale_p: Tensor, loc_q: Tensor, scale_q: Tensor) -> Tensor:
    """Neither term is negative. Further apart the textbook form stands, in whose slopes nothing cancels."""
    difference = loc_p - loc_q
    # |x| with slope 1 at 0: the divergence is smooth there, and torch.abs would lose its second derivative.
    distance = torch.where(difference < 0, -difference, difference)
    delta = distance / scale_p
    near = delta < 1
    close = (kl_div(scale_q, scale_p) + scale_p * expm1mx(-torch.where(near, delta, 0.0))) / scale_q
    apart = (distance + scale_p * torch.exp(-delta)) / scale_q - 1 - log_ratio(scale_p, scale_q)
    return torch.where(near, close, apart)


laplace_op = PairOp("laplace", _laplace_laplace, arguments=("loc_p", "scale_p", "loc_q", "scale_q"))


@register(Laplace, Normal, source="½log(π/e) + KL(Normal of the same moments ‖ q)")
def kl_laplace_normal(p: Laplace, q: Normal) -> Tensor:
    """The variance of a Laplace is 2b²."""
    loc, scale = read(p, "loc", "scale")
    return kl_to_normal(_NEGENTROPY, math.sqrt(2) * scale, loc, *read(q, "loc", "scale"))


@register(Laplace, Gumbel, source="φ(L) − log(2t(1 − t²)), L = −Δμ/β − log(1 − t²), t = b/β; infinite if t ≥ 1")
def kl_laplace_gumbel(p: Laplace, q: Gumbel) -> Tensor:
    """E e^(−z) = e^L; the second term has the minimum 0.26 at t = 1/√3."""
    loc_p, scale_p = read(p, "loc", "scale")
    loc_q, scale_q = read(q, "loc", "scale")
    infinite = scale_p >= scale_q
    t = torch.where(infinite, 0.5, scale_p / scale_q)
    log_rest = torch.log(torch.where(infinite, 0.75, (scale_q - scale_p) / scale_q * (1 + t)))
    log_mgf = (loc_q - loc_p) / scale_q - log_rest
    infinite = infinite | (log_mgf > 709)
    value = expm1mx(torch.where(infinite, 0.0, log_mgf)) - log_rest - torch.log(2 * t)
    return torch.where(infinite, math.inf, value)
