"""KL(Pareto ‖ q): infinite where a tail of exponent α lacks the moment that q asks for. Called by `pairs.dispatch`."""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.distributions import Exponential, Gamma, Normal, Pareto

from kullback._core.special.exp_log import log_ratio
from kullback.densities.parameters import read
from kullback.kernels.pair_ops import PairOp
from kullback.pairs.closed.normal import kl_to_normal
from kullback.pairs.registry import register
from kullback.special import binet, kl_div, log1pmx

_SHAPE = 0.5 * math.log(2 * math.pi) - 0.5
_BELOW_ONE = 1 - 2**-53


@register(Pareto, Pareto, source="φ(log(α_q/α_p)) + α_q·log(x_p/x_q); infinite if x_p < x_q", finished=True)
def kl_pareto_pareto(p: Pareto, q: Pareto) -> Tensor:
    """The second term is first order: at equal scales q is about to lose part of p."""
    return pareto_op(p.scale, p.alpha, q.scale, q.alpha)


def _pareto_pareto(scale_p: Tensor, alpha_p: Tensor, scale_q: Tensor, alpha_q: Tensor) -> Tensor:
    value = kl_div(alpha_p, alpha_q) / alpha_p + alpha_q * log_ratio(scale_p, scale_q)
    return torch.where(scale_p < scale_q, math.inf, value)


pareto_op = PairOp("pareto", _pareto_pareto, arguments=("scale_p", "alpha_p", "scale_q", "alpha_q"))


@register(
    Pareto, Exponential, source="log(α/(rate·scale)) + rate·E x − 1 − 1/α, E x = scale·α/(α−1); infinite if α ≤ 1"
)
def kl_pareto_exponential(p: Pareto, q: Exponential) -> Tensor:
    """At least a constant, so that nothing is lost."""
    (scale, alpha), (rate,) = read(p, "scale", "alpha"), read(q, "rate")
    infinite = alpha <= 1
    alpha, unit = alpha.masked_fill(infinite, 2.0), rate * scale
    value = torch.log(alpha / unit) + unit * (alpha / (alpha - 1)) - (1 + 1 / alpha)
    return value.masked_fill(infinite, math.inf)


@register(
    Pareto,
    Gamma,
    source="b·φ(log(rate·E x/b)) + bA + log(α/√b) + R(b) + ½log 2π − 1, A = −log(1 − 1/α) − 1/α; infinite if α ≤ 1",
)
def kl_pareto_gamma(p: Pareto, q: Gamma) -> Tensor:
    """As for an Exponential, with Stirling's formula for Γ(b) and Binet's remainder R."""
    (scale, alpha), (b, rate) = read(p, "scale", "alpha"), read(q, "concentration", "rate")
    inverse = alpha.reciprocal().clamp_max(_BELOW_ONE)
    value = kl_div(b, rate * (scale / (1 - inverse))) - b * log1pmx(-inverse)
    value = value + torch.log(alpha / b.sqrt()) + binet(b) + (0.5 * math.log(2 * math.pi) - 1)
    return value.masked_fill(alpha <= 1, math.inf)


@register(
    Pareto,
    Normal,
    source="log(α/(α−1)) + ½log(α/(α−2)) − 1/α + ½log(2π/e) + KL(Normal of the same moments ‖ q); infinite if α ≤ 2",
)
def kl_pareto_normal(p: Pareto, q: Normal) -> Tensor:
    """E x = scale·α/(α−1), Var x = (E x)²/(α(α−2))."""
    scale, alpha = read(p, "scale", "alpha")
    infinite = alpha <= 2
    alpha = alpha.masked_fill(infinite, 3.0)
    ratio, spread = alpha / (alpha - 1), torch.sqrt(alpha * (alpha - 2))
    negentropy = torch.log(ratio * (alpha / spread)) - alpha.reciprocal() + _SHAPE
    mean = scale * ratio
    return kl_to_normal(negentropy, mean / spread, mean, *read(q, "loc", "scale")).masked_fill(infinite, math.inf)
