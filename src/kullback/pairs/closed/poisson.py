"""KL(Poisson ‖ q). A rate of 0 is allowed: all mass at 0. Called by `pairs.dispatch`."""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.distributions import Bernoulli, Binomial, Poisson

from kullback.densities.parameters import log_outcomes
from kullback.kernels.pair_ops import PairOp
from kullback.pairs.parameters import read
from kullback.pairs.registry import register
from kullback.special import kl_div


@register(Poisson, Poisson, source="λ_p log(λ_p/λ_q) − λ_p + λ_q", finished=True)
def kl_poisson_poisson(p: Poisson, q: Poisson) -> Tensor:
    """The generalised divergence of the rates."""
    return poisson_op(p.rate, q.rate)


poisson_op = PairOp("poisson", kl_div, arguments=("rate_p", "rate_q"))


@register(
    Poisson,
    Bernoulli,
    source="−log q(0) at rate 0, else infinite",
    decides_support=True,
)
def kl_poisson_bernoulli(p: Poisson, q: Bernoulli) -> Tensor:
    """Unless its rate is 0, a Poisson exceeds 1 with positive probability."""
    (rate,) = read(p, "rate")
    return torch.where(rate == 0, -log_outcomes(q)[1], math.inf)


@register(
    Poisson,
    Binomial,
    source="−log q(0) at rate 0, else infinite",
    decides_support=True,
)
def kl_poisson_binomial(p: Poisson, q: Binomial) -> Tensor:
    """Unless its rate is 0, a Poisson exceeds any count with positive probability."""
    (rate,), (count,) = read(p, "rate"), read(q, "total_count")
    loss = -log_outcomes(q)[1]
    return torch.where(rate == 0, torch.where(count == 0, 0.0, count * torch.where(count == 0, 0.0, loss)), math.inf)
