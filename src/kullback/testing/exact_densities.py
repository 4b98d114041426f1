"""Log-densities of torch's scalar families in mpmath, from the parameters as stored.

Written from the definitions and not by calling `log_prob`, which has its own errors in float64. Each density also says
where its mass sits, so that a quadrature can be laid over it whatever its scale.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from torch import Tensor
from torch.distributions import Distribution

from kullback.testing.exact import mpmath
from kullback.testing.pair_parameters import parameters


@dataclass(frozen=True)
class ExactDensity:
    """A log-density on [low, high], and a centre and scale of its mass."""

    log_density: Callable[[Any], Any]
    low: Any
    high: Any
    centre: Any
    scale: Any
    discrete: bool = False
    atoms: int | None = None


def known(distribution: Distribution) -> bool:
    """Whether the family is in the table; a stranger's class of the same name is another distribution."""
    kind = type(distribution)
    return kind.__name__ in _DENSITIES and kind.__module__.partition(".")[0] == "torch"


def exact_density(distribution: Distribution) -> ExactDensity:
    """The exact density of a single distribution of a known family."""
    build = _DENSITIES[type(distribution).__name__]
    mp = mpmath()
    numbers: dict[str, Any] = {}
    for name, tensor in parameters(distribution).items():
        numbers[name] = mp.mpf(tensor.item()) if tensor.dim() == 0 else _vector(tensor)
    return build(mp, **numbers)


def _vector(tensor: Tensor) -> list[Any]:
    return [mpmath().mpf(x) for x in tensor.double().tolist()]


def _normal(mp: Any, loc: Any, scale: Any) -> ExactDensity:
    constant = mp.log(scale) + mp.log(2 * mp.pi) / 2
    return ExactDensity(lambda x: -(((x - loc) / scale) ** 2) / 2 - constant, -mp.inf, mp.inf, loc, scale)


def _half_normal(mp: Any, scale: Any) -> ExactDensity:
    constant = mp.log(scale) + mp.log(mp.pi / 2) / 2
    return ExactDensity(lambda x: -((x / scale) ** 2) / 2 - constant, mp.mpf(0), mp.inf, scale, scale)


def _log_normal(mp: Any, loc: Any, scale: Any) -> ExactDensity:
    normal = _normal(mp, loc, scale)
    return ExactDensity(
        lambda x: normal.log_density(mp.log(x)) - mp.log(x), mp.mpf(0), mp.inf, mp.exp(loc), mp.exp(loc) * scale
    )


def _laplace(mp: Any, loc: Any, scale: Any) -> ExactDensity:
    constant = mp.log(2 * scale)
    return ExactDensity(lambda x: -abs(x - loc) / scale - constant, -mp.inf, mp.inf, loc, scale)


def _cauchy(mp: Any, loc: Any, scale: Any) -> ExactDensity:
    constant = mp.log(mp.pi * scale)
    return ExactDensity(lambda x: -mp.log(1 + ((x - loc) / scale) ** 2) - constant, -mp.inf, mp.inf, loc, scale)


def _half_cauchy(mp: Any, scale: Any) -> ExactDensity:
    constant = mp.log(mp.pi * scale / 2)
    return ExactDensity(lambda x: -mp.log(1 + (x / scale) ** 2) - constant, mp.mpf(0), mp.inf, scale, scale)


def _student_t(mp: Any, df: Any, loc: Any, scale: Any) -> ExactDensity:
    constant = mp.loggamma(df / 2) - mp.loggamma((df + 1) / 2) + mp.log(df * mp.pi) / 2 + mp.log(scale)
    tail = (df + 1) / 2
    return ExactDensity(
        lambda x: -tail * mp.log(1 + ((x - loc) / scale) ** 2 / df) - constant, -mp.inf, mp.inf, loc, scale
    )


def _gumbel(mp: Any, loc: Any, scale: Any) -> ExactDensity:
    def log_density(x: Any) -> Any:
        z = (x - loc) / scale
        return -z - mp.exp(min(-z, 10**6)) - constant  # beyond that, far below anything a sum could notice

    constant = mp.log(scale)
    return ExactDensity(log_density, -mp.inf, mp.inf, loc, scale)


