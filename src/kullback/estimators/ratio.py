"""KL(p ‖ q) from draws by a cross-fitted density ratio; `estimate_kl` calls it for Samples in several dimensions.

A ridge-regularised logistic regression tells x from y; its log-odds estimate g ≈ log p/q. Held-out draws then enter

    D = mean_x g − mean_y e^g + 1 + ½·tr(S_p·Cov w)

The first part is the functional of Nguyen, Wainwright and Jordan (2010). It is flat at the true ratio, so an error δ of
g costs only −½·E_p[δ²]; the last term adds back what the estimated weights w cost on average, S_p the second moments of
the features under p. The influence function gives the error: Var_p(g)/n + Var_q(e^g)/m.

Features are the coordinates, their products, log(1 + z²) of each for heavy tails, and, where held-out draws are told
apart better with them, random Fourier features. Where the draws are few beside the products, squares alone may be
better. If none of these can express log p/q, the value is too low.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from kullback._core.progress import follow
from kullback.estimators.estimate import Estimate, normal_quantile, reach_over_zero
from kullback.estimators.inputs import note_ceiling, scaled, seeded, two_sides
from kullback.estimators.pareto import effective_size, pareto_k
from kullback.tensors.views import Samples

_FOLDS = 5
_MAX_PRODUCTS = 40  # coordinates up to which products of two are tried
_NUM_FOURIER = 100
_MAX_HESSIAN_ROWS = 5000
_MAX_STEPS = 40
_MAX_LOG = 50.0
_CLIP = 4.0  # spreads from the centre, beyond which g is constant: products of outliers would decide everything
_RIDGES = (0.1, 1.0, 10.0)
_DRAWS_PER_FEATURE = 10  # with fewer, features without products are tried, too


class _Fourier(NamedTuple):
    """Random frequencies and phases of cos(zω + b), which span functions as smooth as a Gaussian kernel."""

    frequency: Tensor
    phase: Tensor


class _Choice(NamedTuple):
    """Features of both sides, and the penalty of their weights."""

    kind: str
    phi_x: Tensor
    phi_y: Tensor
    ridge: float


class _Fit(NamedTuple):
    """Weights, and the inverse Hessian of the penalised loss at them."""

    weight: Tensor
    inverse: Tensor


def ratio_between_samples(p: Samples, q: Samples, *, confidence: float, generator: torch.Generator | None) -> Estimate:
    """Two sets of draws, told apart by a classifier."""
    draws = two_sides(p, q)
    n, m = len(draws.x), len(draws.y)
    name, warnings = "density ratio", list(draws.warnings)
    if draws.x.shape[1] == 0:
        return Estimate(0.0, 0.0, 0.0, 0.0, name, (n, m), confidence, {"dimension": 0}, warnings)
    random = seeded(generator)
    x, y = scaled(draws)
    kind, phi_x, phi_y, ridge = _choose(x, y, random)
    log_x, log_y, correction = _cross_fit(phi_x, phi_y, ridge, random)
    ratio_y = log_y.exp()
    value = float(log_x.mean() - ratio_y.mean() + 1) + correction
    stderr = math.sqrt(float(log_x.var() / n + ratio_y.var() / m))
    diagnostics: dict[str, object] = {
        "dimension": x.shape[1],
        "features": f"{phi_x.shape[1]}, {kind}",
        "ridge": ridge,
        "mean_ratio": float(ratio_y.mean()),
        "effective_sample_size": effective_size(log_y),
        "pareto_k": pareto_k(log_y),
        "weight_correction": correction,
    }
    note_ceiling(value, min(n, m), diagnostics, warnings)
    if correction > 3 * stderr or phi_x.shape[1] > min(n, m) / 5:
        warnings.append(
            f"{phi_x.shape[1]} features from {min(n, m)} draws: their fitting error is of the size of the interval."
        )
    if float(pareto_k(log_y)) > 0.5:
        warnings.append(
            "p/q has heavy tails under q: q's draws hardly reach where p lies, and the error is understated."
        )
    reach = normal_quantile(confidence) * stderr
    low, high = reach_over_zero(value - reach, value + reach, warnings)
    return Estimate(value, stderr, low, high, name, (n, m), confidence, diagnostics, warnings)


def _choose(x: Tensor, y: Tensor, random: np.random.Generator) -> _Choice:
    """Features and ridge whose classifier tells held-out draws apart best."""
    fourier = _Fourier(
        torch.from_numpy(random.standard_normal((x.shape[1], _NUM_FOURIER))) / math.sqrt(x.shape[1]),
        torch.from_numpy(random.uniform(0, 2 * math.pi, _NUM_FOURIER)),
    )
    products, draws = x.shape[1] <= _MAX_PRODUCTS, min(len(x), len(y))
    quadratic = _features(x, y, products=products)
    choices = [_Choice("quadratic", *quadratic, ridge) for ridge in _RIDGES]
    if products and draws < _DRAWS_PER_FEATURE * quadratic[0].shape[1]:
        squares = _features(x, y, products=False)
        choices += [_Choice("squares", *squares, ridge) for ridge in _RIDGES]
    if draws >= 5 * (_NUM_FOURIER + quadratic[0].shape[1]):
        both = _features(x, y, products=products, fourier=fourier)
        choices.append(_Choice("quadratic and Fourier", *both, _RIDGES[1]))
    rows_x, rows_y = (torch.from_numpy(random.permutation(len(z))[: 2 * _MAX_HESSIAN_ROWS]) for z in (x, y))
    return min(choices, key=lambda choice: _held_out_loss(choice.phi_x[rows_x], choice.phi_y[rows_y], choice.ridge))


def _features(x: Tensor, y: Tensor, *, products: bool, fourier: _Fourier | None = None) -> tuple[Tensor, Tensor]:
    """Both sides, columns standardised over the pooled draws, a constant first."""
    z = torch.cat([x, y]).clamp(-_CLIP, _CLIP)
    d = z.shape[1]
    squares = z.square()
    columns = [z, torch.log1p(squares)]
    if products:
        i, j = torch.triu_indices(d, d)
        columns.append(z[:, i] * z[:, j])
    else:
        columns.append(squares)
    if fourier is not None:
        columns.append(torch.cos(z @ fourier.frequency + fourier.phase))
    phi = torch.cat(columns, 1)
    spread = phi.std(0)
    phi = ((phi - phi.mean(0)) / torch.where(spread > 0, spread, 1.0))[:, spread > 0]
    phi = torch.cat([torch.ones(len(z), 1, dtype=z.dtype), phi], 1)
    return phi[: len(x)], phi[len(x) :]


def _held_out_loss(phi_x: Tensor, phi_y: Tensor, ridge: float) -> float:
    """Logistic loss of one held-out third."""
    a, b = 2 * len(phi_x) // 3, 2 * len(phi_y) // 3
    weight = _fit(phi_x[:a], phi_y[:b], ridge).weight
    loss_x = torch.nn.functional.softplus(-(phi_x[a:] @ weight)).mean()
    return float(loss_x + torch.nn.functional.softplus(phi_y[b:] @ weight).mean())


def _fit(phi_x: Tensor, phi_y: Tensor, ridge: float, start: Tensor | None = None) -> _Fit:
    """Minimise mean_x softplus(−g) + mean_y softplus(g) + penalty: sides of equal weight, so g needs no offset."""
    n, m = len(phi_x), len(phi_y)
    penalty = torch.full((phi_x.shape[1],), ridge * (1 / n + 1 / m), dtype=phi_x.dtype)
    penalty[0] = 1e-9
    weight = torch.zeros_like(penalty) if start is None else start
    step_x, step_y = (max(len(phi) // _MAX_HESSIAN_ROWS, 1) for phi in (phi_x, phi_y))
    some_x, some_y = phi_x[::step_x], phi_y[::step_y]

    def objective(w: Tensor) -> Tensor:
        loss = torch.nn.functional.softplus(-(phi_x @ w)).mean() + torch.nn.functional.softplus(phi_y @ w).mean()
        return loss + (penalty * w.square()).sum() / 2

    value, inverse = objective(weight), torch.eye(len(penalty), dtype=phi_x.dtype)
    for step in range(_MAX_STEPS):
        pull_x, pull_y = torch.sigmoid(-(phi_x @ weight)), torch.sigmoid(phi_y @ weight)
        gradient = phi_y.T @ pull_y / m - phi_x.T @ pull_x / n + penalty * weight
        if step < 6 or step % 6 == 0:
            odds_x, odds_y = torch.sigmoid(some_x @ weight), torch.sigmoid(some_y @ weight)
            hessian = (some_x.T * (odds_x * (1 - odds_x) / len(some_x))) @ some_x
            hessian = hessian + (some_y.T * (odds_y * (1 - odds_y) / len(some_y))) @ some_y + torch.diag(penalty)
            inverse = torch.cholesky_inverse(torch.linalg.cholesky(hessian + 1e-12 * torch.eye(len(penalty))))
        direction = inverse @ gradient
        if float(gradient @ direction) < 1e-9 / (n + m):
            break
        size = 1.0
        while size > 1e-4:
            trial = weight - size * direction
            found = objective(trial)
            if found <= value:
                weight, value = trial, found
                break
            size /= 2
        else:
            break
    return _Fit(weight, inverse)


def _cross_fit(phi_x: Tensor, phi_y: Tensor, ridge: float, random: np.random.Generator) -> tuple[Tensor, Tensor, float]:
    """Held-out log-ratios at both sides, and what the estimated weights cost on average."""
    whole = _fit(phi_x, phi_y, ridge)
    fold_x, fold_y = (torch.from_numpy(random.permutation(len(phi)) % _FOLDS) for phi in (phi_x, phi_y))
    log_x, log_y = torch.empty(len(phi_x), dtype=phi_x.dtype), torch.empty(len(phi_y), dtype=phi_x.dtype)
    for fold in follow(range(_FOLDS), "fitting"):
        weight = _fit(phi_x[fold_x != fold], phi_y[fold_y != fold], ridge, whole.weight).weight
        log_x[fold_x == fold] = phi_x[fold_x == fold] @ weight
        log_y[fold_y == fold] = phi_y[fold_y == fold] @ weight
    score_x = phi_x * torch.sigmoid(-(phi_x @ whole.weight)).unsqueeze(1)
    score_y = phi_y * torch.sigmoid(phi_y @ whole.weight).unsqueeze(1)
    noise = torch.cov(score_x.T) / len(phi_x) + torch.cov(score_y.T) / len(phi_y)
    covariance = whole.inverse @ noise.reshape(whole.inverse.shape) @ whole.inverse
    cost = float((phi_x @ covariance * phi_x).sum(1).mean()) / 2
    # A ratio above m cannot be told from m draws of q; without the limit one extrapolated outlier decides the mean.
    limit = math.log(len(phi_y))
    return log_x.clamp(-_MAX_LOG, limit), log_y.clamp(-_MAX_LOG, limit), cost * _FOLDS / (_FOLDS - 1)
