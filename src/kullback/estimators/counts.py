"""KL(p ‖ q) from counts of categories; `estimate_kl` calls it for Counts and for whole-number Samples.

With counts x_k of n and y_k of m in K categories:

    "plug-in"          Σ p̂ log(p̂/q̂),  p̂ ∝ x + smoothing,  q̂ ∝ y + smoothing
    "zhang-grabchak"   Σ (x_k/n)·[ψ(m+1) − ψ(y_k+1) − ψ(n) + ψ(x_k)]       (Zhang and Grabchak 2014, in closed form)
    "dirichlet"        E[KL(p ‖ q)] for p ~ Dirichlet(x + a), q ~ Dirichlet(y + b)
                       = Σ (α_k/α₀)·[ψ(α_k+1) − ψ(α₀+1) − ψ(β_k) + ψ(β₀)],  α = x + a, β = y + b

Without `prior=` the posterior is that of `related_counts.py`, whose prior lets p and q resemble each other and learns
its own strength: with more categories than counts a fixed prior decides the answer (Nemenman, Shafee, Bialek 2002).
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.distributions import Distribution

from kullback._core.errors import InputTypeError, InputValueError, ShapeError, explain_problem
from kullback._core.validation import check_rows
from kullback.estimators.estimate import Estimate, normal_quantile
from kullback.estimators.inputs import log_density, matrix, seeded
from kullback.estimators.related_counts import log_dirichlet, related_draws
from kullback.tensors.views import Counts, Samples

_MAX_GAMMAS = 4_000_000


class Table(NamedTuple):
    """Counts of both sides in float64, with what the user asked to add to each."""

    x: Tensor
    y: Tensor
    smoothing_x: float
    smoothing_y: float


def table_of(p: Counts, q: Counts) -> Table:
    """Read both sides; refuses batches and categories that do not match."""
    rows = []
    for name, view in (("p", p), ("q", q)):
        if view.tensor.dim() != 1:
            raise ShapeError(
                explain_problem(
                    f"estimate_kl() takes one row of counts; {name} has {view.tensor.dim()} dimensions.",
                    got=repr(view),
                    expected="a tensor of shape (K,)",
                    instead="[estimate_kl(Counts(a), Counts(b)) for a, b in zip(x, y)]",
                )
            )
        check_rows(view.tensor.detach(), "Counts", name, "sync")
        rows.append(view.tensor.detach().to(device="cpu", dtype=torch.float64))
    if rows[0].shape != rows[1].shape:
        raise ShapeError(
            explain_problem(
                "p and q count different numbers of categories.",
                got=f"{len(rows[0])} and {len(rows[1])}",
                expected="one entry per category, 0 for one that was not seen, in the same order",
                instead="kb.align(p, q, how='pad') if the first categories are the same",
            )
        )
    return Table(rows[0], rows[1], p.smoothing, q.smoothing)


def counts_kl(
    table: Table,
    *,
    method: str,
    confidence: float,
    generator: torch.Generator | None,
    prior: float | None = None,
) -> Estimate:
    """Estimate from a table by one of the three methods."""
    n, m = float(table.x.sum()), float(table.y.sum())
    diagnostics = _diagnostics(table)
    warnings = _warnings(table)
    if method == "dirichlet":
        value, stderr, low, high = _posterior(table, confidence, seeded(generator), prior)
        if diagnostics["g_p_value"] > 1 - confidence:
            # The posterior of a positive number excludes 0; the test says whether the data do.
            low = 0.0
        if prior is None and warnings:
            # Categories that a side never showed add what the prior says; to the z-estimator they add nothing.
            reach = normal_quantile(confidence) * _influence_error(table, smoothed=False)
            without = zhang_grabchak(table.x, table.y)
            low, high = max(min(low, without - reach), 0.0), max(high, without + reach)
        method = "Dirichlet posterior, " + ("related p and q" if prior is None else f"prior {prior:g}")
    else:
        value = _plug_in(table) if method == "plug-in" else zhang_grabchak(table.x, table.y)
        stderr = _influence_error(table, smoothed=method == "plug-in")
        reach = normal_quantile(confidence) * stderr
        low, high = value - reach, value + reach
        if math.isinf(value):
            low = high = value
            warnings.append(
                "q never showed a category that p has: the plug-in is infinite. Counts(y, smoothing=0.5) is not."
            )
    sizes = (round(n), round(m))
    return Estimate(value, stderr, low, high, method, sizes, confidence, diagnostics, warnings)


def zhang_grabchak(x: Tensor, y: Tensor) -> float:
    """The z-estimator, whose bias falls exponentially with the counts.

    Example:
        >>> import torch
        >>> x, y = torch.tensor([5.0, 3, 0, 12, 1], dtype=torch.float64), torch.tensor([2.0, 7, 4, 9, 0])
        >>> round(zhang_grabchak(x, y.double()), 15)
        0.184930942073799
    """
    n, m, seen = x.sum(), y.sum(), x > 0
    x, y = x[seen], y[seen]
    terms = torch.digamma(m + 1) - torch.digamma(y + 1) - torch.digamma(n) + torch.digamma(x)
    return float((x / n * terms).sum())


def counts_against_density(p: Samples | Counts, q: Distribution, *, confidence: float) -> Estimate:
    """Counts of p against known probabilities: Σ (x_k/n)·[ψ(x_k) − ψ(n) − log q_k], error Var_p(log p/q)/n."""
    if isinstance(p, Counts):
        counts = table_of(p, p).x
        values = torch.arange(len(counts))
    else:
        matrix(p, "p")
        values, repeats = torch.unique(p.tensor.detach().cpu(), dim=0, return_counts=True)
        counts = repeats.double()
    seen = counts > 0
    x, n, values = counts[seen], counts.sum(), values[seen]
    log_q = log_density(q, Samples(values), values.double().reshape(len(values), -1))
    value = float((x / n * (torch.digamma(x) - torch.digamma(n) - log_q)).sum())
    log_ratio = (x / n).log() - log_q
    variance = (x / n * (log_ratio - (x / n * log_ratio).sum()).square()).sum() / n
    stderr = math.sqrt(float(variance))
    reach = normal_quantile(confidence) * stderr
    diagnostics, warnings = {"num_categories": len(x), "unseen_mass_p": float((x == 1).sum() / n)}, []
    if diagnostics["unseen_mass_p"] > 0.1:
        warnings.append(
            f"About {diagnostics['unseen_mass_p']:.0%} of p's probability lies in values that its {n:.0f} draws do not "
            "show: the estimate is too low, and its interval can miss."
        )
    ends = value - reach, value + reach
    return Estimate(
        value, stderr, *ends, "zhang-grabchak, q known", (round(float(n)),), confidence, diagnostics, warnings
    )


def _plug_in(table: Table) -> float:
    p, q = _shares(table.x + table.smoothing_x), _shares(table.y + table.smoothing_y)
    return float(torch.special.xlogy(p, p / q).nan_to_num(nan=0.0, posinf=math.inf).sum())


def _shares(weights: Tensor) -> Tensor:
    return weights / weights.sum()


def _influence_error(table: Table, *, smoothed: bool) -> float:
    """First-order standard error: Var_p(log p/q)/n + Var_q(p/q)/m."""
    n, m = table.x.sum(), table.y.sum()
    # The z-estimator is finite where q's count is 0; half a count there stands for what it could be.
    p = _shares(table.x + (table.smoothing_x if smoothed else 0.0))
    q = _shares(table.y + (table.smoothing_y if smoothed else 0.5 * (table.y == 0) * (table.x > 0)))
    log_ratio = torch.where(p > 0, (p / q).log(), 0.0)
    ratio = torch.where(q > 0, p / q, 0.0)
    variance = ((p * log_ratio.square()).sum() - (p * log_ratio).sum().square()) / n
    variance = variance + ((q * ratio.square()).sum() - (q * ratio).sum().square()) / m
    return math.sqrt(max(float(variance), 0.0)) if bool(variance.isfinite()) else math.inf


def _posterior(
    table: Table, confidence: float, random: np.random.Generator, prior: float | None
) -> tuple[float, float, float, float]:
    """Mean, standard deviation and quantiles of KL under the posterior."""
    a, b = _fixed_prior(prior, table.smoothing_x), _fixed_prior(prior, table.smoothing_y)
    if a is None or b is None:
        draws = related_draws(table.x.numpy(), table.y.numpy(), random)
        value = float(draws.mean())
    else:
        value = _posterior_mean(table.x + a, table.y + b)
        num_draws = int(min(max(_MAX_GAMMAS // len(table.x), 200), 2000))
        draws = np.array([_draw_kl(table.x.numpy() + a, table.y.numpy() + b, random) for _ in range(num_draws)])
    low, high = np.quantile(draws, [(1 - confidence) / 2, (1 + confidence) / 2])
    return value, float(draws.std()), float(low), float(high)


def _fixed_prior(prior: float | None, smoothing: float) -> float | None:
    """The counts per category that the user chose to add; None if the data are to choose."""
    chosen = prior if prior is not None else smoothing or None
    if chosen is not None and not 0 < chosen < math.inf:
        raise InputValueError(
            explain_problem("A prior is a number of counts.", got=f"prior={chosen!r}", expected="> 0, such as 0.5")
        )
    return chosen


def _posterior_mean(alpha: Tensor, beta: Tensor) -> float:
    share = _shares(alpha)
    log_p = torch.digamma(alpha + 1) - torch.digamma(alpha.sum() + 1)
    log_q = torch.digamma(beta) - torch.digamma(beta.sum())
    return float((share * (log_p - log_q)).sum())


def _draw_kl(alpha: np.ndarray, beta: np.ndarray, random: np.random.Generator) -> float:
    log_p, log_q = log_dirichlet(alpha, random), log_dirichlet(beta, random)
    return max(float((np.exp(log_p) * (log_p - log_q)).sum()), 0.0)


def _diagnostics(table: Table) -> dict[str, float]:
    """Tests of p = q, and how much of q's probability the counts have not seen."""
    x, y = table.x, table.y
    n, m = float(x.sum()), float(y.sum())
    both = x + y
    seen = both > 0
    expected_x, expected_y = both * n / (n + m), both * m / (n + m)
    g = 2 * float((torch.special.xlogy(x, x / expected_x) + torch.special.xlogy(y, y / expected_y))[seen].sum())
    freedom = max(int(seen.sum()) - 1, 0)
    # With empty bins the index is infinite: half a count is added to every bin, on both sides.
    empty = bool(((x == 0) | (y == 0))[seen].any())
    p, q = _shares(x[seen] + 0.5 * empty), _shares(y[seen] + 0.5 * empty)
    psi = float(((p - q) * (p / q).log()).sum())
    return {
        "g_statistic": max(g, 0.0),
        "g_p_value": _chi2_tail(max(g, 0.0), freedom),
        "psi": psi,
        "psi_p_value": _chi2_tail(psi * n * m / (n + m), freedom),
        "psi_null_mean": freedom * (1 / n + 1 / m),
        "degrees_of_freedom": freedom,
        "num_categories": len(x),
        "unseen_by_q": float((x * (y == 0)).sum() / n),
        "unseen_mass_q": float((y == 1).sum() / m),
        "unseen_mass_p": float((x == 1).sum() / n),
        "log_n": math.log(max(min(n, m), 1.0)),
    }


