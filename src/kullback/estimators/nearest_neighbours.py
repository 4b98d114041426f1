"""KL(p ‖ q) from draws by nearest neighbours; `estimate_kl` calls it for Samples.

Around x_i let δ_i be the radius of the smallest ball that holds k other x and k of the y, and l_i, k_i how many x and y
lie strictly inside. Then

    D = log(m/(n−1)) + (1/n) Σ_i [ψ(l_i + 1) − ψ(k_i + 1)]

The larger of the two distances decides the radius, so k adapts to the sparser side, as in the bias-reduced estimator
of Wang, Kulkarni and Verdú (2009, eq. 29). Both masses come from one ball, which makes the term exactly unbiased where
p and q are constant inside it, and leaves no logarithm of a distance: duplicates and columns of whole numbers are
counted. With `k=` given, the estimator is their fixed one (eq. 5)

    D = (d/n) Σ_i log(ν_k(i)/ρ_k(i)) + log(m/(n−1)),   ρ, ν the distances to the k-th neighbour in x and in y,

and against a known q that of Pérez-Cruz (2008).

The bootstrap is not valid here: it duplicates points, and a duplicate is a neighbour at distance 0. Errors come from
subsamples without replacement of size n^(2/3) (Politis and Romano, 1994).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor
from torch.distributions import Distribution, MultivariateNormal

from kullback._core.errors import InputValueError, explain_problem
from kullback._core.progress import follow
from kullback.estimators.estimate import Estimate, normal_quantile, reach_over_zero
from kullback.estimators.inputs import log_density, matrix, note_ceiling, scaled, seeded, two_sides
from kullback.estimators.neighbours import joint_balls, kth_distances, search
from kullback.pairs import kl_divergence
from kullback.tensors.views import Samples

_NUM_SUBSAMPLES = 100
_MAX_REPLICA = 1000  # draws of the normals on which the bias is tried
_NUM_REPLICAS = 16
_LEAST_DRAWS_FOR_INTERVAL = 50

Statistic = Callable[[Tensor, Tensor], Tensor]


def neighbours_between_samples(
    p: Samples, q: Samples, *, confidence: float, generator: torch.Generator | None, k: int | None = None
) -> Estimate:
    """Two sets of draws.

    Args:
        p: n draws.
        q: m draws.
        confidence: Of the interval.
        generator: Chooses the subsamples.
        k: A fixed number of neighbours; None adapts it.
    """
    draws = two_sides(p, q)
    n, m = len(draws.x), len(draws.y)
    _check_k(k, min(n - 1, m))
    random = seeded(generator)
    if draws.x.shape[1] == 0:
        return Estimate(0.0, 0.0, 0.0, 0.0, "nearest neighbours", (n, m), confidence, {"dimension": 0}, draws.warnings)
    x, y = scaled(draws) if k is None else (draws.x, draws.y)
    diagnostics: dict[str, object] = {"dimension": x.shape[1], "k": "adaptive" if k is None else k}
    warnings = list(draws.warnings)
    statistic: Statistic = adaptive_terms if k is None else lambda a, b: _fixed_terms(a, b, k)
    if k is not None:
        _refuse_ties(x, y, k)
    terms = statistic(x, y)
    stderr = subsampling_error(statistic, x, y, random)
    ties = 1 - len(torch.unique(x, dim=0)) / n
    diagnostics["tied_share"] = ties
    if ties > 0.01:
        warnings.append(f"{ties:.0%} of the draws of p repeat another one; repeated values are counted as atoms.")
    if x.shape[1] > 1:
        _note_bias(x, y, statistic, stderr, random=random, diagnostics=diagnostics, warnings=warnings)
    noted: Any = {"confidence": confidence, "diagnostics": diagnostics, "warnings": warnings}
    return _finish(terms, stderr, (n, m), method=_describe(k), **noted)


def neighbours_against_density(
    p: Samples, q: Distribution, *, confidence: float, generator: torch.Generator | None, k: int | None = None
) -> Estimate:
    """Draws of p against a known density q: the mean of ψ(k) − log(n−1) − log V_d − d·log ρ_k(i) − log q(x_i)."""
    x = matrix(p, "p")
    _check_k(k, len(x) - 1)
    neighbours = k if k is not None else min(3, len(x) - 1)
    log_q = log_density(q, p, x)
    offsets = torch.arange(len(x), dtype=torch.float64).unsqueeze(1)

    def statistic(points: Tensor, rows: Tensor) -> Tensor:
        return _entropy_terms(points, neighbours) - log_q[rows[:, 0].long()]

    if bool((search(x).kth(x, neighbours + 1) == 0).any()):
        raise InputValueError(
            explain_problem(
                "p has draws that repeat: against a density their divergence is infinite.",
                got=f"{len(x) - len(torch.unique(x, dim=0))} repeated draws of {len(x)}",
                expected="draws of a continuous distribution",
                instead="Counts or integer Samples for a discrete one",
            )
        )
    terms = statistic(x, offsets)
    stderr = subsampling_error(statistic, x, offsets, seeded(generator), paired=True)
    diagnostics: dict[str, object] = {"dimension": x.shape[1], "k": neighbours}
    warnings = []
    if x.shape[1] >= 3:
        warnings.append(
            f"The entropy of p in {x.shape[1]} dimensions from {len(x)} draws has a bias beyond the interval."
        )
    noted: Any = {"confidence": confidence, "diagnostics": diagnostics, "warnings": warnings}
    return _finish(terms, stderr, (len(x),), method="nearest neighbours, q known", **noted)


def adaptive_terms(x: Tensor, y: Tensor) -> Tensor:
    """The terms whose mean is the estimate, by balls that both sides share."""
    balls = joint_balls(x, y, 2 if x.shape[1] <= 2 else 1)
    own, other = torch.digamma(balls.own + 1.0), torch.digamma(balls.other + 1.0)
    return own - other + math.log(len(y) / (len(x) - 1))


def _fixed_terms(x: Tensor, y: Tensor, k: int) -> Tensor:
    own, other = kth_distances(x, y, min(k, len(x) - 1, len(y)))
    return x.shape[1] * (other.log() - own.log()) + math.log(len(y) / (len(x) - 1))


def _entropy_terms(x: Tensor, k: int) -> Tensor:
    """Minus the terms of the Kozachenko–Leonenko entropy."""
    n, d = x.shape
    log_unit_ball = d / 2 * math.log(math.pi) - math.lgamma(d / 2 + 1)
    k = min(k, n - 1)
    return (
        float(torch.digamma(torch.tensor(float(k), dtype=torch.float64)))
        - math.log(n - 1)
        - log_unit_ball
        - d * search(x).kth(x, k + 1).log()
    )


def subsampling_error(
    statistic: Statistic, x: Tensor, y: Tensor, random: np.random.Generator, *, paired: bool = False
) -> float:
    """Standard error of the mean of the terms, from their spread over subsamples of size b, scaled by √(b/(n − b)).

    Args:
        statistic: The terms as a function of both sides.
        x: Draws of p.
        y: Draws of q, or whatever belongs to the rows of x if they are paired.
        random: Chooses the rows.
        paired: Whether both sides are subsampled by the same rows.
    """
    n, m = len(x), len(y)
    share = max(min(n, m) ** (-1 / 3), 3 / n, 0.0 if paired else 3 / m)
    if share > 0.75:
        return math.inf  # fewer than about five draws say nothing about their own spread
    size, size_y = math.ceil(share * n), math.ceil(share * m)
    values = []
    for _ in follow(range(_NUM_SUBSAMPLES), "subsamples"):
        rows = random.choice(n, size, replace=False)
        rows_y = rows if paired else random.choice(m, size_y, replace=False)
        values.append(float(statistic(x[rows], y[rows_y]).mean()))
    spread = float(np.std([value for value in values if math.isfinite(value)] or [math.inf]))
    return spread * math.sqrt(share / (1 - share))


def _note_bias(
    x: Tensor,
    y: Tensor,
    statistic: Statistic,
    stderr: float,
    *,
    random: np.random.Generator,
    diagnostics: dict[str, object],
    warnings: list[str],
) -> None:
    """Try the estimator on normals with the means and covariances of the data, where the truth is known."""
    (n, d), m = x.shape, len(y)
    if min(n, m) <= d + 1:
        warnings.append(
            f"{d} dimensions and only {min(n, m)} draws: the bias is unknown and probably exceeds the value."
        )
        return
    p, q = (MultivariateNormal(z.mean(0), torch.cov(z.T).reshape(d, d) + 1e-9 * torch.eye(d)) for z in (x, y))
    shrink = min(_MAX_REPLICA / max(n, m), 1.0)
    a, b = max(int(shrink * n), 4), max(int(shrink * m), 4)
    errors = []
    for _ in range(_NUM_REPLICAS):
        noise = torch.from_numpy(random.standard_normal((a + b, d)))
        replica_x, replica_y = (
            law.loc + noise[rows] @ law.scale_tril.T for law, rows in ((p, slice(a)), (q, slice(a, None)))
        )
        errors.append(float(statistic(replica_x, replica_y).mean()))
    bias = (sum(errors) / len(errors) - float(kl_divergence(p, q))) * (a / n) ** min(2 / d, 1.0)
    diagnostics["dimension_bias"] = bias
    if abs(bias) > stderr:
        warnings.append(
            f"In {d} dimensions nearest neighbours are biased: on normals like these by {bias:+.2g}, "
            f"{abs(bias) / stderr if stderr else math.inf:.1f} standard errors. The interval reaches that much "
            "further, which is a guess for other shapes."
        )


def _finish(
    terms: Tensor,
    stderr: float,
    sizes: tuple[int, ...],
    *,
    confidence: float,
    diagnostics: dict[str, object],
    warnings: list[str],
    method: str,
) -> Estimate:
    value = float(terms.mean())
    reach = normal_quantile(confidence) * stderr
    bias = float(cast("float", diagnostics.get("dimension_bias", 0.0)))
    low, high = reach_over_zero(value - reach - max(bias, 0.0), value + reach - min(bias, 0.0), warnings)
    note_ceiling(value, min(sizes), diagnostics, warnings)
    if min(sizes) < _LEAST_DRAWS_FOR_INTERVAL:
        warnings.append(f"{min(sizes)} draws are too few for an interval with its nominal coverage.")
    return Estimate(value, stderr, low, high, method, sizes, confidence, diagnostics, warnings)


def _describe(k: int | None) -> str:
    return "nearest neighbours, adaptive k" if k is None else f"nearest neighbours, k = {k}"


def _check_k(k: int | None, largest: int) -> None:
    if k is None or (isinstance(k, int) and not isinstance(k, bool) and 1 <= k <= largest):
        return
    raise InputValueError(
        explain_problem(
            "k counts neighbours.", got=f"k={k!r}", expected=f"a whole number from 1 to {largest}, or None to adapt it"
        )
    )


def _refuse_ties(x: Tensor, y: Tensor, k: int) -> None:
    own, other = kth_distances(x, y, k)
    tied = (own == 0) | (other == 0)
    if bool(tied.any()):
        raise InputValueError(
            explain_problem(
                f"{int(tied.sum())} draws have their {k}-th neighbour at distance 0, whose logarithm is infinite.",
                got=f"draw {int(tied.nonzero()[0])} of p",
                expected="draws without repeats for a fixed k",
                instead=f"k=None, which counts repeats, or a k above {k}",
            )
        )
