"""The exact KL divergence over numbers: a sum over the atoms, or a tanh-sinh quadrature in 30 digits."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from torch.distributions import Distribution

from kullback.testing.exact import mpmath
from kullback.testing.exact_densities import ExactDensity, exact_density, known
from kullback.testing.pair_parameters import parameters

_DIGITS = 30
_MOST_ATOMS = 4000
_NOTHING = -(10**5)
"""A log-density below which nothing is left, and whose exponential would need as many digits."""


def exact_kl(p: Distribution, q: Distribution) -> tuple[float, float] | None:
    """KL(p || q) of two single distributions and the error of that number; None where a density is not known."""
    if not known(p) or not known(q):
        return None
    key = tuple(
        (type(d), tuple((name, tuple(x.double().flatten().tolist())) for name, x in parameters(d).items()))
        for d in (p, q)
    )
    return _cached(key, _Pair(p, q))


class _Pair:
    """Carries two distributions past the cache, whose key already tells them apart."""

    def __init__(self, p: Distribution, q: Distribution) -> None:
        self.p, self.q = p, q

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Pair)

    def __hash__(self) -> int:
        return 0


@lru_cache(maxsize=2048)
def _cached(_key: Any, pair: _Pair) -> tuple[float, float] | None:
    mp = mpmath()
    with mp.workdps(_DIGITS):
        p, q = exact_density(pair.p), exact_density(pair.q)
        if p.discrete != q.discrete:
            return None
        return _sum(mp, p, q) if p.discrete else _integral(mp, p, q)


def _sum(mp: Any, p: ExactDensity, q: ExactDensity) -> tuple[float, float] | None:
    last = p.atoms if p.atoms is not None else int(mp.ceil(p.centre + 60 * p.scale)) + 200
    if last > _MOST_ATOMS:
        return None
    terms = []
    for k in range(last):
        log_p = p.log_density(mp.mpf(k))
        if log_p == -mp.inf:
            continue
        log_q = q.log_density(mp.mpf(k))
        if log_q == -mp.inf:
            return float("inf"), 0.0
        terms.append(mp.exp(log_p) * (log_p - log_q))
    return float(mp.fsum(terms)), 0.0


def _integral(mp: Any, p: ExactDensity, q: ExactDensity) -> tuple[float, float] | None:
    if p.low < q.low or p.high > q.high:
        return float("inf"), 0.0

    def integrand(t: Any) -> Any:
        x = p.centre + p.scale * t
        if not p.low < x < p.high:
            return mp.mpf(0)
        log_p = p.log_density(x)
        if log_p < _NOTHING:
            return mp.mpf(0)
        return p.scale * mp.exp(log_p) * (log_p - q.log_density(x))

    # In units of p's own scale, split where its bulk ends and where q has a kink.
    low, high = ((end - p.centre) / p.scale for end in (p.low, p.high))
    inner = [mp.mpf(t) for t in (-40, -6, -1, 0, 1, 6, 40)] + [(q.centre - p.centre) / p.scale]
    points = [low, *sorted(t for t in set(inner) if low < t < high), high]
    value, error = mp.quad(integrand, points, error=True)
    if not error <= min(abs(value), 1) / 10**6:
        return None  # the tails of q are too light for p, or the quadrature is at its end: no truth rather than a guess
    return float(value), float(error)
