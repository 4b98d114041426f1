"""KL(Pareto ‖ q): infinite where a tail of exponent α has no mean (‖ Exponential, Gamma) or no variance (‖ Normal)."""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.distributions import Exponential, Gamma, Normal, Pareto

from kullback._core.special._double_double import (
    divided,
    minus,
    plus,
    root,
    rounded,
    times,
    two_difference,
    two_product,
)
from kullback.pairs.moments import exact, kl_to_normal, known_to
from kullback.pairs.parameters import read
from kullback.pairs.products import corrected, log_quotient, mean_term
from kullback.pairs.ratios import log_ratio
from kullback.pairs.registry import register
from kullback.special import binet, expm1mx


@register(Pareto, Pareto, source="φ(log(α_q/α_p)) + α_q·log(x_p/x_q); infinite if x_p < x_q")
def kl_pareto_pareto(p: Pareto, q: Pareto) -> Tensor:
    """The second term is first order: at equal scales q is about to lose part of p."""
    scale_p, alpha_p = read(p, "scale", "alpha")
    scale_q, alpha_q = read(q, "scale", "alpha")
    return expm1mx(log_ratio(alpha_q, alpha_p)) + alpha_q * log_ratio(scale_p, scale_q)


@register(Pareto, Exponential, source="Pareto ‖ Gamma with b = 1; infinite if α ≤ 1")
def kl_pareto_exponential(p: Pareto, q: Exponential) -> Tensor:
    """An Exponential is a Gamma of concentration 1."""
    (rate,) = read(q, "rate")
    return _pareto_gamma(p, torch.ones_like(rate), rate)


@register(
    Pareto, Gamma, source="b·φ(log(rate·E x/b)) + b·(log(α/(α−1)) − 1/α) + log(α/√b) + R(b) + …; infinite if α ≤ 1"
)
def kl_pareto_gamma(p: Pareto, q: Gamma) -> Tensor:
    """See `_pareto_gamma`."""
    return _pareto_gamma(p, *read(q, "concentration", "rate"))


@register(Pareto, Normal, source="½log(2π/e) + … + KL(Normal of the same moments ‖ q); infinite if α ≤ 2")
def kl_pareto_normal(p: Pareto, q: Normal) -> Tensor:
    """J = ½log(2π/e) + [log(α/(α−1)) − 1/α] + ½log(α/(α−2)), that of the Exponential for α → ∞."""
    scale, alpha = read(p, "scale", "alpha")
    finite = alpha > 2
    alpha = torch.where(finite, alpha, 3.0)
    log_root = torch.log1p(2 / (alpha - 2)) / 2
    negentropy = 0.5 * math.log(2 * math.pi) - 0.5 + _log_mean_excess(alpha) + log_root
    at, at_scale = alpha.detach(), exact(scale.detach())
    less_one, less_two = (two_difference(at, torch.full_like(at, n)) for n in (1.0, 2.0))
    excess = divided(at_scale, less_one)
    spread = times(excess, root(divided(exact(at), less_two)))
    sd = known_to(scale / (alpha - 1) * torch.exp(log_root), spread)
    (loc,) = read(q, "loc")
    offset = known_to((scale - loc) + scale / (alpha - 1), plus(two_difference(at_scale[0], loc.detach()), excess))
    return torch.where(finite, kl_to_normal(negentropy, sd, offset, q), torch.inf)


def _log_mean_excess(alpha: Tensor) -> Tensor:
    """Jensen's gap log E x − E log x = log(α/(α−1)) − 1/α = φ(−log(α/(α−1))), as 1 − 1/α = e^(−log(α/(α−1)))."""
    return expm1mx(-torch.log1p(1 / (alpha - 1)))


def _log_means(rate: Tensor, scale: Tensor, alpha: Tensor, b: Tensor) -> Tensor:
    """log(rate·E x/b), E x = scale·α/(α−1), where that is next to 0 from the difference of the products."""
    plain = log_quotient(rate, scale, b, torch.ones_like(b)) + torch.log1p(1 / (alpha - 1))
    at = alpha.detach()
    mean = times(two_product(rate.detach(), scale.detach()), exact(at))
    base = times(exact(b.detach()), two_difference(at, torch.ones_like(at)))
    relative = rounded(minus(mean, base)) / base[0]
    near = (relative.abs() < 0.5) & (base[0] > 1e-280)
    return torch.where(near, corrected(plain, torch.log1p(torch.where(near, relative, 0.0))), plain)


def _pareto_gamma(p: Pareto, b: Tensor, rate: Tensor) -> Tensor:
    """The cost of the means, Jensen's gap of p, and Stirling's formula for Γ(b) with its remainder."""
    scale, alpha = read(p, "scale", "alpha")
    finite = alpha > 1
    alpha = torch.where(finite, alpha, 2.0)
    log_means = _log_means(rate, scale, alpha, b)
    means = mean_term(b, rate * (scale + scale / (alpha - 1)), log_means)
    constant = 0.5 * math.log(2 * math.pi) - 1
    rest = b * _log_mean_excess(alpha) + torch.log(alpha / b.sqrt()) + binet(b) + constant
    return torch.where(finite, means + rest, torch.inf)