def _gamma(mp: Any, concentration: Any, rate: Any) -> ExactDensity:
    constant = concentration * mp.log(rate) - mp.loggamma(concentration)
    spread = mp.sqrt(concentration) / rate
    return ExactDensity(
        lambda x: (concentration - 1) * mp.log(x) - rate * x + constant, mp.mpf(0), mp.inf, concentration / rate, spread
    )


def _inverse_gamma(mp: Any, concentration: Any, rate: Any) -> ExactDensity:
    constant = concentration * mp.log(rate) - mp.loggamma(concentration)
    mode = rate / (concentration + 1)
    spread = mode / mp.sqrt(concentration + 1)
    return ExactDensity(
        lambda x: -(concentration + 1) * mp.log(x) - rate / x + constant, mp.mpf(0), mp.inf, mode, spread
    )


def _beta(mp: Any, concentration1: Any, concentration0: Any) -> ExactDensity:
    a, b = concentration1, concentration0
    constant = mp.loggamma(a + b) - mp.loggamma(a) - mp.loggamma(b)
    mean = a / (a + b)
    spread = mp.sqrt(mean * (1 - mean) / (a + b + 1))
    return ExactDensity(
        lambda x: (a - 1) * mp.log(x) + (b - 1) * mp.log1p(-x) + constant, mp.mpf(0), mp.mpf(1), mean, spread
    )


def _kumaraswamy(mp: Any, concentration1: Any, concentration0: Any) -> ExactDensity:
    a, b = concentration1, concentration0
    return ExactDensity(
        lambda x: mp.log(a * b) + (a - 1) * mp.log(x) + (b - 1) * mp.log1p(-(x**a)),
        mp.mpf(0),
        mp.mpf(1),
        mp.mpf("0.5"),
        mp.mpf("0.25"),
    )


def _uniform(mp: Any, low: Any, high: Any) -> ExactDensity:
    constant = -mp.log(high - low)
    return ExactDensity(lambda _: constant, low, high, (low + high) / 2, high - low)


def _exponential(mp: Any, rate: Any) -> ExactDensity:
    constant = mp.log(rate)
    return ExactDensity(lambda x: constant - rate * x, mp.mpf(0), mp.inf, 1 / rate, 1 / rate)


def _pareto(mp: Any, scale: Any, alpha: Any) -> ExactDensity:
    constant = mp.log(alpha) + alpha * mp.log(scale)
    return ExactDensity(lambda x: constant - (alpha + 1) * mp.log(x), scale, mp.inf, 2 * scale, scale / alpha)


def _weibull(mp: Any, scale: Any, concentration: Any) -> ExactDensity:
    def log_density(x: Any) -> Any:
        return mp.log(concentration / scale) + (concentration - 1) * mp.log(x / scale) - (x / scale) ** concentration

    return ExactDensity(log_density, mp.mpf(0), mp.inf, scale, scale / concentration)


def _continuous_bernoulli(mp: Any, probs: Any = None, logits: Any = None) -> ExactDensity:
    natural = mp.log(probs / (1 - probs)) if logits is None else logits
    # The density is exp(t x) t / (e^t - 1), and uniform at t = 0.
    constant = mp.log(natural / mp.expm1(natural)) if natural else mp.mpf(0)
    return ExactDensity(lambda x: natural * x + constant, mp.mpf(0), mp.mpf(1), mp.mpf("0.5"), 1 / (1 + abs(natural)))


def _von_mises(mp: Any, loc: Any, concentration: Any) -> ExactDensity:
    constant = mp.log(2 * mp.pi * mp.besseli(0, concentration))
    spread = 1 / mp.sqrt(1 + concentration)
    centre = loc - 2 * mp.pi * mp.nint(loc / (2 * mp.pi))
    # The density is periodic: any interval of length 2π is the whole circle.
    return ExactDensity(lambda x: concentration * mp.cos(x - loc) - constant, -mp.pi, mp.pi, centre, spread)


def _finite(mp: Any, log_masses: list[Any]) -> ExactDensity:
    last = len(log_masses) - 1
    return ExactDensity(
        lambda k: log_masses[int(k)] if 0 <= k <= last else -mp.inf,
        mp.mpf(0),
        mp.mpf(last),
        mp.mpf(last) / 2,
        mp.mpf(last + 1),
        discrete=True,
        atoms=last + 1,
    )


