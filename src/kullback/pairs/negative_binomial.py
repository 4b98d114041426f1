"""KL(NegativeBinomial ‖ q): the number of successes before the r-th failure, r any number ≥ 0.

With stopping probabilities s = 1 − probs and d = r_q − r_p,

    KL = A + r_p · KL(Bernoulli ‖ Bernoulli)/s_p + d log(s_p/s_q),
    A = −E[Breg_L(r_p → r_q)] ≥ 0,    L(r) = log Γ(x + r) − log Γ(r), concave in r.

Malmsten's integral of log Γ turns the expectation into one over the generating function G(z) = E zˣ, with an integrand
that is non-negative and quadratic in d, at a cost that does not depend on the mean:

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
from kullback.pairs.outcomes import Chance, chance, kl_per_success, log_change_of_success, minus_log_failure
from kullback.pairs.parameters import read
from kullback.pairs.registry import register
from kullback.pairs.visible import surely
from kullback.special import expm1mx, log1mexp

_INTERVALS = 512
# The integrand falls like t towards 0 and like e^(−r t) at the other end: e^−40 and e^−45 are below rounding.
_LEFT, _RIGHT = 40.0, math.log(45.0)


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
    stop_p, stop_q = inner_p.flip(), inner_q.flip()
    excess = r_q - r_p
    value = r_p * kl_per_success(stop_p, stop_q) - excess * log_change_of_success(stop_p, stop_q)
    error = torch.zeros_like(value.detach())
    # At equal counts A vanishes with its slope, but not with its curvature.
    if excess.requires_grad or not surely(excess == 0):
        concavity, error = _concavity(r_p, r_q, inner_p)
        value = value + concavity
    value = torch.where(at_zero_q, math.inf, value)
    zero = count_q * torch.where(count_q == 0, 0.0, minus_log_failure(chance_q))
    return torch.where(at_zero_p, zero, value), error


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
