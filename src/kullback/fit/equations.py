"""Solvers of likelihood equations by Newton steps, for many data sets at once. Called by `moments.py`.

Points x (n, B) have weights w (n, B) or (n, 1) that sum to 1 over n; results have shape (B,). A Newton step squares the
relative error, so that steps end when the last one was smaller than the square root of a rounding.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from kullback.fit.one_or_many import Number, apply, exp, holds, log, means, number, tensor, trigamma, where
from kullback.fit.weighted import mean_of, middle_and_spread, variance_of

_MAX_STEPS = 60
_TINY = 1e-300
_LAST_STEP = 1e-8  # relative
_MAX_COUNT = 1e6  # of a negative binomial; above it is a Poisson distribution


def gamma_concentration(gap: Tensor) -> Tensor:
    """K with log k − ψ(k) = gap, by Newton steps in 1/k (Minka 2002)."""
    g = number(gap)
    k = (3 - g + ((g - 3) * (g - 3) + 24 * g) ** 0.5) / (12 * g)
    for _ in range(_MAX_STEPS):
        (digamma,), (slope,) = apply(torch.digamma, [k]), apply(trigamma, [k])
        # log k − ψ(k) cancels for large k: then 1/(2k) + 1/(12k²) − 1/(120k⁴).
        far = k > 1e3
        value = where(far, 0.5 / k + 1 / (12 * k * k), log(k) - digamma) - g
        slope = where(far, -0.5 - 1 / (6 * k), k - k * k * slope)  # k² d(value)/dk
        inverse = 1 / k + value / slope
        new = where(inverse > 0, 1 / where(inverse > 0, inverse, 1.0), 2 * k)
        done = holds(abs(new - k) <= _LAST_STEP * k)
        k = new
        if done:
            break
    return tensor(k)


def inverse_digamma(target: Tensor) -> Tensor:
    """K with ψ(k) = target."""
    y = number(target)
    k = where(y >= -2.22, exp(y) + 0.5, -1 / where(y >= -2.22, -1.0, y + 0.5772156649015329))
    for _ in range(_MAX_STEPS):
        (digamma,), (slope,) = apply(torch.digamma, [k]), apply(trigamma, [k])
        new = k - (digamma - y) / slope
        new = where(new > 0, new, k / 4)
        done = holds(abs(new - k) <= _LAST_STEP * k)
        k = new
        if done:
            break
    return tensor(k)


def dirichlet_equations(mean_logs: Tensor, start: Tensor) -> Tensor:
    """α (B, K) with ψ(α_k) − ψ(Σα) = mean log x_k: Newton with the diagonal-plus-rank-one Hessian (Minka 2000)."""
    alpha = start
    for _ in range(_MAX_STEPS):
        total = alpha.sum(-1, keepdim=True)
        gradient = torch.digamma(total) - torch.digamma(alpha) + mean_logs
        diagonal, common = -trigamma(alpha), trigamma(total)
        shift = (gradient / diagonal).sum(-1, keepdim=True) / (1 / common + (1 / diagonal).sum(-1, keepdim=True))
        new = alpha - (gradient - shift) / diagonal
        new = torch.where(new > alpha / 4, new, alpha / 4)
        done = bool(((new - alpha).abs() <= _LAST_STEP * alpha).all())
        alpha = new
        if done:
            break
    return alpha


def weibull_of_logs(logs: Tensor, w: Tensor) -> tuple[Tensor, Tensor]:
    """Shape k and log scale for y = log x: the root of f(k) = 1/k + mean(y) − Σ w e^{ky} y / Σ w e^{ky}.

    The derivatives of the last term are the cumulants of y under the weights w e^{ky}. Four of them come from one pass
    over the data, so that Householder's step of third order needs two or three passes. f decreases in k.
    """
    middle = mean_of(logs, w)
    y = logs - middle
    k = number(1.2825498 / mean_of(y.square(), w).sqrt().clamp(min=_TINY))  # π/√6
    highest = y.amax(0)
    top = number(highest)
    powers = _weighted_powers(y, w) if isinstance(k, float) else None
    for _ in range(_MAX_STEPS):
        tilted = y.mul(k).sub_(k * top).exp_()
        if powers is not None:
            mass, *rest = (powers @ tilted[:, 0]).tolist()
            a, b, c, d = (each / mass for each in rest)
        else:
            (mass,) = means(w, tilted)
            a, b, c, d = (means(w, tilted.mul_(y))[0] / mass for _power in range(4))
        variance, square = b - a * a, a * a
        third = c - 3 * a * b + 2 * a * square
        fourth = d - 4 * a * c - 3 * b * b + 12 * square * b - 6 * square * square
        inverse = 1 / k
        inverse_square = inverse * inverse
        f1 = -inverse_square - variance
        newton = (inverse - a) / f1
        ratio = newton * (2 * inverse_square * inverse - third) / f1
        bend = newton * newton * (-6 * inverse_square * inverse_square - fourth) / (6 * f1)
        step = newton * (1 - ratio / 2) / (1 - ratio + bend)
        step = where((step * newton > 0) & (abs(step) < 4 * abs(newton)), step, newton)
        small = abs(step) < 1e-4 * k
        k = where(step < k / 2, k - step, k / 2)
        if holds(small):  # the next relative error is the fourth power of this one
            break
    return tensor(k), middle + highest + mean_of((y - highest).mul_(k).exp_(), w).log() / k


def _weighted_powers(y: Tensor, w: Tensor) -> Tensor:
    """w, wy, wy², wy³, wy⁴ of one data set as the rows of a matrix (5, n)."""
    rows = [w[:, 0]]
    for _power in range(4):
        rows.append(rows[-1] * y[:, 0])
    return torch.stack(rows)


def von_mises_concentration(length: Tensor) -> Tensor:
    """κ with I₁(κ)/I₀(κ) = length of the mean direction."""
    kappa = length * (2 - length.square()) / (1 - length.square())
    for _ in range(_MAX_STEPS):
        ratio = torch.special.i1e(kappa) / torch.special.i0e(kappa)
        slope = 1 - ratio.square() - torch.where(kappa > 1e-8, ratio / kappa.clamp(min=1e-8), 0.5)
        new = kappa - (ratio - length) / slope
        new = torch.where(new > 0, new, kappa / 2)
        done = bool(((new - kappa).abs() <= _LAST_STEP * kappa).all())
        kappa = new
        if done:
            break
    return kappa


def cauchy_equations(x: Tensor, w: Tensor) -> tuple[Tensor, Tensor]:
    """Location and scale with mean(z·r) = 0 and mean(r) = 1/2 for z = (x − loc)/scale, r = 1/(1 + z²).

    The likelihood has one maximum (Copas 1975). Where Newton's step is long or does not ascend, one of the EM
    algorithm of the Student t takes its place, which always ascends.
    """
    loc, scale = (number(each) for each in middle_and_spread(x, w))
    for _ in range(_MAX_STEPS):
        z = (x - loc).div_(scale)
        r = z.square().add_(1).reciprocal_()
        (mean_r,), (mean_zr,) = means(w, r), means(w, z.mul_(r))
        (mean_zr2,), (mean_r2,) = means(w, z.mul_(r)), means(w, r.mul_(r))
        # Jacobian of (mean zr, mean r) with respect to (loc/scale, log scale).
        slope, cross, width = mean_r - 2 * mean_r2, 2 * mean_zr2, 2 * (mean_r - mean_r2)
        up = mean_zr - cross
        determinant = slope * width - up * cross
        # At a maximum slope < 0 < width.
        ascends = (slope < 0) & (determinant < 0)
        divisor = where(ascends, determinant, -1.0)
        shift = (up * (mean_r - 0.5) - width * mean_zr) / divisor
        growth = (cross * mean_zr - slope * (mean_r - 0.5)) / divisor
        newton = ascends & (abs(shift) < 1) & (abs(growth) < 1)
        shift = where(newton, shift, mean_zr / mean_r)
        growth = where(newton, growth, 0.5 * log((1 - mean_r) / mean_r))
        loc, scale = loc + scale * shift, scale * exp(growth)
        if holds(newton & (abs(shift) + abs(growth) < _LAST_STEP)):
            break
    return tensor(loc), tensor(scale)


def half_cauchy_scale(x: Tensor, w: Tensor) -> Tensor:
    """Scale with mean(1/(1 + (x/scale)²)) = 1/2: the left side increases with log scale."""
    scale = number(middle_and_spread(x, w)[0].clamp(min=_TINY))
    for _ in range(_MAX_STEPS):
        r = (x / scale).square_().add_(1).reciprocal_()
        (mean_r,), (mean_r2,) = means(w, r), means(w, r.square_())
        slope = 2 * (mean_r - mean_r2)
        step = _at_most_one((0.5 - mean_r) / where(slope > 0, slope, _TINY))
        scale = scale * exp(step)
        if holds(abs(step) < _LAST_STEP):
            break
    return tensor(scale)


def negative_binomial_count(x: Tensor, w: Tensor) -> Tensor:
    """The count r of largest likelihood, where the probability of success is mean/(mean + r).

    Solves E ψ(x + r) − ψ(r) = log(1 + mean/r) in log r, over the distinct values of x. With less spread than a Poisson
    distribution there is no root, and r stops at a limit.
    """
    values, inverse = torch.unique(x, return_inverse=True)
    mass = x.new_zeros(len(values), x.shape[1]).scatter_add_(0, inverse, w.expand_as(x))
    values = values[:, None]
    mean, variance = mean_of(x, w), variance_of(x, w)
    excess = variance - mean
    infinite = excess <= 1e-9 * mean
    log_r = (mean.square() / torch.where(infinite, mean, excess).clamp(min=_TINY)).clamp(1e-3, _MAX_COUNT).log()

    def slope_and_curvature(log_r: Tensor) -> tuple[Tensor, Tensor]:
        r = log_r.exp()
        first = mean_of(torch.digamma(values + r) - torch.digamma(r), mass) - torch.log1p(mean / r)
        second = mean_of(trigamma(values + r) - trigamma(r), mass) + mean / (r * (r + mean))
        return r * first, r * first + r.square() * second

    return torch.where(infinite, _MAX_COUNT, _maximise(slope_and_curvature, log_r).exp().clamp(max=_MAX_COUNT))


def _maximise(derivatives: Callable[[Tensor], tuple[Tensor, Tensor]], u: Tensor) -> Tensor:
    """Newton steps in one coordinate, with a step along the slope where the function is not concave."""
    for _ in range(_MAX_STEPS):
        slope, curvature = derivatives(u)
        step = torch.where(curvature < 0, -slope / curvature, slope.sign()).nan_to_num().clamp(-1, 1)
        u = u + step
        if bool((step.abs() < _LAST_STEP).all()):
            break
    return u


def _at_most_one(step: Number) -> Number:
    return where(abs(step) < 1, step, where(step > 0, step * 0 + 1, step * 0 - 1))
