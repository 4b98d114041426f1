"""What is known of log x, family by family."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor
from torch import distributions as d
from torch.distributions import Distribution

from kullback.pairs.parameters import read
from kullback.pairs.positive.law import Excess, LogLaw, excess_of, lgamma_excess, lgamma_rise
from kullback.pairs.positive.uniform_law import of_uniform
from kullback.pairs.ratios import log_ratio, share
from kullback.special import binet, digamma, log1pmx, trigamma

_HALF_LOG_TAU = math.log(2 * math.pi) / 2


def _power_of_gamma(a: Tensor, log_centre: Tensor, power: Tensor) -> LogLaw:
    """The law of centre·(G/a)^(1/power), G ~ Gamma(a, 1): a generalised gamma law; nominally Var log G = 1/a.

    H(log G) = log Γ(a) − aψ(a) + a = ½log(2πe/a) + R(a) − a·R'(a), ψ(a) − log a = R'(a) − 1/(2a) and
    a·ψ'(a) − 1 = 1/(2a) + a·R''(a).
    """
    return LogLaw(
        mean=log_centre + (binet(a, 1) - 0.5 / a) / power,
        deviation=torch.rsqrt(a) / power.abs(),
        precision=a * power * power,
        rest=0.5 / a + a * binet(a, 2),
        negentropy=_stirling_rest(a),
        excess=lambda c: lgamma_excess(a, c / power),
        log_moment=lambda c: c * log_centre + lgamma_rise(a, c / power),
    )


def _stirling_rest(x: Tensor) -> Tensor:
    """x·R'(x) − R(x)."""
    return x * binet(x, 1) - binet(x)


def of_gamma(p: Distribution) -> LogLaw:
    """The power 1."""
    a, rate = read(p, "concentration", "rate")
    return _power_of_gamma(a, log_ratio(a, rate), torch.ones_like(a))


def of_exponential(p: Distribution) -> LogLaw:
    """A Gamma of concentration 1."""
    (rate,) = read(p, "rate")
    one = torch.ones_like(rate)
    return _power_of_gamma(one, -torch.log(rate), one)


def of_inverse_gamma(p: Distribution) -> LogLaw:
    """The power −1."""
    a, rate = read(p, "concentration", "rate")
    return _power_of_gamma(a, log_ratio(rate, a), -torch.ones_like(a))


def of_half_normal(p: Distribution) -> LogLaw:
    """x²/2σ² is a Gamma of concentration ½."""
    (scale,) = read(p, "scale")
    half = torch.full_like(scale, 0.5)
    return _power_of_gamma(half, torch.log(scale), 4 * half)


def of_weibull(p: Distribution) -> LogLaw:
    """(x/λ)^k is an Exponential."""
    scale, k = read(p, "scale", "concentration")
    scale, k = torch.broadcast_tensors(scale, k)  # type: ignore[no-untyped-call]
    return _power_of_gamma(torch.ones_like(k), torch.log(scale), k)


def of_log_normal(p: Distribution) -> LogLaw:
    """The one for which all rests are 0."""
    loc, scale = read(p, "loc", "scale")
    zero = torch.zeros_like(scale)
    return LogLaw(loc, scale, 1 / scale / scale, zero, zero, lambda _: Excess(zero, zero + 1))


def of_pareto(p: Distribution) -> LogLaw:
    """The logarithm of x/scale is an Exponential of rate α: A(c) = −log(1 − c/α) − c/α, for c < α."""
    scale, alpha = read(p, "scale", "alpha")

    def excess(c: Tensor) -> Excess:
        share = c / alpha
        finite = share < 1
        inner = torch.where(finite, share, 0.5)
        return excess_of(-2 * log1pmx(-inner) / inner / inner, finite)

    def log_moment(c: Tensor) -> Tensor:
        share = c / alpha
        return c * torch.log(scale) - torch.log1p(-torch.where(share < 1, share, 0.0))

    zero = torch.zeros_like(alpha)
    negentropy = zero + (_HALF_LOG_TAU - 0.5)
    return LogLaw(torch.log(scale) + 1 / alpha, 1 / alpha, alpha * alpha, zero, negentropy, excess, log_moment)


def of_half_cauchy(p: Distribution) -> LogLaw:
    """The density of log(x/γ) is 1/(π·cosh y), its variance π²/4, its entropy log 2π; E (x/γ)^c = 1/cos(πc/2)."""
    (scale,) = read(p, "scale")

    def excess(c: Tensor) -> Excess:
        finite = c < 1
        inner = torch.where(finite, c, 0.5)
        # Beyond a third of the way the sine of what is left to 1, which is exact, knows the cosine better.
        low = inner < 0.3
        sine = torch.sin(math.pi / 2 * torch.where(low, inner, 0.0))
        left = torch.sin(math.pi / 2 * (1 - torch.where(low, 0.5, inner)))
        log_moment = torch.where(low, -torch.log1p(-sine * sine) / 2, -torch.log(left))
        return excess_of(8 / math.pi**2 * log_moment / inner / inner, finite)

    zero = torch.zeros_like(scale)
    negentropy = _HALF_LOG_TAU + 0.5 + math.log(math.pi / 2) - math.log(2 * math.pi)
    return LogLaw(torch.log(scale), zero + math.pi / 2, zero + 4 / math.pi**2, zero, zero + negentropy, excess)


