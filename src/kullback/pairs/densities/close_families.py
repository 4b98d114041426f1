"""log p − log q of two members of one family at a point, from differences of their parameters; NaN where none is known.

The difference of two log-densities keeps no more digits than differ. Here every term has a difference of parameters as
a factor, which is exact for close ones. Constants are differences of log Γ and the like, by their Bregman divergences.
Values only: derivatives are those of the plain difference.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor
from torch import distributions as d
from torch.distributions import Distribution
from torch.distributions.relaxed_bernoulli import LogitRelaxedBernoulli

from kullback._core.gauss_legendre import gauss_legendre
from kullback.pairs.closed.von_mises import log_i0_bregman
from kullback.pairs.densities.point import CAP, Point
from kullback.pairs.densities.power_chart import log_rest_of
from kullback.pairs.densities.reading import Given
from kullback.pairs.densities.soft import softplus
from kullback.pairs.gamma_half_step import half_step_difference
from kullback.pairs.log_sinhc import log_sinhc, log_sinhc_bregman
from kullback.pairs.outcomes import chance, difference_of_log_odds
from kullback.pairs.ratios import log_ratio
from kullback.special import bessel_ratio, digamma, lgamma_bregman, log1pmx

Formula = Callable[[Point, Given, Given], Tensor]

# Along a segment of close parameters, where there is no closed form: exact to rounding for a change of 1 %.
_RULE = gauss_legendre(4)


def formula_for(p: Distribution, q: Distribution) -> Formula | None:
    """The formula of the family that both belong to."""
    found = (next((t for t in type(side).__mro__ if t in _FAMILIES), None) for side in (p, q))
    family_p, family_q = found
    return _FAMILIES[family_p] if family_p is not None and family_p is family_q else None


def _standard(point: Point, p: Given, q: Given) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """log(σ_q/σ_p), z_p, z_q and z_p − z_q, where z = (x − μ)/σ."""
    loc_p, scale_p = p.read("loc", "scale")
    loc_q, scale_q = q.read("loc", "scale")
    z_p, z_q = point.standard(loc_p, scale_p)[0], point.standard(loc_q, scale_q)[0]
    return log_ratio(scale_q, scale_p), z_p, z_q, _shift(z_q, loc_q - loc_p, scale_q - scale_p, scale_p)


def _shift(z_q: Tensor, loc: Tensor, scale: Tensor, unit: Tensor) -> Tensor:
    return (z_q * scale + loc) / unit


def _normal(point: Point, p: Given, q: Given) -> Tensor:
    level, z_p, z_q, shift = _standard(point, p, q)
    return level - shift * (z_p + z_q) / 2


def _laplace(point: Point, p: Given, q: Given) -> Tensor:
    level, z_p, z_q, shift = _standard(point, p, q)
    return level - torch.where(z_p * z_q > 0, torch.sign(z_q) * shift, z_p.abs() - z_q.abs())


def _cauchy(point: Point, p: Given, q: Given) -> Tensor:
    level, z_p, z_q, shift = _standard(point, p, q)
    return level - torch.log1p(shift * ((z_p + z_q) / (1 + z_q * z_q)))


def _student_t(point: Point, p: Given, q: Given) -> Tensor:
    level, z_p, z_q, shift = _standard(point, p, q)
    (df_p,), (df_q,) = p.read("df"), q.read("df")
    gap = df_p - df_q
    square_p, square_q = z_p * z_p / df_p, z_q * z_q / df_q
    change = (shift * (z_p + z_q) - square_q * gap) / df_p
    level = level + half_step_difference(df_q / 2, df_p / 2)
    return level - gap / 2 * torch.log1p(square_p) - (df_q + 1) / 2 * torch.log1p(change / (1 + square_q))


def _gumbel(point: Point, p: Given, q: Given) -> Tensor:
    level, _, z_q, shift = _standard(point, p, q)
    return level - shift - torch.exp((-z_q).clamp_max(CAP)) * torch.expm1(-shift)


def _logistic(point: Point, p: Given, q: Given, at: Tensor | None = None) -> Tensor:
    """With z = T·y − a the density of y is T·σ(z)·σ(−z)."""
    (own,), (other,) = p.read("temperature"), q.read("temperature")
    chances = chance(p.distribution).inner(), chance(q.distribution).inner()
    y = point.standard(torch.zeros_like(own), torch.ones_like(own))[0] if at is None else at
    shift = (own - other) * y - p.shaped(difference_of_log_odds(*chances))
    z_q = other * y - q.shaped(chances[1].as_logits().given)
    return log_ratio(own, other) - shift - 2 * torch.log1p(torch.sigmoid(-z_q) * torch.expm1(-shift))


def _relaxed_bernoulli(point: Point, p: Given, q: Given) -> Tensor:
    (own,) = p.read("temperature")
    zero, one = torch.zeros_like(own), torch.ones_like(own)
    return _logistic(point, p, q, at=point.log_above(zero, one) - point.log_below(one, one))


def _exponential(point: Point, p: Given, q: Given) -> Tensor:
    (rate_p,), (rate_q,) = p.read("rate"), q.read("rate")
    return log_ratio(rate_p, rate_q) - (rate_p - rate_q) / rate_q * torch.exp(_log_x(point, 1 / rate_q))


def _log_x(point: Point, scale: Tensor) -> Tensor:
    """log(x/scale), not beyond what can be squared."""
    return point.log_above(torch.zeros_like(scale), scale).clamp_max(CAP)


def _gamma(point: Point, p: Given, q: Given, *, inverse: bool = False) -> Tensor:
    """With u = log(β_q·x), or of 1/x for the inverse."""
    shape_p, rate_p = p.read("concentration", "rate")
    shape_q, rate_q = q.read("concentration", "rate")
    u = (-point.log_above(torch.zeros_like(rate_q), rate_q)).clamp_max(CAP) if inverse else _log_x(point, 1 / rate_q)
    gap = shape_p - shape_q
    level = shape_p * log_ratio(rate_p, rate_q) - lgamma_bregman(shape_q, shape_p)
    return level + gap * (u - digamma(shape_q)) - (rate_p - rate_q) / rate_q * torch.exp(u)


def _inverse_gamma(point: Point, p: Given, q: Given) -> Tensor:
    return _gamma(point, p, q, inverse=True)


def _half(point: Point, p: Given, q: Given) -> tuple[Tensor, Tensor, Tensor]:
    """log(σ_q/σ_p), z_q² and z_p² − z_q², where z = x/σ."""
    (scale_p,), (scale_q,) = p.read("scale"), q.read("scale")
    square = torch.exp(2 * _log_x(point, scale_q))
    change = (scale_q - scale_p) / scale_p * (scale_q / scale_p + 1)
    return log_ratio(scale_q, scale_p), square, square * change


def _half_normal(point: Point, p: Given, q: Given) -> Tensor:
    level, _, change = _half(point, p, q)
    return level - change / 2


def _half_cauchy(point: Point, p: Given, q: Given) -> Tensor:
    level, square, change = _half(point, p, q)
    return level - torch.log1p(change / (1 + square))


def _log_normal(point: Point, p: Given, q: Given) -> Tensor:
    loc_p, scale_p = p.read("loc", "scale")
    loc_q, scale_q = q.read("loc", "scale")
    log_x = point.log_above(torch.zeros_like(loc_p), torch.ones_like(loc_p))
    z_p, z_q = (log_x - loc_p) / scale_p, (log_x - loc_q) / scale_q
    shift = _shift(z_q, loc_q - loc_p, scale_q - scale_p, scale_p)
    return log_ratio(scale_q, scale_p) - shift * (z_p + z_q) / 2


def _weibull(point: Point, p: Given, q: Given) -> Tensor:
    """With v = k·log(x/λ) the log-density is log k − log x + v − eᵛ."""
    scale_p, power_p = p.read("scale", "concentration")
    scale_q, power_q = q.read("scale", "concentration")
    log_x = _log_x(point, scale_q)
    change = (power_p - power_q) * log_x - power_p * log_ratio(scale_p, scale_q)
    return log_ratio(power_p, power_q) + change - torch.exp((power_q * log_x).clamp_max(CAP)) * torch.expm1(change)


def _fisher_snedecor(point: Point, p: Given, q: Given) -> Tensor:
    """With w = log(d₁x/d₂) the log-density is −log x + a·w − (a + b)·log(1 + eʷ) − log B(a, b)."""
    one_p, two_p = p.read("df1", "df2")
    one_q, two_q = q.read("df1", "df2")
    w_q = _log_x(point, two_q / one_q)
    change = log_ratio(one_p, one_q) - log_ratio(two_p, two_q)
    rest = softplus(w_q + change)
    linear, to_a, to_b = _log_beta((one_p / 2, two_p / 2), (one_q / 2, two_q / 2))
    value = (one_p - one_q) / 2 * (w_q - rest + to_a) + (two_p - two_q) / 2 * (to_b - rest) + linear
    value = value + one_p / 2 * change
    return value - (one_q + two_q) / 2 * torch.log1p(torch.sigmoid(w_q) * torch.expm1(change))


def _log_beta(p: tuple[Tensor, Tensor], q: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor, Tensor]:
    """−log B of p's parameters less that of q's: a part of second order, and the slopes in the two differences."""
    total_p, total_q = p[0] + p[1], q[0] + q[1]
    curved = lgamma_bregman(total_q, total_p) - lgamma_bregman(q[0], p[0]) - lgamma_bregman(q[1], p[1])
    at = digamma(total_q)
    return curved, at - digamma(q[0]), at - digamma(q[1])


def _beta(point: Point, p: Given, q: Given) -> Tensor:
    a_p, b_p = p.read("concentration1", "concentration0")
    a_q, b_q = q.read("concentration1", "concentration0")
    zero, one = torch.zeros_like(a_q), torch.ones_like(a_q)
    curved, to_a, to_b = _log_beta((a_p, b_p), (a_q, b_q))
    return (a_p - a_q) * (point.log_above(zero, one) + to_a) + (b_p - b_q) * (point.log_below(one, one) + to_b) + curved


def _kumaraswamy(point: Point, p: Given, q: Given) -> Tensor:
    """(1 − x^a)/(1 − x^a') = 1 − x^a'·(x^(a−a') − 1)/(1 − x^a')."""
    a_p, b_p = p.read("concentration1", "concentration0")
    a_q, b_q = q.read("concentration1", "concentration0")
    log_x = point.log_above(torch.zeros_like(a_q), torch.ones_like(a_q))
    gap = a_p - a_q
    power = a_q * log_x
    change = torch.log1p(torch.exp(power) * torch.expm1(gap * log_x) / torch.expm1(power))
    rest = log_rest_of(a_p * log_x)
    level = log_ratio(a_p, a_q) + log_ratio(b_p, b_q)
    return level + gap * log_x + (b_p - b_q) * rest + (b_q - 1) * change


def _continuous_bernoulli(point: Point, p: Given, q: Given) -> Tensor:
    """The log-density is η·(x − ½) − B(η), B(η) = log(sinh(η/2)/(η/2))."""
    chances = chance(p.distribution).inner(), chance(q.distribution).inner()
    gap = p.shaped(difference_of_log_odds(*chances))
    eta_p, eta_q = (side.shaped(c.as_logits().given) for side, c in zip((p, q), chances, strict=True))
    one = torch.ones_like(eta_p)
    x = point.standard(one / 2, one)[0]
    return gap * (x - log_sinhc(eta_q, 1)) - log_sinhc_bregman(eta_q, eta_p, gap)[0]


def _von_mises(point: Point, p: Given, q: Given) -> Tensor:
    """The log-density is −2κ·sin²((x − μ)/2) − log(e^(−κ)·I₀(κ)) but for a constant."""
    loc_p, kappa_p = p.read("loc", "concentration")
    loc_q, kappa_q = q.read("loc", "concentration")
    one = torch.ones_like(loc_p)
    half_p, half_q = (point.standard(loc, one)[0] / 2 for loc in (loc_p, loc_q))
    gap = kappa_p - kappa_q
    squares = torch.sin(half_p + half_q) * torch.sin((loc_q - loc_p) / 2)
    turned = -2 * (gap * torch.sin(half_p) ** 2 + kappa_q * squares)
    return turned - gap * (bessel_ratio(0.0, kappa_q) - 1) - log_i0_bregman(kappa_q, kappa_p)


def _uniform(_: Point, p: Given, q: Given) -> Tensor:
    low_p, high_p = p.read("low", "high")
    low_q, high_q = q.read("low", "high")
    return -torch.log1p(((high_p - high_q) - (low_p - low_q)) / (high_q - low_q))


def _pareto(point: Point, p: Given, q: Given) -> Tensor:
    scale_p, alpha_p = p.read("scale", "alpha")
    scale_q, alpha_q = q.read("scale", "alpha")
    log_x = _log_x(point, scale_q)
    return log_ratio(alpha_p, alpha_q) + alpha_p * log_ratio(scale_p, scale_q) - (alpha_p - alpha_q) * log_x


def _generalized_pareto(point: Point, p: Given, q: Given) -> Tensor:
    """The log-density is −log σ − l(ξ, z) − log(1 + ξz), l(ξ, z) = log(1 + ξz)/ξ, z = (x − μ)/σ."""
    level, _, z_q, shift = _standard(point, p, q)
    (shape_p,), (shape_q,) = p.read("concentration"), q.read("concentration")
    gap = shape_p - shape_q
    tilted = shape_p * (shift / (1 + shape_p * z_q))
    small = tilted.abs() < _TINY
    stretch = torch.where(small, 1.0, torch.log1p(tilted) / torch.where(small, 1.0, tilted))
    moved = shift / (1 + shape_p * z_q) * stretch
    for node, weight in zip(*_RULE, strict=True):
        moved = moved + weight * gap * _slope_in_shape(shape_q + node * gap, z_q)
    value = level - moved - torch.log1p((shape_p * shift + gap * z_q) / (1 + shape_q * z_q))
    return torch.where(gap.abs() < _CLOSE, value, math.nan)


def _slope_in_shape(shape: Tensor, z: Tensor) -> Tensor:
    """∂l/∂ξ = −z²·[1/(1 + y) + (log(1 + y) − y)/y²], y = ξz."""
    y = shape * z
    small = y.abs() < _TINY
    bend = torch.where(small, -0.5, log1pmx(torch.where(small, 1.0, y)) / torch.where(small, 1.0, y) ** 2)
    return -z * z * (1 / (1 + y) + bend)


_TINY, _CLOSE = 1e-300, 1e-2
_FAMILIES: dict[type[Distribution], Formula] = {
    d.Beta: _beta,
    d.Cauchy: _cauchy,
    d.ContinuousBernoulli: _continuous_bernoulli,
    d.Exponential: _exponential,
    d.FisherSnedecor: _fisher_snedecor,
    d.Gamma: _gamma,
    d.Gumbel: _gumbel,
    d.HalfCauchy: _half_cauchy,
    d.HalfNormal: _half_normal,
    d.InverseGamma: _inverse_gamma,
    d.Kumaraswamy: _kumaraswamy,
    d.Laplace: _laplace,
    d.LogNormal: _log_normal,
    LogitRelaxedBernoulli: _logistic,
    d.Normal: _normal,
    d.Pareto: _pareto,
    d.RelaxedBernoulli: _relaxed_bernoulli,
    d.StudentT: _student_t,
    d.Uniform: _uniform,
    d.VonMises: _von_mises,
    d.Weibull: _weibull,
}
if hasattr(d, "GeneralizedPareto"):  # newer than the oldest torch supported
    _FAMILIES[d.GeneralizedPareto] = _generalized_pareto