def _log_odds(mp: Any, probs: Any, logits: Any) -> tuple[Any, Any]:
    """log(1 - p) and log p from whichever was stored; -inf where the probability is 0."""
    if logits is not None:
        return -mp.log1p(mp.exp(logits)), -mp.log1p(mp.exp(-logits))
    return (mp.log1p(-probs) if probs < 1 else -mp.inf), (mp.log(probs) if probs > 0 else -mp.inf)


def _bernoulli(mp: Any, probs: Any = None, logits: Any = None) -> ExactDensity:
    return _finite(mp, list(_log_odds(mp, probs, logits)))


def _times(mp: Any, count: Any, log_probability: Any) -> Any:
    return mp.mpf(0) if count == 0 else count * log_probability


def _binomial(mp: Any, total_count: Any, probs: Any = None, logits: Any = None) -> ExactDensity:
    fails, hits = _log_odds(mp, probs, logits)
    n = int(total_count)
    return _finite(
        mp, [mp.log(mp.binomial(n, k)) + _times(mp, k, hits) + _times(mp, n - k, fails) for k in range(n + 1)]
    )


def _categorical(mp: Any, probs: Any = None, logits: Any = None) -> ExactDensity:
    if logits is None:
        total = mp.fsum(probs)
        return _finite(mp, [mp.log(x / total) if x > 0 else -mp.inf for x in probs])
    top = max(logits)
    total = mp.log(mp.fsum(mp.exp(x - top) for x in logits)) + top
    return _finite(mp, [x - total for x in logits])


def _counting(mp: Any, log_mass: Callable[[Any], Any], mean: Any, spread: Any) -> ExactDensity:
    return ExactDensity(log_mass, mp.mpf(0), mp.inf, mean, spread, discrete=True)


def _poisson(mp: Any, rate: Any) -> ExactDensity:
    def log_mass(k: Any) -> Any:
        return (_times(mp, k, mp.log(rate) if rate else -mp.inf) - rate) - mp.loggamma(k + 1)

    return _counting(mp, log_mass, rate, mp.sqrt(rate))


def _geometric(mp: Any, probs: Any = None, logits: Any = None) -> ExactDensity:
    fails, hits = _log_odds(mp, probs, logits)
    mean = mp.exp(fails - hits)
    return _counting(mp, lambda k: hits + _times(mp, k, fails), mean, mean)


def _negative_binomial(mp: Any, total_count: Any, probs: Any = None, logits: Any = None) -> ExactDensity:
    fails, hits = _log_odds(mp, probs, logits)
    r = total_count
    mean = r * mp.exp(hits - fails)

    def log_mass(k: Any) -> Any:
        return mp.loggamma(k + r) - mp.loggamma(r) - mp.loggamma(k + 1) + r * fails + _times(mp, k, hits)

    return _counting(mp, log_mass, mean, mp.sqrt(mean * mp.exp(-fails)))


_DENSITIES: dict[str, Callable[..., ExactDensity]] = {
    "Bernoulli": _bernoulli,
    "Beta": _beta,
    "Binomial": _binomial,
    "Categorical": _categorical,
    "Cauchy": _cauchy,
    "Chi2": lambda mp, df: _gamma(mp, df / 2, mp.mpf("0.5")),
    "ContinuousBernoulli": _continuous_bernoulli,
    "Exponential": _exponential,
    "Gamma": _gamma,
    "Geometric": _geometric,
    "Gumbel": _gumbel,
    "HalfCauchy": _half_cauchy,
    "HalfNormal": _half_normal,
    "InverseGamma": _inverse_gamma,
    "Kumaraswamy": _kumaraswamy,
    "Laplace": _laplace,
    "LogNormal": _log_normal,
    "NegativeBinomial": _negative_binomial,
    "Normal": _normal,
    "Pareto": _pareto,
    "Poisson": _poisson,
    "StudentT": _student_t,
    "Uniform": _uniform,
    "VonMises": _von_mises,
    "Weibull": _weibull,
}