def of_odds(a: Tensor, b: Tensor, log_unit: Tensor) -> LogLaw:
    """x/unit is the ratio of two Gammas of mean 1, the odds of a Beta(a, b) in units of a/b.

    H(y) = log B(a,b) − aψ(a) − bψ(b) + (a+b)ψ(a+b) and ψ(x) − log x = −1/(2x) + R'(x).
    """
    share_a, share_b = share(b, a), share(a, b)

    def excess(c: Tensor) -> Excess:
        up, down = lgamma_excess(a, c), lgamma_excess(b, -c)
        r, ratio = (share_a * one + share_b * other for one, other in zip(up[:2], down[:2], strict=True))
        return Excess(r, ratio, down.finite & up.finite)

    def log_moment(c: Tensor) -> Tensor:
        return c * log_unit + lgamma_rise(a, c) + lgamma_rise(b, -c)

    rests = [0.5 / x + x * binet(x, 2) for x in (a, b)]
    mean = log_unit + (binet(a, 1) - 0.5 / a) - (binet(b, 1) - 0.5 / b)
    negentropy = _stirling_rest(a) + _stirling_rest(b) - _stirling_rest(a + b)
    rest, precision = share_a * rests[0] + share_b * rests[1], a * share_a
    return LogLaw(mean, torch.rsqrt(precision), precision, rest, negentropy, excess, log_moment)


def of_fisher_snedecor(p: Distribution) -> LogLaw:
    """The ratio of two Gammas of mean 1 itself."""
    df1, df2 = read(p, "df1", "df2")
    return of_odds(df1 / 2, df2 / 2, torch.zeros_like(df1 + df2))


def of_beta(p: Distribution) -> LogLaw:
    """E y = ψ(a) − ψ(n), Var y = ψ'(a) − ψ'(n), n = a + b; nominally 1/a − 1/n.

    H(y) = log B(a,b) − aψ(a) − (b−1)ψ(b) + (n−1)ψ(n): that of the log-odds with ψ(b) − ψ(n) added, in which
    log x − ψ(x) = 1/(2x) − R'(x).
    """
    a, b = read(p, "concentration1", "concentration0")
    n = a + b
    share_a, share_n = n / b, a / b

    def excess(c: Tensor) -> Excess:
        near, far = lgamma_excess(a, c), lgamma_excess(n, c)
        r, ratio = (share_a * one - share_n * other for one, other in zip(near[:2], far[:2], strict=True))
        return Excess(r, torch.where(r.abs() < 0.5, 1 + r, ratio), near.finite)

    def log_moment(c: Tensor) -> Tensor:
        return c * log_ratio(a, n) + lgamma_rise(a, c) - lgamma_rise(n, c)

    one, log_share = torch.ones_like(a), -torch.log1p(b / a)
    mean = log_share + (binet(a, 1) - 0.5 / a) - (binet(n, 1) - 0.5 / n)
    rest = (1 / a + 1 / n) / 2 + (binet(a, 2) - binet(n, 2)) * a * share_a
    odds = _stirling_rest(a) + _stirling_rest(b) - _stirling_rest(n)
    negentropy = odds + (0.5 / b - binet(b, 1)) - (0.5 / n - binet(n, 1))
    precision = a * share_a
    return LogLaw(mean, torch.rsqrt(precision), precision, rest, negentropy, excess, log_moment, one / b)


def of_kumaraswamy(p: Distribution) -> LogLaw:
    """x^a is a Beta(1, b): E y = (ψ(1) − ψ(1+b))/a, Var y = (ψ'(1) − ψ'(1+b))/a², H(y) = 1 − 1/b − log ab − a·E y."""
    a, b = read(p, "concentration1", "concentration0")
    one = torch.ones_like(b)
    drop = digamma(one) - digamma(1 + b)
    variance = trigamma(one) - trigamma(1 + b)

    def excess(c: Tensor) -> Excess:
        step = c / a
        near, far = lgamma_excess(one, step), lgamma_excess(1 + b, step)
        return excess_of((near.ratio - far.ratio / (1 + b)) / variance, near.finite)

    def log_moment(c: Tensor) -> Tensor:
        step = c / a
        # log Γ(1+s)Γ(1+b)/Γ(1+s+b): the smaller of s and b is what the arguments of log Γ are moved by.
        longer = step > b
        move, at = torch.where(longer, b, step), torch.where(longer, step, b)
        return lgamma_rise(one, move) - lgamma_rise(1 + at, move) - move * torch.log1p(at)

    negentropy = _HALF_LOG_TAU - 0.5 + torch.log(variance) / 2 + torch.log(b) + drop + 1 / b
    zero, deviation = torch.zeros_like(a + b), torch.sqrt(variance) / a
    # Variance and excess are differences of functions at 1 and 1 + b, which are right to an ulp or two.
    return LogLaw(drop / a, deviation, a * a / variance, zero, negentropy, excess, log_moment, 2 / b)


LAWS: dict[type[Distribution], Callable[[Distribution], LogLaw]] = {
    d.Beta: of_beta,
    d.Exponential: of_exponential,
    d.FisherSnedecor: of_fisher_snedecor,
    d.Gamma: of_gamma,
    d.HalfCauchy: of_half_cauchy,
    d.HalfNormal: of_half_normal,
    d.InverseGamma: of_inverse_gamma,
    d.Kumaraswamy: of_kumaraswamy,
    d.LogNormal: of_log_normal,
    d.Pareto: of_pareto,
    d.Uniform: of_uniform,
    d.Weibull: of_weibull,
}
