"""KL(Weibull ‖ q). −log of a Weibull(λ, k) is a Gumbel(−log λ, 1/k). Called by `pairs.dispatch`."""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch import distributions as d
from torch.distributions import Weibull

from kullback.kernels.pair_ops import PairOp
from kullback.pairs.closed.gumbel import gumbel_by_ratio
from kullback.pairs.moments import EULER, LogMoments, register_moments
from kullback.pairs.parameters import read
from kullback.pairs.ratios import log_ratio
from kullback.pairs.registry import register
from kullback.special import lgamma_bregman

_SHAPE = 0.5 * math.log(2 * math.pi * math.e) - EULER - 1


@register(
    Weibull, Weibull, source="that of the Gumbels of −log x: φ(L) + log Γ(r) + γ(r−1), r = k_q/k_p", finished=True
)
def kl_weibull_weibull(p: Weibull, q: Weibull) -> Tensor:
    """See `_weibull_weibull`."""
    return weibull_op(p.scale, p.concentration, q.scale, q.concentration)


def _weibull_weibull(scale_p: Tensor, k_p: Tensor, scale_q: Tensor, k_q: Tensor) -> Tensor:
    """The scales of the Gumbels are 1/k, their locations −log λ."""
    return gumbel_by_ratio(k_q / k_p, (k_q - k_p) / k_p, k_q * log_ratio(scale_p, scale_q))


weibull_op = PairOp("weibull", _weibull_weibull, arguments=("scale_p", "k_p", "scale_q", "k_q"))


def weibull_moments(p: Weibull) -> LogMoments:
    """A(c) = log Γ(1 + c/k) + γ·c/k; infinite for c ≤ −k."""
    scale, k = read(p, "scale", "concentration")

    def jensen(c: Tensor) -> tuple[Tensor, Tensor]:
        infinite = c <= -k
        end = 1 + torch.where(infinite, 1.0, c) / k
        return lgamma_bregman(torch.ones_like(end), end), infinite

    return LogMoments(torch.log(scale) - EULER / k, k * k, _SHAPE, jensen)


register_moments(
    Weibull,
    weibull_moments,
    "E xᶜ = λᶜ·Γ(1+c/k), κ = k², N = ½log(2π/e) − γ",
    [d.InverseGamma],
)