def _chi2_tail(statistic: float, freedom: int) -> float:
    """P(χ² ≥ statistic)."""
    if freedom == 0:
        return 1.0
    half = torch.tensor([freedom / 2, statistic / 2], dtype=torch.float64)
    return float(torch.special.gammaincc(half[0], half[1]))


def _warnings(table: Table) -> list[str]:
    found = []
    unseen = float((table.x * (table.y == 0)).sum() / table.x.sum())
    if unseen > 0:
        number = int(((table.x > 0) & (table.y == 0)).sum())
        found.append(
            f"q never showed {number} categories that hold {unseen:.2g} of p's counts. If q cannot produce them, "
            "KL(p || q) is infinite; the estimate supposes that it can."
        )
    for name, counts in (("p", table.x), ("q", table.y)):
        singles = float((counts == 1).sum() / counts.sum())
        if singles > 0.1:
            found.append(
                f"About {singles:.0%} of {name}'s probability lies in categories that its {counts.sum():.0f} draws do "
                f"not show (of {len(counts)}): the answer depends on the prior, and intervals can miss."
            )
    return found


def counts_of_draws(x: Tensor, y: Tensor) -> Table:
    """Count the distinct values of whole-number draws; values of either side are the categories."""
    if x.dtype.is_complex or y.dtype.is_complex:
        raise InputTypeError("Draws are real numbers.")
    both = torch.cat([x.reshape(len(x), -1), y.reshape(len(y), -1)]).cpu()
    _, index = torch.unique(both, dim=0, return_inverse=True)
    size = int(index.max()) + 1
    first, second = (torch.bincount(part, minlength=size).double() for part in (index[: len(x)], index[len(x) :]))
    return Table(first, second, 0.0, 0.0)
