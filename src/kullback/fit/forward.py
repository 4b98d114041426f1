"""The M-projection argmin KL(target ‖ q): moments where exact, otherwise Newton steps. Called by `project.py`."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import torch
from torch import Tensor
from torch.distributions import Distribution

from kullback._core.errors import InputValueError, KullbackError, explain_problem
from kullback.api.kl import kl
from kullback.fit.data_checks import check_points
from kullback.fit.families import Coordinates, Family
from kullback.fit.known_moments import (
    check_finite,
    from_known_moments,
    refuse_missing_moments,
    refuse_support,
    with_ends,
)
from kullback.fit.likelihood_derivatives import derivative_formulas
from kullback.fit.log_prob import log_prob
from kullback.fit.moments import Parameters, closed_form, is_iterated
from kullback.fit.newton import Minimum, Objective, Search, minimise
from kullback.fit.starts import mixture_starts, start_values
from kullback.fit.targets import Points, Target, points_for, without_weightless
from kullback.fit.weighted import covariance_of, mean_of, variance_of
from kullback.pairs import kl_method

_COLLAPSED = 1e-4  # scale of a component relative to the data: it sits on a single sample


@dataclass
class Fitted:
    """Where a fit ended, in coordinates, for B targets (forward) or B optima (reverse).

    Attributes:
        family: The family.
        parameters: Batch shape (B,).
        objective: What was minimised, as a function of the coordinates; None where a formula gave the answer.
        coordinates: How the parameters are written as vectors of ℝᵏ.
        converged: (B,).
        iterations: Newton steps; 0 for a formula.
        history: The objective before each step and at the end.
        method: "closed form" or "Newton".
        warnings: What the user should know.
    """

    family: Family
    parameters: Parameters
    coordinates: Coordinates
    converged: Tensor
    objective: Objective | None = None
    iterations: int = 0
    history: list[Tensor] = field(default_factory=list)
    method: str = "closed form"
    warnings: list[str] = field(default_factory=list)

    def member(self) -> Distribution:
        """The distributions, batch shape (B,), without derivatives."""
        return self.family.construct({name: value.detach() for name, value in self.parameters.items()})


def project_forward(target: Target, family: Family, search: Search) -> tuple[Fitted, Points]:
    """The member of the family that is nearest to the target in KL(target ‖ member), and the target as points."""
    p = target.distribution
    if p is not None:
        refuse_missing_moments(p, family)
    points = points_for(target, family, search.seed)
    if p is None:
        check_points(points, family, target.words)
        points = without_weightless(points)
    else:
        refuse_support(p, points, family, target.words)
    parameters = from_known_moments(p, family, points.batch_shape) if p is not None else None
    exact = parameters is not None or p is None
    bounded = with_ends(p, family, points)
    if parameters is None:
        with torch.set_grad_enabled(torch.is_grad_enabled() and not is_iterated(family)):
            parameters = closed_form(bounded, points.x, points.w)
    if parameters is not None:
        check_finite(parameters, family, p)
        fitted = _formula(bounded, parameters)
    else:
        fitted = fit_points(bounded, points, search)
    if not exact and p is not None:
        fitted = _polish(fitted, p, search)
    if points.approximate and not exact and fitted.method != "certified":
        fitted.warnings.append(
            f"KL({target.words} ‖ {family}) has no formula or integral: the fit maximises the likelihood of "
            f"{len(points.x)} draws."
        )
    return fitted, points


def fit_points(family: Family, points: Points, search: Search) -> Fitted:
    """Maximum weighted likelihood by Newton steps."""
    x, w = points.x.detach(), points.w.detach()
    if family.components > 1:
        return _fit_mixture(family, x, w, search)
    start = start_values(family, x, w)
    coordinates = Coordinates.like(family, start)
    objective = negative_log_likelihood(coordinates, x, w)
    if family.name == "LowRankMultivariateNormal":  # needs the mean and the covariance only, not every point
        objective = gaussian_cross_entropy(coordinates, mean_of(x, w), covariance_of(x, w))
    formulas = derivative_formulas(coordinates, x, w)
    minimum = minimise(objective, coordinates.pack(start), search, formulas, leaves=coordinates.leaves())
    return _fitted_from(minimum, coordinates, objective)


def negative_log_likelihood(coordinates: Coordinates, x: Tensor, w: Tensor) -> Objective:
    """U ↦ −Σ wᵢ log q(xᵢ; u); differentiable in x and w too."""
    all_used = bool((w > 0).all())

    def objective(u: Tensor) -> Tensor:
        log_q = log_prob(coordinates.construct(u), x)
        # A point without weight counts nothing, also where the density is zero.
        value = -(mean_of(log_q, w) if all_used else torch.where(w > 0, w * torch.where(w > 0, log_q, 0.0), 0.0).sum(0))
        return torch.where(coordinates.is_member(u), value, torch.inf)

    return objective


def gaussian_cross_entropy(coordinates: Coordinates, mean: Tensor, covariance: Tensor) -> Objective:
    """U ↦ ½ (d log 2π + log|Σ| + tr Σ⁻¹(S + (m − μ)(m − μ)ᵀ)): −E log q for a target with mean m and covariance S."""

    def objective(u: Tensor) -> Tensor:
        parameters = coordinates.unpack(u)
        factor = parameters["cov_factor"]
        sigma = factor @ factor.mT + torch.diag_embed(parameters["cov_diag"])
        lower, wrong = torch.linalg.cholesky_ex(sigma)
        gap = mean - parameters["loc"]
        inner = torch.cholesky_solve(covariance + gap[..., :, None] * gap[..., None, :], lower)
        log_det = 2 * lower.diagonal(dim1=-2, dim2=-1).log().sum(-1)
        trace = inner.diagonal(dim1=-2, dim2=-1).sum(-1)
        value = 0.5 * (mean.shape[-1] * math.log(2 * math.pi) + log_det + trace)
        return torch.where(wrong == 0, value, torch.inf)

    return objective


def _fit_mixture(family: Family, x: Tensor, w: Tensor, search: Search) -> Fitted:
    """All restarts at once for each target; the best that has not collapsed onto single samples is kept."""
    generator = torch.Generator().manual_seed(search.seed)
    best: list[Parameters] = []
    warnings: list[str] = []
    converged, history, iterations = [], [], 0
    for b in range(x.shape[1]):
        column, weight = x[:, b : b + 1], w if w.shape[1] == 1 else w[:, b : b + 1]
        start = mixture_starts(family, column, weight, search.restarts, generator)
        coordinates = Coordinates.like(family, start)
        objective = negative_log_likelihood(coordinates, column, weight)
        minimum = minimise(objective, coordinates.pack(start), search)
        parameters = coordinates.unpack(minimum.point)
        collapsed = _collapsed(parameters, column, weight)
        value = minimum.value.nan_to_num(nan=torch.inf) + torch.where(collapsed, torch.inf, 0.0)
        value = value + torch.where(minimum.converged, 0.0, 1e-3)  # an unfinished run wins only by a margin
        if not bool(value.isfinite().any()):
            raise InputValueError(
                explain_problem(
                    f"Every fit of {family} collapsed onto single samples, where the likelihood has no upper bound.",
                    got=f"{len(x)} samples for {family.components} components",
                    expected="more samples per component",
                    instead=f"Family({family.name!r}, components={max(1, family.components - 1)})",
                )
            )
        at = int(value.argmin())
        if bool(collapsed.any()):
            warnings.append(
                f"{int(collapsed.sum())} of {search.restarts} starts collapsed onto single samples and were left out."
            )
        best.append({name: value[at : at + 1] for name, value in parameters.items()})
        converged.append(minimum.converged[at])
        history = [step[at : at + 1] for step in minimum.history]
        iterations = max(iterations, minimum.iterations)
    joined = {name: torch.cat([each[name] for each in best]) for name in best[0]}
    coordinates = Coordinates.like(family, joined)
    return Fitted(
        family, joined, coordinates, torch.stack(converged), negative_log_likelihood(coordinates, x, w),
        iterations, history, "Newton", warnings,
    )  # fmt: skip


def _collapsed(parameters: Mapping[str, Tensor], x: Tensor, w: Tensor) -> Tensor:
    flat = x.reshape(len(x), -1)
    spread = variance_of(flat, w).sqrt().amin()
    scale = parameters.get("scale")
    if scale is None and "scale_tril" in parameters:
        scale = parameters["scale_tril"].diagonal(dim1=-2, dim2=-1)
    if scale is None:
        return torch.zeros(next(iter(parameters.values())).shape[0], dtype=torch.bool)
    return (scale.reshape(len(scale), -1).amin(-1) < _COLLAPSED * spread) | ~scale.isfinite().reshape(
        len(scale), -1
    ).all(-1)


def _formula(family: Family, parameters: Parameters) -> Fitted:
    batch = next(iter(parameters.values())).shape[0]
    coordinates = Coordinates.like(family, parameters)
    fitted = Fitted(family, parameters, coordinates, torch.ones(batch, dtype=torch.bool))
    limit, at_limit = coordinates.limit_at(parameters)
    if limit:
        fitted.converged = ~at_limit
        fitted.warnings.append(f"No member of the family is nearest{_where(fitted.converged)}: {limit}")
    return fitted


def _fitted_from(minimum: Minimum, coordinates: Coordinates, objective: Objective) -> Fitted:
    warnings = []
    limit, at_limit = coordinates.limit_at(coordinates.unpack(minimum.point))
    converged = minimum.converged & ~at_limit
    if not bool(converged.all()):
        warnings.append(
            f"No member of the family is nearest{_where(converged)}: {limit}"
            if limit
            else f"The steps ended after {minimum.iterations}{_where(converged)}; give more max_iterations."
        )
    return Fitted(
        coordinates.family,
        coordinates.unpack(minimum.point),
        coordinates,
        converged,
        objective,
        minimum.iterations,
        minimum.history,
        "Newton",
        warnings,
    )


def _where(converged: Tensor) -> str:
    which = [] if converged.numel() == 1 else (~converged).nonzero().flatten().tolist()
    return f" for targets {which[:5]}" if which else ""


def _polish(fitted: Fitted, p: Distribution, search: Search) -> Fitted:
    """Continue on the certified KL(p ‖ q) itself, where it has a route and derivatives."""
    flat = p.expand(torch.Size([1])) if p.batch_shape == () else p
    if len(flat.batch_shape) != 1:
        return fitted
    with torch.no_grad():
        start = fitted.coordinates.pack(fitted.parameters)
    objective = certified_objective(flat, fitted.coordinates, start, forward=True)
    if objective is None or not start.shape[1]:
        return fitted
    minimum = _try_minimise(objective, start, search, fitted.coordinates.leaves())
    if minimum is None:
        return fitted
    again = _fitted_from(minimum, fitted.coordinates, fitted.objective or objective)
    again.iterations += fitted.iterations
    if fitted.history:  # the cross-entropy of the first steps differs from KL by the entropy of p
        shift = again.history[0] - fitted.history[-1]
        again.history = [step + shift for step in fitted.history[:-1]] + again.history
    again.method = "certified"
    return again


def _try_minimise(
    objective: Objective, start: Tensor, search: Search, leaves: Callable[[Tensor], Tensor] | None
) -> Minimum | None:
    try:
        minimum = minimise(objective, start, search, leaves=leaves)
    except (KullbackError, NotImplementedError, ValueError):
        return None
    usable = minimum.value.isfinite().all() & minimum.gradient.isfinite().all()
    return minimum if bool(usable) else None


def certified_objective(p: Distribution, coordinates: Coordinates, start: Tensor, *, forward: bool) -> Objective | None:
    """U ↦ KL(p ‖ q(u)) or KL(q(u) ‖ p) by `kullback.kl`; None where that has no route."""

    def objective(u: Tensor) -> Tensor:
        q = coordinates.construct(u)
        value = (kl(p, q) if forward else kl(q, p)).to(torch.float64)
        return torch.where(coordinates.is_member(u), value, torch.inf)

    with torch.no_grad():
        q = coordinates.construct(start)
        method = kl_method(p, q) if forward else kl_method(q, p)
    return objective if method in ("closed form", "integral", "series", "user", "torch", "infinite") else None
