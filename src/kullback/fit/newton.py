"""Batched Newton steps with a line search: minimises many small smooth functions at once. Called by every fit.

An objective maps points of shape (B, k) to values of shape (B,), where value b depends on point b only. So the gradient
of the sum holds all B gradients, and k further backward passes hold all B Hessians.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

import torch
from torch import Tensor

Objective = Callable[[Tensor], Tensor]
Derivatives = Callable[[Tensor], tuple[Tensor, Tensor, Tensor]]
Progress = Callable[[int, Tensor], None]

_ARMIJO_FRACTION = 1e-4
_MAX_HALVINGS = 40
_ROUNDING = 2e-15  # of a mean over the data, relative
_DECREMENT_TOLERANCE = 1e-13  # half the squared length of the last step, in units of the objective
_STALLED_DECREMENT = 1e-7  # where rounding ends the line search, this much is still called a minimum
_SADDLE_CURVATURE = -1e-6  # relative to the largest curvature
_WELL_CONDITIONED = 1e-4  # smallest over largest entry of the Cholesky factor's diagonal
_MAX_STEP = 20.0  # of one coordinate; logarithms of scales may not overflow in one step
_EXTRA_STEPS = 20  # for other starts after the first has converged
_EIGENVALUE_FLOOR = 1e-10  # relative: flatter directions get a step of bounded length


@dataclass
class Minimum:
    """Where the steps ended, one row per point.

    Attributes:
        point: (B, k).
        value: (B,), the objective.
        converged: (B,), whether no further descent is possible.
        iterations: Steps taken.
        history: The objective of every row before each step and at the end, as lists of (B,) tensors.
        hessian: (B, k, k), exact; NaN where the objective has no second derivative.
        gradient: (B, k).
    """

    point: Tensor
    value: Tensor
    converged: Tensor
    iterations: int
    hessian: Tensor
    gradient: Tensor
    history: list[Tensor] = field(default_factory=list)


@dataclass(frozen=True)
class Search:
    """How long and from where to search.

    Attributes:
        seed: Of random starts.
        restarts: How many of them.
        max_iterations: Steps before giving up.
        progress: Called with the number of the step and the values.
    """

    seed: int = 0
    restarts: int = 12
    max_iterations: int = 200
    progress: Progress | None = None


def derivatives(objective: Objective, point: Tensor, *, second: bool = True) -> tuple[Tensor, Tensor, Tensor]:
    """Value (B,), gradient (B, k) and Hessian (B, k, k) of an objective."""
    u = point.detach().requires_grad_()
    with torch.enable_grad():
        value = objective(u)
        (gradient,) = torch.autograd.grad(value.sum(), u, create_graph=second)
        rows = []
        if second:
            for j in range(u.shape[-1]):
                if not gradient.requires_grad:  # linear in every coordinate
                    rows.append(torch.zeros_like(u))
                    continue
                (row,) = torch.autograd.grad(gradient[:, j].sum(), u, retain_graph=True, allow_unused=True)
                rows.append(torch.zeros_like(u) if row is None else row)
    hessian = torch.stack(rows, dim=1) if second else u.new_full((*u.shape, u.shape[-1]), torch.nan)
    hessian = (hessian + hessian.mT) / 2
    return value.detach(), gradient.detach(), hessian.detach()


def minimise(
    objective: Objective,
    start: Tensor,
    search: Search | None = None,
    formulas: Derivatives | None = None,
    *,
    restarts: bool = False,
    leaves: Callable[[Tensor], Tensor] | None = None,
) -> Minimum:
    """Minimise from every row of `start`.

    A step is −|H|⁻¹g with the absolute values of the Hessian's eigenvalues, so that it goes down also where the
    function is not convex; where the Hessian is NaN, a BFGS approximation takes its place. A stationary point with
    negative curvature is left along that curvature.

    Args:
        objective: (B, k) → (B,).
        start: (B, k), with finite objective.
        search: When to give up; `converged` then says False.
        formulas: Value, gradient and Hessian at a point; by default by backpropagation.
        leaves: Which rows (B,) of points are so far out that no step is worth taking.
        restarts: The rows are starts of one search: when one has converged, the others get a limited number of steps.
    """
    search = search or Search()
    evaluate = formulas or partial(derivatives, objective)
    if formulas is not None:

        def objective(point: Tensor) -> Tensor:
            return formulas(point)[0]

    u = start.detach().clone()
    bfgs = _Bfgs(u)
    history: list[Tensor] = []
    converged = torch.zeros(u.shape[0], dtype=torch.bool, device=u.device)
    iterations, escapes, last_step = 0, 0, search.max_iterations
    ahead: tuple[Tensor, Tensor, Tensor] | None = None
    while True:
        value, gradient, hessian = evaluate(u) if ahead is None else ahead
        ahead = None
        history.append(value)
        if search.progress is not None:
            search.progress(iterations, value)
        curvature = hessian
        if not math.isfinite(hessian.sum().item()):
            exact = hessian.isfinite().flatten(1).all(-1)
            bfgs.update(u, gradient)
            curvature = torch.where(exact[:, None, None], hessian.nan_to_num(), bfgs.matrix)
        step, decrement, saddle, away = _newton_step(curvature, gradient)
        lost = ~(value.isfinite() & gradient.isfinite().all(-1))
        if leaves is not None:
            lost = lost | leaves(u)
        noise = _DECREMENT_TOLERANCE * value.abs().clamp(min=1.0)
        small = (decrement <= noise) & ~lost
        if bool((small & saddle & ~converged).any()) and escapes < 3:
            u = _leave_saddle(objective, u, value, away, small & saddle)
            escapes += 1
            iterations += 1
            continue
        converged = converged | (small & ~saddle)
        if restarts and bool(converged.any()):
            last_step, restarts = min(last_step, 2 * iterations + _EXTRA_STEPS), False
        if bool((converged | lost).all()) or iterations >= last_step:
            u, value = _last_step(objective, u, value + noise, torch.where(converged[:, None], step, 0.0))
            return Minimum(u, torch.minimum(history[-1], value), converged, iterations, hessian, gradient, history)
        done = converged | lost
        # Most full steps go down, and the derivatives there are needed next.
        new = u + torch.where(done[:, None], 0.0, step)
        ahead = evaluate(new)
        moved = done | (ahead[0] <= value - 2 * _ARMIJO_FRACTION * decrement + _ROUNDING * value.abs())
        if not bool(moved.all()):
            ahead = None
            new, moved = _line_search(objective, u, step, value=value, slope=-2 * decrement, done=done)
        # No smaller value within rounding: a minimum if the predicted descent is tiny, otherwise stuck.
        stuck = ~moved & ~converged & ~lost
        converged = converged | (stuck & (decrement <= _STALLED_DECREMENT * value.abs().clamp(min=1.0)))
        iterations += 1
        if bool((converged | lost | ~moved).all()):
            return Minimum(new, history[-1], converged, iterations, hessian, gradient, history)
        u = new


def _last_step(objective: Objective, u: Tensor, limit: Tensor, step: Tensor) -> tuple[Tensor, Tensor]:
    """The points after one more step, which squares the remaining error, where they are below the limit; and values."""
    with torch.no_grad():
        after = objective(u + step)
    return torch.where((after <= limit)[:, None], u + step, u), after.nan_to_num(torch.inf)


def _newton_step(hessian: Tensor, gradient: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """The step, half of gᵀ|H|⁻¹g, whether a curvature is negative, and the direction of the most negative one."""
    lower, wrong = torch.linalg.cholesky_ex(hessian)
    diagonal = lower.diagonal(dim1=-2, dim2=-1)
    if not bool(wrong.any()) and bool((diagonal.amin(-1) > _WELL_CONDITIONED * diagonal.amax(-1)).all()):
        step = -torch.cholesky_solve(gradient[..., None], lower)[..., 0]
        if bool(step.abs().amax() <= _MAX_STEP):  # False for NaN
            return step, -0.5 * (step * gradient).sum(-1), torch.zeros_like(wrong, dtype=torch.bool), step
    eigenvalues, vectors = torch.linalg.eigh(hessian)
    size = eigenvalues.abs()
    top = size.amax(-1, keepdim=True).clamp(min=torch.finfo(size.dtype).tiny)
    along = (vectors.mT @ gradient.nan_to_num()[..., None])[..., 0]
    step = -(vectors @ (along / torch.maximum(size, _EIGENVALUE_FLOOR * top))[..., None])[..., 0]
    longest = step.abs().amax(-1, keepdim=True)
    step = step * (_MAX_STEP / longest.clamp(min=_MAX_STEP))
    decrement = -0.5 * (step * gradient.nan_to_num()).sum(-1)
    saddle = eigenvalues[:, 0] < _SADDLE_CURVATURE * top[:, 0]
    return step, decrement, saddle, vectors[..., 0]


def _line_search(
    objective: Objective, u: Tensor, step: Tensor, *, value: Tensor, slope: Tensor, done: Tensor
) -> tuple[Tensor, Tensor]:
    """The first point of u + step, u + step/2, … that goes down enough; and whether there is one."""
    slack = _ROUNDING * value.abs()
    length = torch.where(done, 0.0, 1.0).to(u)
    moved = done.clone()
    with torch.no_grad():
        for _ in range(_MAX_HALVINGS):
            new = objective(u + length[:, None] * step)
            enough = new <= value + _ARMIJO_FRACTION * length * slope + slack
            moved = moved | enough
            if bool(moved.all()):
                break
            length = torch.where(moved, length, length / 2)
    length = torch.where(moved, length, 0.0)
    return u + length[:, None] * step, moved


def _leave_saddle(objective: Objective, u: Tensor, value: Tensor, away: Tensor, here: Tensor) -> Tensor:
    """Go along the negative curvature, to the lowest of a few distances on both sides."""
    best, best_value = u, value
    with torch.no_grad():
        for distance in (1.0, -1.0, 0.3, -0.3, 0.1, -0.1, 0.01, -0.01):
            trial = u + distance * away
            trial_value = objective(trial)
            lower = here & (trial_value < best_value)
            best = torch.where(lower[:, None], trial, best)
            best_value = torch.where(lower, trial_value, best_value)
    return best


class _Bfgs:
    """Approximations of B Hessians from changes of the gradient."""

    def __init__(self, u: Tensor) -> None:
        self.matrix = torch.eye(u.shape[-1], dtype=u.dtype, device=u.device).expand(*u.shape, u.shape[-1]).clone()
        self.before: tuple[Tensor, Tensor] | None = None

    def update(self, u: Tensor, gradient: Tensor) -> None:
        if self.before is not None:
            s, y = u - self.before[0], gradient - self.before[1]
            sy = (s * y).sum(-1)
            good = sy > 1e-10 * s.norm(dim=-1) * y.norm(dim=-1)
            hs = (self.matrix @ s[..., None])[..., 0]
            shs = (s * hs).sum(-1)
            change = (
                y[..., None] * y[:, None, :] / sy[:, None, None] - hs[..., None] * hs[:, None, :] / shs[:, None, None]
            )
            self.matrix = self.matrix + torch.where(good[:, None, None], change, 0.0).nan_to_num()
        self.before = (u, gradient)
