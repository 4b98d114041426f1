"""Univariate densities in mpmath, written down from their textbook definitions, and the divergence by brute force.

KL is integrated in x = A + e^y, x = A + (B − A)/(1 + e^−y) or x itself by composite Gauss–Legendre with panels that
double away from the centre of either density and are split at kinks; two orders of the rule must agree. The makers of
tables call it, and tests/pairs/test_univariate.py.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable
from typing import Any, NamedTuple

import mpmath as mp
import numpy as np

Parameters = dict[str, Any]
DIGITS = 60
mp.mp.dps = DIGITS


class Density(NamedTuple):
    """The ends of its support, log-density, a place and scale that matter, and points without a derivative."""

    lower: Any
    upper: Any
    log_pdf: Callable[[Any], Any]
    places: list[tuple[Any, Any]]
    kinks: tuple[Any, ...] = ()


def normal(loc, scale):
    return Density(
        -mp.inf,
        mp.inf,
        lambda x: -(((x - loc) / scale) ** 2) / 2 - mp.log(scale) - mp.log(2 * mp.pi) / 2,
        [(loc, scale)],
    )


def laplace(loc, scale):
    return Density(-mp.inf, mp.inf, lambda x: -abs(x - loc) / scale - mp.log(2 * scale), [(loc, scale)], (loc,))


def cauchy(loc, scale):
    return Density(-mp.inf, mp.inf, lambda x: -mp.log(mp.pi * scale * (1 + ((x - loc) / scale) ** 2)), [(loc, scale)])


def student_t(df, loc, scale):
    level = mp.loggamma((df + 1) / 2) - mp.loggamma(df / 2) - mp.log(df * mp.pi) / 2 - mp.log(scale)
    return Density(
        -mp.inf,
        mp.inf,
        lambda x: level - (df + 1) / 2 * mp.log1p(((x - loc) / scale) ** 2 / df),
        [(loc, scale * mp.sqrt(df)), (loc, scale)],
    )


def gumbel(loc, scale):
    def log_pdf(x):
        z = (x - loc) / scale
        return -mp.log(scale) - z - (mp.exp(-z) if z > -(10**4) else mp.mpf("1e4000"))

    return Density(-mp.inf, mp.inf, log_pdf, [(loc, scale)])


def logistic(temperature, logits):
    def log_pdf(x):
        z = temperature * x - logits
        return mp.log(temperature) - z - 2 * mp.log1p(mp.exp(-z))

    return Density(-mp.inf, mp.inf, log_pdf, [(logits / temperature, 1 / temperature)])


def exponential(rate):
    return Density(mp.mpf(0), mp.inf, lambda x: mp.log(rate) - rate * x, [(1 / rate, 1 / rate)])


def gamma(concentration, rate):
    a = concentration
    level = a * mp.log(rate) - mp.loggamma(a)
    return Density(
        mp.mpf(0),
        mp.inf,
        lambda x: level + (a - 1) * mp.log(x) - rate * x,
        [(max(a, 1) / rate, mp.sqrt(max(a, 1)) / rate)],
    )


def chi2(df):
    return gamma(df / 2, mp.mpf(1) / 2)


def inverse_gamma(concentration, rate):
    a = concentration
    level = a * mp.log(rate) - mp.loggamma(a)
    return Density(
        mp.mpf(0),
        mp.inf,
        lambda x: level - (a + 1) * mp.log(x) - rate / x,
        [(rate / max(a, 1), rate / max(a, 1) / mp.sqrt(max(a, 1)))],
    )


def half_normal(scale):
    return Density(
        mp.mpf(0), mp.inf, lambda x: mp.log(2 / mp.pi) / 2 - mp.log(scale) - (x / scale) ** 2 / 2, [(scale, scale)]
    )


def half_cauchy(scale):
    return Density(
        mp.mpf(0), mp.inf, lambda x: mp.log(2 / (mp.pi * scale)) - mp.log1p((x / scale) ** 2), [(scale, scale)]
    )


def log_normal(loc, scale):
    def log_pdf(x):
        log_x = mp.log(x)
        return -(((log_x - loc) / scale) ** 2) / 2 - mp.log(scale) - mp.log(2 * mp.pi) / 2 - log_x

    return Density(mp.mpf(0), mp.inf, log_pdf, [(mp.exp(loc), mp.exp(loc) * scale)])


def weibull(scale, concentration):
    k = concentration
    return Density(
        mp.mpf(0),
        mp.inf,
        lambda x: mp.log(k / scale) + (k - 1) * mp.log(x / scale) - (x / scale) ** k,
        [(scale, scale / k)],
    )


def fisher_snedecor(df1, df2):
    a, b = df1 / 2, df2 / 2
    level = a * mp.log(df1 / df2) + mp.loggamma(a + b) - mp.loggamma(a) - mp.loggamma(b)
    return Density(
        mp.mpf(0),
        mp.inf,
        lambda x: level + (a - 1) * mp.log(x) - (a + b) * mp.log1p(df1 / df2 * x),
        [(mp.mpf(1), mp.sqrt(1 / a + 1 / b)), (df2 / df1, df2 / df1)],
    )


def pareto(scale, alpha):
    return Density(
        scale,
        mp.inf,
        lambda x: mp.log(alpha) + alpha * mp.log(scale) - (alpha + 1) * mp.log(x),
        [(scale * (1 + 1 / alpha), scale / alpha), (mp.mpf(0), scale)],
    )


def generalized_pareto(loc, scale, concentration):
    xi = concentration

    def log_pdf(x):
        z = (x - loc) / scale
        return -mp.log(scale) - (z if xi == 0 else (1 / xi + 1) * mp.log1p(xi * z))

    upper = loc - scale / xi if xi < 0 else mp.inf
    extra = [(loc - scale / xi, scale / abs(xi))] if xi != 0 else []
    return Density(loc, upper, log_pdf, [(loc + scale, scale), *extra])


def uniform(low, high):
    return Density(low, high, lambda x: -mp.log(high - low), [((low + high) / 2, (high - low) / 2)])


def beta(concentration1, concentration0):
    a, b = concentration1, concentration0
    level = mp.loggamma(a + b) - mp.loggamma(a) - mp.loggamma(b)
    return Density(
        mp.mpf(0),
        mp.mpf(1),
        lambda x: level + (a - 1) * mp.log(x) + (b - 1) * mp.log(1 - x),
        [(a / (a + b), mp.sqrt(a * b / (a + b) ** 3))],
    )


def kumaraswamy(concentration1, concentration0):
    a, b = concentration1, concentration0
    mode = (1 / (1 + max(b, 1))) ** (1 / a)
    return Density(
        mp.mpf(0),
        mp.mpf(1),
        lambda x: mp.log(a * b) + (a - 1) * mp.log(x) + (b - 1) * mp.log(1 - x**a),
        [(mode, min(mode, 1 - mode) / max(a, 1))],
    )


def continuous_bernoulli(probs=None, logits=None):
    eta = mp.log(probs) - mp.log(1 - probs) if logits is None else logits
    level = mp.log(eta / mp.expm1(eta)) if eta != 0 else mp.mpf(0)
    return Density(mp.mpf(0), mp.mpf(1), lambda x: level + eta * x, [(mp.mpf(1) / 2, 1 / (2 + abs(eta)))])


def relaxed_bernoulli(temperature, logits):
    inner = logistic(temperature, logits).log_pdf
    centre = 1 / (1 + mp.exp(-logits / temperature))
    return Density(
        mp.mpf(0),
        mp.mpf(1),
        lambda x: inner(mp.log(x / (1 - x))) - mp.log(x) - mp.log(1 - x),
        [(centre, centre * (1 - centre)), (mp.mpf(1) / 2, mp.mpf(1) / 4)],
    )


def von_mises(loc, concentration):
    # torch's circle ends at the float64 nearest to π.
    pi = mp.mpf(float(mp.pi))
    level = -mp.log(2 * mp.pi * mp.besseli(0, concentration))
    width = 1 / mp.sqrt(max(concentration, 1))
    return Density(
        -pi, pi, lambda x: level + concentration * mp.cos(x - loc), [(loc + 2 * pi * k, width) for k in (-1, 0, 1)]
    )


FAMILIES: dict[str, Callable[..., Density]] = {
    "Beta": beta, "Cauchy": cauchy, "Chi2": chi2, "ContinuousBernoulli": continuous_bernoulli,
    "Exponential": exponential,
    "FisherSnedecor": fisher_snedecor, "Gamma": gamma, "GeneralizedPareto": generalized_pareto, "Gumbel": gumbel,
    "HalfCauchy": half_cauchy, "HalfNormal": half_normal, "InverseGamma": inverse_gamma, "Kumaraswamy": kumaraswamy,
    "Laplace": laplace, "LogNormal": log_normal, "LogitRelaxedBernoulli": logistic, "Normal": normal, "Pareto": pareto,
    "RelaxedBernoulli": relaxed_bernoulli, "StudentT": student_t, "Uniform": uniform, "VonMises": von_mises,
    "Weibull": weibull,
}  # fmt: skip


def make(name: str, parameters: Parameters) -> Density:
    return FAMILIES[name](**{k: mp.mpf(v) for k, v in parameters.items()})


def mixture(weights: list[float], parts: list[Density]) -> Density:
    total = mp.fsum(weights)
    shares = [mp.mpf(w) / total for w in weights]

    def log_pdf(x):
        return mp.log(mp.fsum(s * mp.exp(part.log_pdf(x)) for s, part in zip(shares, parts, strict=True)))

    return Density(
        min(part.lower for part in parts),
        max(part.upper for part in parts),
        log_pdf,
        [place for part in parts for place in part.places],
        tuple(kink for part in parts for kink in part.kinks),
    )


@functools.cache
def gauss_legendre(order: int) -> list[tuple[Any, Any]]:
    """Gauss–Legendre in high precision: Newton's iteration from numpy's nodes."""
    found = []
    for start in np.polynomial.legendre.leggauss(order)[0]:
        x = mp.mpf(float(start))
        for _ in range(4):
            below, value = mp.mpf(1), x
            for k in range(2, order + 1):
                below, value = value, ((2 * k - 1) * x * value - (k - 1) * below) / k
            slope = order * (x * value - below) / (x * x - 1)
            x -= value / slope
        found.append((x, 2 / ((1 - x * x) * slope * slope)))
    return found


def _integrand(p: Density, q: Density, to_x: Callable[[Any], Any], slope: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """p·log(p/q) in the coordinate."""

    def integrand(y):
        x = to_x(y)
        log_p = p.log_pdf(x)
        return mp.exp(log_p) * (log_p - q.log_pdf(x)) * slope(y)

    return integrand


def kl(p: Density, q: Density, *, order: int = 30, check: bool = True) -> Any:
    """∫ p log(p/q) for a p inside q whose expectation is finite."""
    with mp.workdps(DIGITS if p.upper == mp.inf else 300):
        to_x, slope, from_x = _coordinate(p)
        integrand = _integrand(p, q, to_x, slope)
        edges = _edges(p, q, (slope, from_x), integrand)
        value = _composite(integrand, edges, order)
        if check:
            again = _composite(integrand, edges, order + 8)
            size = _composite(lambda y: abs(integrand(y)), edges, order)
            if abs(value - again) > mp.mpf("1e-16") * abs(again) + mp.mpf("1e-24") * size:
                raise ArithmeticError(f"{value} {again}")
            value = again
        return value


def _coordinate(p: Density):
    low, high = p.lower, p.upper
    if low == -mp.inf:
        return (lambda y: y), (lambda y: mp.mpf(1)), (lambda x: x)
    if high == mp.inf:
        return (lambda y: low + mp.exp(y)), mp.exp, (lambda x: mp.log(x - low) if x > low else None)
    width = high - low

    def inside(x):
        return mp.log((x - low) / (high - x)) if low < x < high else None

    return (lambda y: low + width / (1 + mp.exp(-y))), (lambda y: width / (2 + mp.exp(y) + mp.exp(-y))), inside


def _edges(p, q, there_and_back, integrand):
    """Points doubling away from every place, as far as the integrand matters."""
    slope, from_x = there_and_back
    points, narrowest = set(), mp.inf
    line = p.lower == -mp.inf
    for place, width in [*p.places, *q.places]:
        x = place
        if not line:
            x = max(place, p.lower + width) if p.upper == mp.inf else place
        y = from_x(x)
        if y is None:
            # A place outside is felt at its distance from the end.
            distance = abs(place - p.lower)
            y = mp.log(distance) if distance > 0 and p.upper == mp.inf else mp.mpf(0)
            w = mp.mpf(1)
        else:
            w = width / slope(y)
            w = w if line else min(w, mp.mpf(1))
        w = max(w, mp.mpf("1e-12"))
        narrowest = min(narrowest, w)
        points |= {y}
        for k in range(-1, 110 if line else 40):
            points |= {y + w * mp.mpf(2) ** k, y - w * mp.mpf(2) ** k}
    if not line:
        # Closer to a finite upper end than e^−640, 1 − x is lost in the working precision.
        points = {y for y in points if -5000 < y < (5000 if p.upper == mp.inf else 640)}
    middle = p.places[0][0]
    sizes = {y: _log_size(integrand, y) + (float(mp.log(1 + abs(y - middle))) if line else 0) for y in points}
    top = max(sizes.values())
    kept = [y for y in points if sizes[y] > top - 48]
    low, high = min(kept), max(kept)
    ordered = sorted(points)
    low, high = ordered[max(ordered.index(low) - 1, 0)], ordered[min(ordered.index(high) + 1, len(ordered) - 1)]
    kinks = [from_x(k) for k in [*p.kinks, *q.kinks]]
    inner = {y for y in points if low <= y <= high} | {k for k in kinks if k is not None and low < k < high}
    ordered = sorted(inner)
    return [y for i, y in enumerate(ordered) if i == 0 or y - ordered[i - 1] > narrowest / 100 or y in kinks]


def _log_size(integrand, y):
    try:
        size = abs(integrand(y))
        return float(mp.log(size)) if 0 < size < mp.inf else -1e9
    except (ValueError, ZeroDivisionError, MemoryError, OverflowError):
        return -1e9


def _composite(f, edges, order):
    total = mp.mpf(0)
    for a, b in itertools.pairwise(edges):
        half, middle = (b - a) / 2, (a + b) / 2
        total += half * mp.fsum(w * f(middle + half * x) for x, w in gauss_legendre(order))
    return total


def diverges(p: str, params_p: Parameters, q: str, params_q: Parameters) -> bool:
    """Whether E_p log q is -inf although p lies inside q: moments that p lacks, one rule a line."""
    power = {"Cauchy": 1.0, "HalfCauchy": 1.0, "StudentT": params_p.get("df"), "Pareto": params_p.get("alpha")}.get(p)
    if p == "InverseGamma":
        power = params_p["concentration"]
    if p == "FisherSnedecor":
        power = params_p["df2"] / 2
    if p == "GeneralizedPareto" and params_p["concentration"] > 0:
        power = 1 / params_p["concentration"]
    moment = {
        "Normal": 2.0, "HalfNormal": 2.0, "Laplace": 1.0, "Exponential": 1.0, "Gamma": 1.0, "Chi2": 1.0, "Gumbel": 1.0,
        "LogitRelaxedBernoulli": 1.0, "Weibull": params_q.get("concentration"),
    }.get(q)  # fmt: skip
    if q == "GeneralizedPareto" and params_q["concentration"] == 0:
        moment = 1.0
    if power is not None and moment is not None and power <= moment:
        return True
    if q == "Gumbel":  # E e^(−x/β) on the left
        if p in ("Cauchy", "StudentT"):
            return True
        rate = {"Laplace": 1 / params_p.get("scale", 1), "LogitRelaxedBernoulli": params_p.get("temperature")}.get(p)
        return rate is not None and rate <= 1 / params_q["scale"]
    if q == "InverseGamma":  # E 1/x at 0
        near = {
            "Exponential": 1.0, "HalfNormal": 1.0, "HalfCauchy": 1.0, "ContinuousBernoulli": 1.0, "Uniform": 1.0,
            "Weibull": params_p.get("concentration"), "Gamma": params_p.get("concentration"), "GeneralizedPareto": 1.0,
            "Beta": params_p.get("concentration1"), "Kumaraswamy": params_p.get("concentration1"),
            "RelaxedBernoulli": params_p.get("temperature"), "Chi2": params_p.get("df", 0) / 2,
            "FisherSnedecor": params_p.get("df1", 0) / 2,
        }.get(p)  # fmt: skip
        starts_at_zero = params_p.get("low", 0.0) == 0 and params_p.get("loc", 0.0) == 0
        return near is not None and starts_at_zero and near <= 1
    return False
