"""Draws of KL(p ‖ q) given counts of two distributions that may resemble each other; `counts.py` calls it.

    q ~ Dirichlet(b, …, b),   p given q ~ Dirichlet(a + c·q)

With c = 0, p and q are unrelated; with a large c, p is nearly q. A prior that takes them as unrelated fails on long
tails that both share, such as Zipf's law: each category seen on one side only then counts as a large difference.
Here the data choose: a, b and c have flat priors in their logarithms.

The sampler alternates between the unknowns. Given q, the counts x of p come from t_k ≤ x_k draws of the base
measure a + c·q (Antoniak 1974), a share c·q/(a + c·q) of them from q: they are further counts of q. t_k is a sum of
independent Bernoulli variables; a normal of the same mean and variance stands for it, cut at 1 and x_k.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import torch

Array = np.ndarray

_NUM_STEPS = 900
_WARM_UP_SHARE = 0.25
_MAX_WORK = 3_000_000  # steps times categories; above, fewer steps
_MIN_STEPS = 160
_A, _C, _B = 0, 1, 2
_LOG_RANGES = ((-14.0, 7.0), (-5.0, 18.0), (-9.0, 7.0))
_PROPOSAL_SCALE = 0.7


def related_draws(x: Array, y: Array, random: np.random.Generator) -> Array:
    """Draws of KL(p ‖ q) from its posterior.

    Args:
        x: Counts of p, one per category.
        y: Counts of q.
        random: Where the draws come from.

    Example:
        >>> import numpy as np
        >>> counts = np.array([40.0, 30, 20, 10])
        >>> draws = related_draws(counts, counts, np.random.default_rng(0))
        >>> bool(0 <= draws.min() and draws.mean() < 0.1)
        True
    """
    sampler = _Sampler(x, y, random)
    num_steps = int(np.clip(_MAX_WORK // len(x), _MIN_STEPS, _NUM_STEPS))
    draws = np.array([sampler.step() for _ in range(num_steps)])
    return draws[int(_WARM_UP_SHARE * num_steps) :]


class _Sampler:
    """The current q and the logarithms of a, c and b."""

    def __init__(self, x: Array, y: Array, random: np.random.Generator) -> None:
        self._x, self._y, self._random = x, y, random
        self._q = (x + y + 0.5) / (x + y + 0.5).sum()
        self._counts_of_q = y
        self._logs = [0.0, math.log(len(x)), 0.0]

    def step(self) -> float:
        """Draw everything once; returns KL(p ‖ q)."""
        for _ in range(2):
            self._move(_A, self._log_evidence_of_p)
            self._move(_C, self._log_evidence_of_p)
        a, c = math.exp(self._logs[_A]), math.exp(self._logs[_C])
        seen = self._x > 0
        self._counts_of_q = self._y.copy()
        self._counts_of_q[seen] += _draws_from_q(self._x[seen], a, c * self._q[seen], self._random)
        for _ in range(2):
            self._move(_B, self._log_evidence_of_q)
        log_q = log_dirichlet(self._counts_of_q + math.exp(self._logs[_B]), self._random)
        self._q = np.exp(log_q)
        log_p = log_dirichlet(self._x + a + c * self._q, self._random)
        return max(float((np.exp(log_p) * (log_p - log_q)).sum()), 0.0)

    def _log_evidence_of_p(self, logs: list[float]) -> float:
        return _log_evidence(self._x, math.exp(logs[_A]) + math.exp(logs[_C]) * self._q)

    def _log_evidence_of_q(self, logs: list[float]) -> float:
        return _log_evidence(self._counts_of_q, np.full_like(self._q, math.exp(logs[_B])))

    def _move(self, which: int, log_density: Callable[[list[float]], float]) -> None:
        """One random-walk Metropolis step of one logarithm."""
        low, high = _LOG_RANGES[which]
        proposal = list(self._logs)
        proposal[which] += _PROPOSAL_SCALE * self._random.standard_normal()
        threshold = math.log(1 - self._random.random())
        if low < proposal[which] < high and threshold < log_density(proposal) - log_density(self._logs):
            self._logs = proposal


def log_dirichlet(shape: Array, random: np.random.Generator) -> Array:
    """Logarithms of one draw. A gamma of shape a is one of shape a + 1 times U^(1/a), which underflows for small a."""
    log_gamma = np.log(random.standard_gamma(shape + 1)) - random.standard_exponential(len(shape)) / shape
    top = log_gamma.max()
    return np.asarray(log_gamma - top - np.log(np.exp(log_gamma - top).sum()))


def _log_evidence(counts: Array, shape: Array) -> float:
    """Logarithm of the Dirichlet-multinomial probability of the counts, but for a constant."""
    total, seen = float(shape.sum()), counts > 0
    own = _lgamma(shape[seen] + counts[seen]) - _lgamma(shape[seen])
    return math.lgamma(total) - math.lgamma(total + float(counts.sum())) + float(own.sum())


def _draws_from_q(x: Array, a: float, c_q: Array, random: np.random.Generator) -> Array:
    """How many of the counts x stand for independent draws from q; real numbers from 0 to x."""
    base = a + c_q
    mean = base * (_digamma(base + x) - _digamma(base))
    variance = np.maximum(mean + base**2 * (_trigamma(base + x) - _trigamma(base)), 0)
    independent = np.clip(mean + np.sqrt(variance) * random.standard_normal(len(x)), 1, x)
    share = c_q / base
    spread = np.sqrt(independent * share * (1 - share))
    return np.asarray(np.clip(independent * share + spread * random.standard_normal(len(x)), 0, independent))


def _lgamma(values: Array) -> Array:
    return np.asarray(torch.lgamma(torch.from_numpy(values)))


def _digamma(values: Array) -> Array:
    return np.asarray(torch.digamma(torch.from_numpy(values)))


def _trigamma(values: Array) -> Array:
    return np.asarray(torch.special.zeta(torch.tensor(2.0, dtype=torch.float64), torch.from_numpy(values)))
