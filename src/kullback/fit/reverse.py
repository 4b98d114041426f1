"""The I-projection argmin KL(q ‖ target): Newton steps from many starts, all optima. Called by `project.py`."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.distributions import Distribution, MixtureSameFamily

from kullback._core.errors import InputValueError, KullbackError, NoRouteError, ShapeError, explain_problem
from kullback.fit.families import Coordinates, Family
from kullback.fit.forward import Fitted, certified_objective
from kullback.fit.gaussian_expectation import gaussian_objective
from kullback.fit.known_moments import refuse_flat_support
from kullback.fit.log_density import LogTarget, starting_points
from kullback.fit.log_prob import log_prob
from kullback.fit.moments import Parameters
from kullback.fit.newton import Minimum, Objective, Search, minimise
from kullback.fit.nodes import MAX_PRODUCT_DIM, log_weighted_points, pilot_samples
from kullback.fit.starts import mixture_starts, start_values
from kullback.fit.targets import Target

_SAME_LOG_DENSITY = 1e-3  # two optima are one if their log-densities differ by less than this on average
_COARSE = 1 / 16  # of the points above three dimensions, while many starts are searched
_NEGLIGIBLE = 1e-14  # weight of a node outside the target's support that is forgiven


@dataclass
class Optima:
    """All distinct local minima, best first.

    Attributes:
        fitted: Their coordinates, batch shape (number of optima,).
        value: KL(q ‖ target), without the constant of a log-density.
        certified: Whether `value` is `kullback.kl`, not an integral of this package.
    """

    fitted: Fitted
    value: Tensor
    certified: bool


def project_reverse(
    target: Target,
    log_target: LogTarget,
    family: Family,
    search: Search,
) -> Optima:
    """Minimise KL(q ‖ target) over the family from many starts."""
    p = target.distribution
    if p is not None and p.batch_shape != ():
        raise ShapeError(
            explain_problem(
                "The reverse direction takes one target at a time, because each may have several optima.",
                got=f"batch_shape {tuple(p.batch_shape)}",
                instead="project(p, family, direction='reverse') for each member of the batch",
            )
        )
    if p is not None:
        refuse_flat_support(p, family)
    elif family.event_dim and not family.is_gaussian:
        raise _no_route(family)
    start = _starts(p, log_target, family, search)
    coordinates = Coordinates.like(family, start)
    points = coordinates.pack(start)
    certified = None if p is None else certified_objective(p, coordinates, points[:1], forward=False)
    cheap = _objective(coordinates, log_target, certified)
    with torch.no_grad():
        finite = cheap(points).isfinite()
        if certified is not None and certified is not cheap:  # no finite set of nodes sees that tails are too heavy
            finite = finite & (certified(points) < torch.inf)
    if not bool(finite.any()):
        _refuse_infinite(p, family)
    points = points[finite]
    minimum = minimise(cheap, points, search, restarts=True, leaves=coordinates.leaves())
    keep = _distinct(minimum, coordinates)
    history = [step[keep[:1]] for step in minimum.history]
    best = Minimum(
        minimum.point[keep], minimum.value[keep], minimum.converged[keep], minimum.iterations, minimum.hessian[keep],
        minimum.gradient[keep], history,
    )  # fmt: skip
    is_certified = False
    if certified is not None and certified is not cheap:
        polished = _polish(certified, best, search)
        if polished is not None:
            best, is_certified = polished, True
    elif family.event_dim and certified is None and log_target.event_shape[0] > MAX_PRODUCT_DIM:
        cheap = gaussian_objective(coordinates, log_target)
        best = _polish(cheap, best, search) or best
    limit, at_limit = coordinates.limit_at(coordinates.unpack(best.point))
    best.converged = best.converged & ~at_limit
    order = _best_first(best)
    warnings = []
    if limit and bool(at_limit.expand(len(order))[order[0]]):
        warnings.append(f"No member of the family is nearest: {limit}")
    elif not bool(best.converged[order[0]]):
        warnings.append(
            f"None of {search.restarts} starts converged in {minimum.iterations} steps; give more max_iterations."
        )
    lost = int((~minimum.converged).sum())
    if 0 < lost < len(points) and not warnings:
        warnings.append(f"{lost} of {len(points)} starts did not converge and were left out.")
    fitted = Fitted(
        family,
        coordinates.unpack(best.point[order]),
        coordinates,
        best.converged[order],
        certified if is_certified else cheap,
        best.iterations,
        best.history,
        "Newton",
        warnings,
    )
    return Optima(fitted, best.value[order], is_certified or cheap is certified)


def _objective(coordinates: Coordinates, log_target: LogTarget, certified: Objective | None) -> Objective:
    family = coordinates.family
    if family.event_dim == 0:
        return _univariate_objective(coordinates, log_target)
    if certified is not None:
        return certified
    if family.is_gaussian:
        return gaussian_objective(coordinates, log_target, order_factor=_COARSE)
    raise _no_route(family)


def _no_route(family: Family) -> NoRouteError:
    return NoRouteError(
        explain_problem(
            f"KL({family} ‖ target) has no formula, integral or nodes.",
            expected="a family over numbers, a multivariate normal (full, diagonal, low rank), or mixtures of these",
            instead="direction='forward', or MultivariateNormal",
        )
    )


def _univariate_objective(coordinates: Coordinates, log_target: LogTarget) -> Objective:
    """U ↦ Σ wᵢ(u) (log q(xᵢ; u) − log f(xᵢ)) at nodes that follow q."""

    def objective(u: Tensor) -> Tensor:
        q = coordinates.construct(u)
        x, log_weight = log_weighted_points(q)
        log_q = log_prob(q, x)
        log_f = log_target(x)
        # The weights sum to 1 up to the error of the quadrature; dividing by the sum removes most of it.
        weight = (log_weight - log_weight.logsumexp(0)).exp()
        counts = weight > 0
        forgiven = counts & (log_f == -torch.inf) & (weight < _NEGLIGIBLE)
        ratio = torch.where(counts & ~forgiven, log_q, 0.0) - torch.where(counts & ~forgiven, log_f, 0.0)
        return torch.where(coordinates.is_member(u), (weight * ratio).sum(0), torch.inf)

    return objective


def _starts(p: Distribution | None, log_target: LogTarget, family: Family, search: Search) -> Parameters:
    """The whole target, every component of a mixture, and random parts of it."""
    generator = torch.Generator().manual_seed(search.seed)
    x, w = starting_points(p, log_target, family, search.seed)
    if family.components > 1:
        return mixture_starts(family, x, w, max(search.restarts, 4), generator)
    columns_x, columns_w = [x], [w]
    if isinstance(p, MixtureSameFamily) and p.batch_shape == ():
        inner_x, inner_w = _component_points(p, search.seed)
        columns_x += inner_x
        columns_w += inner_w
    flat = x[:, 0].reshape(len(x), -1)
    mean = (w * flat).sum(0)
    scale = (w * (flat - mean).square()).sum(0).sqrt().clamp(min=1e-300)
    while len(columns_x) < search.restarts:
        centre = flat[int(torch.multinomial(w[:, 0], 1, generator=generator))]
        width = 0.1 + 0.9 * torch.rand(1, generator=generator, dtype=torch.float64)
        near = (-((flat - centre) / (scale * width)).square().sum(-1) / 2)[:, None]
        local = (w.log() + near).softmax(0)
        columns_x.append(x)
        columns_w.append(local)
    return _stack_starts(family, columns_x, columns_w)


def _stack_starts(family: Family, columns_x: list[Tensor], columns_w: list[Tensor]) -> Parameters:
    found: list[Parameters] = []
    for x, w in zip(columns_x, columns_w, strict=True):
        try:
            start = start_values(family, x, w)
        except KullbackError:
            continue
        if all(bool(value.isfinite().all()) for value in start.values()):
            found.append(start)
    if not found:
        raise InputValueError(
            explain_problem(
                f"No starting values of {family} fit the target.", expected="a target with some mass in the support"
            )
        )
    return {name: torch.cat([start[name] for start in found]) for name in found[0]}


def _component_points(p: MixtureSameFamily, seed: int) -> tuple[list[Tensor], list[Tensor]]:
    component = p.component_distribution
    if p.event_shape == ():
        x, log_w = log_weighted_points(component)
        w = log_w.exp()
    else:
        x = pilot_samples(component, 2048, seed).to(torch.float64)
        w = x.new_full(x.shape[:2], 1 / len(x))
    w = w / w.sum(0)
    return [x[:, k : k + 1] for k in range(x.shape[1])], [w[:, k : k + 1].to(torch.float64) for k in range(x.shape[1])]


def _distinct(minimum: Minimum, coordinates: Coordinates) -> Tensor:
    """Indices of different converged minima, best first; the best of all if none converged."""
    value = minimum.value.nan_to_num(nan=torch.inf)
    candidates = value.argsort()
    candidates = candidates[minimum.converged[candidates]] if bool(minimum.converged.any()) else candidates[:1]
    kept: list[int] = []
    for index in candidates.tolist():
        if all(not _same(minimum.point[index], minimum.point[other], coordinates) for other in kept):
            kept.append(index)
    return torch.tensor(kept)


def _best_first(minimum: Minimum) -> Tensor:
    """By value; optima that are equally good, by their coordinates, so that rounding does not decide."""
    keys = [
        (float(f"{value:.9g}"), [round(each, 6) for each in point])
        for value, point in zip(minimum.value.nan_to_num(nan=torch.inf).tolist(), minimum.point.tolist(), strict=True)
    ]
    return torch.tensor(sorted(range(len(keys)), key=keys.__getitem__))


def _same(first: Tensor, second: Tensor, coordinates: Coordinates) -> bool:
    with torch.no_grad():
        p, q = coordinates.construct(first[None]), coordinates.construct(second[None])
        x = pilot_samples(p, 64)
        gap = (log_prob(p, x) - log_prob(q, x)).abs().mean()
    return bool(gap < _SAME_LOG_DENSITY)


def _polish(certified: Objective, best: Minimum, search: Search) -> Minimum | None:
    """Continue on the certified KL where it has derivatives."""
    try:
        polished = minimise(certified, best.point, search)
    except (KullbackError, NotImplementedError, ValueError):
        return None
    if not bool(polished.value.isfinite().all() & polished.gradient.isfinite().all()):
        return None
    polished.history = best.history[:-1] + [step[:1] for step in polished.history]
    polished.iterations += best.iterations
    return polished


def _refuse_infinite(p: Distribution | None, family: Family) -> None:
    what = "the target" if p is None else type(p).__name__
    raise InputValueError(
        explain_problem(
            f"KL({family} ‖ {what}) is infinite at every start: the family has mass where the target has none, or its "
            "tails are too heavy for the target.",
            expected="a family whose support lies inside the target's, with tails at most as heavy",
            instead="direction='forward', or a family with the target's support"
            if p is not None
            else "start=torch.tensor(x0), a point where the density is large",
        )
    )
