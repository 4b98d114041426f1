"""KL between two numbers of trials, for Binomial, Bernoulli and Poisson.

For unequal counts n < N the law with N trials and p's mean μ = n p₁ stands between,

    KL = KL(p ‖ r) + N · KL(Bernoulli(μ/N) ‖ Bernoulli(q)),

and Malmsten's integral of log Γ, with Frullani's of the logarithms beside it, gives the first part at a cost that does
not depend on n, without a sum over outcomes. With m = N − n and the generating function E eˣᵗ = e^g,

    KL(p ‖ r) = ∫₀^∞ (1 − e^(−mt)) e^(−nt) H(t) dt/t,    H(t) = (e^(μt) − 1)/t − (e^g − 1)/(e^t − 1).

Continued to any N > n − 1 this vanishes at N = n with a slope that is known, so that with φ(x) = eˣ − 1 − x

    KL(p ‖ r) = −∫₀^∞ φ(−mt) e^(−nt) H(t) dt/t + m ∫₀^p₁ wⁿ/(1 − w) dw,

which is as quadratic in m/n as the divergence. The Poisson is the limit N → ∞, N q → λ. Where there are few failures
n₀ = n p₀ the integral reaches too far, and log Γ itself is evaluated instead: with Binet's remainder R and N₀ = N − μ,

    KL(p ‖ r) = ½ log(N₀/(N p₀)) + [R(n) − R(N)] − [R(n₀) − R(N₀)] − I,
    I = ∫₀^∞ (1 − e^(−mt)) e^(−nt) (e^g − e^(μt))/(e^t − 1) dt/t.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.nn.functional import logsigmoid

from kullback._core.special._double_double import two_product
from kullback.integrate.log_axis import broadcast, integrate_log_axis
from kullback.kernels.pointwise import Pointwise
from kullback.pairs.outcomes import Chance, Known, kl_of_tilt, kl_per_trial, minus_log_failure
from kullback.pairs.ratios import log_ratio
from kullback.pairs.visible import surely
from kullback.special import binet, binet_bregman, expm1mx, log1pmx

_INTERVALS = 320
# The integrand falls like t below 1/(n₀+1) and like e^−t above, or e^(−n₀t): e^−40 and e^−45 are below rounding.
_LEFT, _RIGHT = 40.0, math.log(45.0)
# With fewer failures than this on average they are few.
_FEW = 0.5


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
    main = large * _kl_of_mean(small, known, large, q)
    extra, error = beyond_mean(small, large, known)
    value = main + torch.where(main.isinf(), 0.0, extra)
    # A success that is merely too rare for a number is still outside the support of a q that never succeeds.
    value = torch.where(inside & ~q.certain()[0], value, math.inf)
    value = torch.where(n == big, equal, torch.where(idle, missed, value))
    return value, torch.where(inside, error, 0.0)


def _kl_of_mean(n: Tensor, p: Chance, big: Tensor, q: Chance) -> Tensor:
    """KL(Bernoulli(μ/N) ‖ Bernoulli(q)), accurate also where the means are almost equal although the counts are not."""
    sure = p.certain()[1] | q.certain()[0] | q.certain()[1]
    if p.logits and q.logits and surely(~sure):
        # μ/(N − μ) = (n/N) eᵃ/(1 + (m/N) eᵃ) = (n/m) σ(a + log m/N).
        missing = big - n
        bent = p.given + torch.log(missing / big)
        change = (q.given - p.given) - log_ratio(n, big) - logsigmoid(-bent)
        return kl_per_trial(p._replace(given=torch.log(n / missing) + logsigmoid(bent)), q, Known(change.detach()))
    mean_rate = Chance(p.success() * (n / big), logits=False)
    if p.logits or q.logits:
        return kl_per_trial(mean_rate, q)
    products = two_product(big, q.given.detach()), two_product(n, p.given.detach())
    gap = (products[0][0] - products[1][0]) + (products[0][1] - products[1][1])
    failure = ((big - n) + n * p.flip().outcomes()[0]) / big
    return kl_per_trial(mean_rate, q, Known(gap / big, failure))


def beyond_mean(n: Tensor, big: Tensor, p: Chance) -> tuple[Tensor, Tensor]:
    """KL(p ‖ r) of the module's formula; `big` is N, inf for a Poisson."""
    n, big, given = broadcast(n, big, p.given)
    p = p._replace(given=given)
    many = n * p.flip().outcomes()[0] > _FEW
    if surely(many):
        return _of_many_failures(n, big - n, p)
    # Half a failure on average where they are many: what is not used must not overflow, nor its gradient be NaN.
    half = torch.log(2 * n - 1) if p.logits else 1 - 0.5 / n
    rare, rare_error = _of_few_failures(n, big, p._replace(given=torch.where(many, half, given)))
    if surely(~many):
        return rare, rare_error
    even = torch.full_like(given, 0.0 if p.logits else 0.5)
    usual, error = _of_many_failures(n, big - n, p._replace(given=torch.where(many, given, even)))
    return torch.where(many, usual, rare), torch.where(many, error, rare_error)


