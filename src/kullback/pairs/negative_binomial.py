"""KL(NegativeBinomial ‖ q): the number of successes before the r-th failure, r any number ≥ 0.

Between p and q stands the law r with q's count and p's mean, whose log-ratio to q is linear in the outcome, so that

    KL(p ‖ q) = KL(p ‖ r) + KL(r ‖ q),    KL(r ‖ q) = r_q · KL(Bernoulli ‖ Bernoulli)/s_r

with stopping probabilities s = 1 − probs. With a = probs of p, m its mean and d = r_q − r_p,

    KL(p ‖ r) = A + r_q·log1pmx(−a·d/r_q) + m·log1pmx(d·s_p/r_p),
    A = −E[Breg_L(r_p → r_q)] ≥ 0,    L(r) = log Γ(x + r) − log Γ(r), concave in r,

where nothing is larger than the divergence of two laws whose means differ as the counts do. Malmsten's integral of
log Γ turns the expectation into one over the generating function G(z) = E zˣ, with an integrand that is non-negative
and quadratic in d, at a cost that does not depend on the mean:

    A = ∫₀^∞ e^(−r_p t) φ(−dt) (1 − G(e^−t)) / (1 − e^−t) dt/t,    φ(x) = eˣ − 1 − x.

References:
    Cheraghchi, "Expressions for the entropy of basic discrete distributions", ISIT 2018, arXiv 1708.06394.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.distributions import NegativeBinomial

from kullback.integrate.log_axis import broadcast, integrate_log_axis
from kullback.pairs.outcomes import (
    Chance,
    chance,
    difference_of_log_odds,
    kl_of_tilt,
    kl_per_success,
    log_change_of_success,
    minus_log_failure,
)
from kullback.pairs.parameters import read
from kullback.pairs.ratios import log_ratio
from kullback.pairs.registry import register
from kullback.pairs.visible import surely
from kullback.special import expm1mx, log1mexp, log1pmx

_INTERVALS = 512
# The integrand falls like t towards 0 and like e^(−r t) at the other end: e^−40 and e^−45 are below rounding.
_LEFT, _RIGHT = 40.0, math.log(45.0)
# Above these log-odds the mean is near overflow, and the law of equal mean is not formed.
_LARGEST = 300.0


@register(
    NegativeBinomial,
    NegativeBinomial,
    method="integral",
    source="r KL(Bernoulli ‖ Bernoulli)/(1−p) for equal counts, else Malmsten's integral over the generating function",
    decides_support=True,
)
def kl_negative_binomial_negative_binomial(p: NegativeBinomial, q: NegativeBinomial) -> tuple[Tensor, Tensor]:
    """A count of 0 or a success probability of 0 puts all mass at 0."""
    (count_p,), (count_q,) = read(p, "total_count"), read(q, "total_count")
    chance_p, chance_q = chance(p), chance(q)
    at_zero_p = (count_p == 0) | chance_p.certain()[0]
    at_zero_q = (count_q == 0) | chance_q.certain()[0]
    inner_p, inner_q = chance_p.inner(), chance_q.inner()
    r_p, r_q = torch.where(at_zero_p, 1.0, count_p), torch.where(at_zero_q, 1.0, count_q)
    error = torch.zeros_like(r_p.detach() + r_q.detach())
    # At equal counts A vanishes with its slope, but not with its curvature.
    if surely(r_p == r_q) and not (r_p.requires_grad or r_q.requires_grad):
        value = r_p * kl_per_success(inner_p.flip(), inner_q.flip())
    else:
        concavity, error = _concavity(r_p, r_q, inner_p)
        value = _by_mean(r_p, r_q, inner_p, inner_q) + concavity
    value = torch.where(at_zero_q, math.inf, value)
    zero = count_q * torch.where(count_q == 0, 0.0, minus_log_failure(chance_q))
    return torch.where(at_zero_p, zero, value), error


def _by_mean(r_p: Tensor, r_q: Tensor, p: Chance, q: Chance) -> Tensor:
    """Everything but A; for a mean near overflow through r_p·KL(Bernoulli ‖ Bernoulli)/s_p + d·log(s_p/s_q) instead."""
    rise, log_odds = log_ratio(r_q, r_p), p.as_logits().given
    usual = torch.maximum(log_odds, log_odds - rise).detach() < _LARGEST
    plain = r_p * kl_per_success(p.flip(), q.flip()) - (r_q - r_p) * log_change_of_success(p.flip(), q.flip())
    if surely(~usual):
        return plain
    between = torch.where(usual, log_odds - rise, 0.0)
    tilt = torch.where(usual, rise - difference_of_log_odds(p, q), 0.0)
    own = r_q * (1 + torch.exp(between)) * kl_of_tilt(between, tilt)
    excess, success, stop = r_q - r_p, p.success(), p.flip().success()
    lower, upper = -success * (excess / r_q), stop * (excess / r_p)
    # 1 + lower is a sum of positive parts.
    deep = lower < -0.5
    parts = torch.where(deep, stop + success * (r_p / r_q), 1.0)
    main = torch.where(deep, torch.log(parts) - lower, log1pmx(torch.where(deep, 0.0, lower)))
    tiny = upper.abs() < 1e-100
    slope = torch.where(tiny, -upper / 2, log1pmx(upper) / torch.where(tiny, 1.0, upper))
    return torch.where(usual, own + (r_q * main + success * excess * slope), plain)


def _concavity(r_p: Tensor, r_q: Tensor, p: Chance) -> tuple[Tensor, Tensor]:
    """A of the module's formula."""
    r_p, r_q, log_odds = (x.unsqueeze(-1) for x in broadcast(r_p, r_q, p.as_logits().given))
    excess = r_q - r_p

    def integrand(t: Tensor) -> Tensor:
        small = (excess * t).abs() < 1
        near = torch.exp(-r_p * t) * expm1mx(torch.where(small, -excess * t, 0.0))
        far = torch.exp(-r_q * t) - torch.exp(-r_p * t) * (1 - excess * t)
        log_g = r_p * torch.nn.functional.logsigmoid(-log_odds - log1mexp(-t))
        return torch.where(small, near, far) * torch.expm1(log_g) / torch.expm1(-t)

    low = -torch.log(torch.maximum(r_p, r_q)) - _LEFT
    high = _RIGHT - torch.log(torch.minimum(r_p, r_q))
    return integrate_log_axis(integrand, low.squeeze(-1), high.squeeze(-1), _INTERVALS)
