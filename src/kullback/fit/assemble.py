"""Makes a `Projection` of what a fit found: distribution, divergence, history, derivatives. Called by `project.py`."""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.distributions import Distribution

from kullback._core.errors import InputValueError, explain_problem
from kullback.fit.divergence import between, log_normalizer, of_points, reverse_without_route
from kullback.fit.families import Family
from kullback.fit.forward import Fitted, negative_log_likelihood
from kullback.fit.implicit import attach_target
from kullback.fit.information import Uncertainty
from kullback.fit.log_density import LogTarget
from kullback.fit.moments import Parameters, is_iterated
from kullback.fit.projection import Optimum, Projection
from kullback.fit.reverse import Optima
from kullback.fit.targets import Points, Target


def assemble_forward(target: Target, fitted: Fitted, points: Points, seed: int) -> Projection:
    """The result of a forward projection."""
    family, coordinates = fitted.family, fitted.coordinates
    with torch.no_grad():
        optimum = coordinates.pack(fitted.parameters).detach()
    parameters = fitted.parameters
    follows = torch.is_grad_enabled() and (points.x.requires_grad or points.w.requires_grad)
    if follows and (fitted.method != "closed form" or is_iterated(family)):
        attached = attach_target(negative_log_likelihood(coordinates, points.x, points.w), optimum)
        parameters = coordinates.unpack(attached)
    shaped = _shaped(parameters, points.batch_shape)
    exact_member = family.construct({**_shaped(_fixed(family), points.batch_shape), **shaped})
    log_likelihood = size = uncertainty = None
    if target.distribution is not None:
        found = between(target.distribution, exact_member, seed)
        if bool((found.value == torch.inf).any()):
            raise InputValueError(
                explain_problem(
                    f"KL({target.words} ‖ {family}) is infinite: the family gives no mass to a part of the target, or "
                    "the target's tails are too heavy for it.",
                    got=f"{target.distribution}",
                    expected="a family whose support contains the target's, with tails at least as heavy",
                    instead='another family, or direction="reverse"',
                )
            )
    else:
        flat = family.construct({name: value.detach() for name, value in fitted.parameters.items()})
        found = of_points(points, flat)
        found = found._replace(
            value=found.value.reshape(points.batch_shape), error=found.error.reshape(points.batch_shape)
        )
        if points.size is not None:
            size = points.size.reshape(points.batch_shape)
            with torch.no_grad():
                mean = -negative_log_likelihood(coordinates, points.x, points.w)(optimum)
                if not optimum.shape[1]:
                    mean = (points.w * flat.log_prob(points.x)).sum(0)
            log_likelihood = (mean * points.size).reshape(points.batch_shape).to(target.dtype)
            uncertainty = Uncertainty(coordinates, optimum, points, target.dtype)
    kl = found.value.to(target.dtype) if found.value.dtype != target.dtype else found.value
    return Projection(
        distribution=_finished(family, shaped, points.batch_shape, target.dtype),
        kl=kl,
        kl_error=found.error.detach(),
        kl_method=found.method,
        direction="forward",
        family=family,
        converged=bool(fitted.converged.all()),
        iterations=fitted.iterations,
        history=_history(fitted, found.value),
        parameters={name: value.to(target.dtype) for name, value in shaped.items()},
        log_likelihood=log_likelihood,
        num_parameters=optimum.shape[1] + _chosen_ends(family),
        num_observations=size,
        warnings=fitted.warnings,
        _target=target,
        _uncertainty=uncertainty,
    )


def assemble_reverse(target: Target, log_target: LogTarget, optima: Optima, seed: int) -> Projection:
    """The result of a reverse projection."""
    fitted, family = optima.fitted, optima.fitted.family
    coordinates = fitted.coordinates
    with torch.no_grad():
        points = coordinates.pack(fitted.parameters).detach()
    best = points[:1]
    if torch.is_grad_enabled() and target.distribution is not None and fitted.objective is not None:
        best = _attach_if_needed(fitted, best)
    batch = torch.Size()
    shaped = _shaped(coordinates.unpack(best), batch)
    member = family.construct({**_shaped(_fixed(family), batch), **shaped})
    batched = coordinates.construct(points)
    constant = constant_error = None
    shift = 0.0
    if target.distribution is None:
        constant, constant_error = log_normalizer(log_target, family, batched, seed)
        shift = constant
    if target.distribution is not None and optima.certified:
        found = between(member, target.distribution, seed)
        value, error, method = found.value, found.error, found.method
    else:
        error, method = reverse_without_route(
            coordinates.construct(points[:1]), optima.value[:1], log_target, family, seed
        )
        error = error.reshape(batch) + (constant_error or 0.0)
        value = (optima.value[0] + shift).clamp(min=0.0)
    members = []
    for index in range(len(points)):
        each = _shaped(coordinates.unpack(points[index : index + 1]), batch)
        kl = float(value.detach()) if index == 0 else max(float(optima.value[index] + shift), 0.0)
        members.append(Optimum(_finished(family, each, batch, target.dtype), kl))
    return Projection(
        distribution=_finished(family, shaped, batch, target.dtype),
        kl=value.to(target.dtype),
        kl_error=error.detach(),
        kl_method=method,
        direction="reverse",
        family=family,
        converged=bool(fitted.converged[0]),
        iterations=fitted.iterations,
        history=_history(fitted, value.detach()),
        parameters={name: each.to(target.dtype) for name, each in shaped.items()},
        optima=members,
        log_normalizer=constant,
        log_normalizer_error=constant_error,
        num_parameters=points.shape[1],
        warnings=fitted.warnings,
        _target=target,
    )


def _attach_if_needed(fitted: Fitted, best: Tensor) -> Tensor:
    """The best optimum with derivatives to the target, where the target has any."""
    assert fitted.objective is not None
    with torch.enable_grad():
        probe = fitted.objective(best.detach())
    return attach_target(fitted.objective, best) if probe.requires_grad else best


def _fixed(family: Family) -> Parameters:
    return {name: value for name, value in family.fixed.items() if isinstance(value, Tensor) and value.dim() == 1}


def _shaped(parameters: Parameters, batch: torch.Size) -> Parameters:
    return {name: value.reshape((*batch, *value.shape[1:])) for name, value in parameters.items()}


def _finished(family: Family, shaped: Parameters, batch: torch.Size, dtype: torch.dtype) -> Distribution:
    """The distribution that the user gets, in the target's dtype."""
    fixed = _shaped(_fixed(family), batch)
    return family.construct({name: value.to(dtype) for name, value in {**fixed, **shaped}.items()})


def _chosen_ends(family: Family) -> int:
    """Ends of the support that were set to the smallest sample count as fitted parameters."""
    return int(family.name == "GeneralizedPareto" and "loc" in family.fixed)


def _history(fitted: Fitted, final: Tensor) -> list[float]:
    """The objective differs from KL by a constant; where KL is known, the last entry is KL."""
    values = [float(step.sum()) for step in fitted.history]
    total = float(final.detach().sum())
    if not values:
        return [total] if math.isfinite(total) else []
    shift = total - values[-1] if math.isfinite(total) else 0.0
    return [value + shift for value in values]