def _of_many_failures(n: Tensor, missing: Tensor, p: Chance) -> tuple[Tensor, Tensor]:
    """By H; `missing` is m, inf for a Poisson."""
    p1, p0, given = p.success(), p.flip().success(), p.as_logits().given
    # The powers of p₁ underflow before 1e-200 matters.
    log_p1 = p.log_success() if p.logits else torch.log(p1.clamp_min(1e-200))
    low, high = -torch.log(n) - _LEFT, _RIGHT - torch.log(n * p0).clamp_max(0.0)
    n, missing, p1, p0, given, log_p1 = (x.unsqueeze(-1) for x in (n, missing, p1, p0, given, log_p1))
    return integrate_log_axis(lambda t: _many_failures_at(t, n, missing, given, p1, p0, log_p1), low, high, _INTERVALS)


@Pointwise
def _many_failures_at(t: Tensor, *given: Tensor) -> Tensor:
    """The integrand by H."""
    n, missing, log_odds, p1, p0, log_p1 = given
    poisson = missing == math.inf
    m = torch.where(poisson, 1.0, missing)
    balance = _balance(t, n, log_odds, p1, p0)
    share = torch.where(poisson, 1.0, -torch.expm1(-m * t))
    slope = m * t * torch.exp((n + 1) * (log_p1 - t)) / (p0 - p1 * torch.expm1(-t))
    return torch.where(missing > 4 * n, share * balance, slope - expm1mx(-m * t) * balance)


def _balance(t: Tensor, n: Tensor, log_odds: Tensor, p1: Tensor, p0: Tensor) -> Tensor:
    """e^(−nt) H(t), with v = e^t − 1, c = μt, g = n log(1 + p₁v) and δ = g − c ≥ 0, in non-negative terms.

    For a rare success, where everything linear in p₁ has to cancel, and for others,

        H = (μv − g)/v · (e^g − 1)/g − μ e^c (φ(δ) + δ φ(−c)/c)/g,
        H = (e^c − 1) (v − t)/(vt) − e^c (e^δ − 1)/v.
    """
    v, c, delta = torch.expm1(t), n * p1 * t, n * kl_of_tilt(log_odds, t)
    base, lift = torch.exp(-n * p0 * t), torch.exp(delta - n * p0 * t)
    short = delta < 1
    step = torch.where(short, delta, 0.0)
    thin = p1 < 0.5
    # Where p₁² underflows there is nothing to tell.
    seen = thin & (p1 > 1e-150)
    inner, total = torch.where(seen, c, 1.0), torch.where(seen, c + delta, 1.0)
    lost = -n * log1pmx(torch.where(seen, p1, 0.0) * v)
    curve = torch.where(short, base * expm1mx(step), lift - base * (1 + delta))
    tilted = curve + base * delta * (expm1mx(-inner) / inner)
    below = (lost / v * (lift * -torch.expm1(-total)) - n * p1 * tilted) / total
    gain = torch.where(short, base * torch.expm1(step), lift - base)
    above = base * -torch.expm1(-c) * (expm1mx(t) / (v * t)) - gain / v
    return torch.where(thin, torch.where(seen, below, 0.0), above)


def _of_few_failures(n: Tensor, big: Tensor, p: Chance) -> tuple[Tensor, Tensor]:
    """By log Γ; for at most half a failure on average."""
    poisson = big.isinf()
    mean, failures = n * p.success(), n * p.flip().success()
    count = torch.where(poisson, n + 1, big)
    rest = count - mean
    # R(N) − R(N₀) through its slope at N, since N − N₀ = μ may be far below the rounding of N.
    tail = torch.where(poisson, 0.0, binet_bregman(count, rest) - mean * binet(count, 1))
    share = torch.where(poisson, 0.0, torch.log(rest / count))
    entropy = torch.where(failures == 0, 0.0, failures * torch.log(torch.where(failures == 0, 1.0, failures)))
    stirling = entropy - failures - torch.lgamma(failures + 1)
    exact = (share + torch.log(n) + math.log(2 * math.pi)) / 2 + stirling + binet(n)
    concave, error = _concavity(n, big - n, p.inner(), failures)
    return exact + tail - torch.where(p.certain()[1], 0.0, concave), error


def _concavity(n: Tensor, missing: Tensor, p: Chance, failures: Tensor) -> tuple[Tensor, Tensor]:
    """I of the module's formula; `missing` is m, inf for a Poisson."""
    given = [x.unsqueeze(-1) for x in (p.as_logits().given, n, missing, failures)]
    low, high = -torch.log(failures + 1) - _LEFT, torch.full_like(n, _RIGHT)
    return integrate_log_axis(lambda t: _concavity_at(t, *given), low, high, _INTERVALS)


@Pointwise
def _concavity_at(t: Tensor, log_odds: Tensor, n: Tensor, missing: Tensor, failures: Tensor) -> Tensor:
    """The integrand of I."""
    poisson = missing == math.inf
    flat = torch.where(poisson, 1.0, -torch.expm1(-torch.where(poisson, 1.0, missing) * t))
    excess = n * kl_of_tilt(log_odds, t)
    small = excess < 1
    near = torch.exp(-(failures + 1) * t) * torch.expm1(torch.where(small, excess, 0.0))
    far = torch.exp(-t) * (torch.exp(excess - failures * t) - torch.exp(-failures * t))
    return torch.where(small, near, far) * flat / -torch.expm1(-t)
