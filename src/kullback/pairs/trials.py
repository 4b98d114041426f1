"""KL between two numbers of trials, for Binomial, Bernoulli and Poisson.

For unequal counts n < N, with m = N − n, μ = n p₁, n₀ = n p₀, N₀ = N − μ, R Binet's remainder of log Γ, and the
log-ratio expanded about the mean (Stirling's main part collapses into one trial's divergence),

    KL = N · KL(Bernoulli(μ/N) ‖ Bernoulli(q)) + ½ log(N₀/(N p₀)) + [R(n) − R(N)] − [R(n₀) − R(N₀)] − I,
    I = ∫₀^∞ e^(−(n₀+1)t) (1 − e^(−mt)) expm1(n κ(t)) / (1 − e^−t) dt/t,
    κ(t) = log(p₁ + p₀ e^−t) + p₀ t ≥ 0.

I is what the convexity of log Γ adds, by Malmsten's integral over the generating function of the failures. Its cost
does not depend on n, and no sum over outcomes is formed. The Poisson is the limit N → ∞, N q → λ.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from kullback.integrate.log_axis import broadcast, integrate_log_axis
from kullback.pairs.outcomes import Chance, kl_of_tilt, kl_per_trial, minus_log_failure
from kullback.pairs.visible import surely
from kullback.special import binet, binet_bregman

_INTERVALS = 320
# The integrand falls like t below 1/(n₀+1) and like e^−t above: e^−40 and e^−45 are below rounding.
_LEFT, _RIGHT = 40.0, math.log(45.0)


def kl_of_trials(n: Tensor, p: Chance, big: Tensor, q: Chance) -> tuple[Tensor, Tensor]:
    """KL(Binomial(n, p) ‖ Binomial(N, q)) and its error; the counts are whole."""
    never, always = p.certain()
    per_trial = kl_per_trial(p, q)
    equal = torch.where(n == 0, 0.0, n * torch.where(n == 0, 0.0, per_trial))
    error = torch.zeros_like(equal.detach())
    if surely(n == big):
        return equal, error
    idle = (n == 0) | never
    missed = torch.where(big == 0, 0.0, big * torch.where(big == 0, 0.0, minus_log_failure(q)))
    inside = ~idle & (n < big)
    small, large = torch.where(inside, n, 1.0), torch.where(inside, big, 2.0)
    known = p._replace(given=torch.where(always, p.given.detach(), p.inner().given))
    mean_rate = known.success() * (small / large)
    main = large * kl_per_trial(Chance(mean_rate, logits=False), q)
    extra, error = beyond_mean(small, large, known)
    value = main + torch.where(main.isinf(), 0.0, extra)
    value = torch.where(inside, value, math.inf)
    value = torch.where(n == big, equal, torch.where(idle, missed, value))
    return value, torch.where(inside, error, 0.0)


def beyond_mean(n: Tensor, big: Tensor, p: Chance) -> tuple[Tensor, Tensor]:
    """Everything but the first term of the module's formula; `big` is N, inf for a Poisson."""
    n, big, given = broadcast(n, big, p.given)
    p, poisson = p._replace(given=given), big.isinf()
    p1, p0 = p.success(), p.flip().success()
    mean, failures = n * p1, n * p0
    count = torch.where(poisson, n + 1, big)
    rest = count - mean
    # R(n) − R(n₀) through its slope at n, since n − n₀ = μ may be far below the rounding of n; likewise at N.
    tail = torch.where(poisson, 0.0, binet_bregman(count, rest) - mean * binet(count, 1))
    # Many failures: everything is a small correction. Few: log Γ itself, since ½ log p₀ and R(n₀) cancel there.
    many = failures > 0.5
    p0_many, failures_many = torch.where(many, p0, 1.0), torch.where(many, failures, n)
    known = p._replace(given=torch.where(many, p.given, p.inner().given.detach()))
    half_log = torch.where(poisson, -known.flip().log_success(), torch.log1p((count - n) * p1 / (count * p0_many))) / 2
    main = half_log + mean * binet(n, 1) - binet_bregman(n, failures_many)
    few = torch.where(many, 1.0, failures)
    share = torch.where(poisson, 0.0, torch.log(rest / count))
    entropy = torch.where(few == 0, 0.0, few * torch.log(torch.where(few == 0, 1.0, few)))
    exact = (share + torch.log(n) + math.log(2 * math.pi)) / 2 + entropy - few - torch.lgamma(few + 1) + binet(n)
    concave, error = _concavity(n, big - n, p.inner(), failures)
    concave = torch.where(p.certain()[1], 0.0, concave)
    return torch.where(many, main, exact) + tail - concave, error


def _concavity(n: Tensor, missing: Tensor, p: Chance, failures: Tensor) -> tuple[Tensor, Tensor]:
    """I of the module's formula; `missing` is m, inf for a Poisson."""
    given, n_, m_, failures_ = (x.unsqueeze(-1) for x in (p.as_logits().given, n, missing, failures))

    def integrand(t: Tensor) -> Tensor:
        flat = torch.where(m_.isinf(), 1.0, -torch.expm1(-torch.where(m_.isinf(), 1.0, m_) * t))
        excess = n_ * kl_of_tilt(given, t)
        small = excess < 1
        near = torch.exp(-(failures_ + 1) * t) * torch.expm1(torch.where(small, excess, 0.0))
        far = torch.exp(-t) * (torch.exp(excess - failures_ * t) - torch.exp(-failures_ * t))
        return torch.where(small, near, far) * flat / -torch.expm1(-t)

    return integrate_log_axis(integrand, -torch.log(failures + 1) - _LEFT, torch.full_like(n, _RIGHT), _INTERVALS)
