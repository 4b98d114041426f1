"""Makes a `Projection` of what a fit found: distribution, divergence, history, derivatives. Called by `project.py`."""

from __future__ import annotations

from functools import partial

import torch
from torch import Tensor
from torch.distributions import Distribution

from kullback._core.errors import InputValueError, explain_problem
from kullback.fit.divergence import Divergence, between, log_normalizer, of_points, reverse_without_route
from kullback.fit.families import Family
from kullback.fit.forward import Fitted, negative_log_likelihood
from kullback.fit.implicit import attach_target
from kullback.fit.information import Uncertainty
from kullback.fit.log_density import LogTarget
from kullback.fit.log_prob import log_prob
from kullback.fit.moments import Parameters, is_iterated
from kullback.fit.projection import Optimum, Projection
from kullback.fit.reverse import Optima
from kullback.fit.targets import Points, Target


def assemble_forward(target: Target, fitted: Fitted, points: Points, seed: int) -> Projection:
    """The result of a forward projection; of data, its divergence and likelihood are computed when asked for."""
    family, coordinates = fitted.family, fitted.coordinates
    parameters = fitted.parameters
    follows = torch.is_grad_enabled() and (points.x.requires_grad or points.w.requires_grad)
    if follows and (fitted.method != "closed form" or is_iterated(family)):
        attached = attach_target(negative_log_likelihood(coordinates, points.x, points.w), _optimum(fitted))
        parameters = coordinates.unpack(attached)
    batch, dtype = points.batch_shape, target.dtype
    shaped = _shaped(parameters, batch)
    log_likelihood = size = uncertainty = None
    if target.distribution is not None:
        member = family.construct({**_shaped(_fixed(family), batch), **shaped})
        found = between(target.distribution, member, seed)
        if bool((found.value == torch.inf).any()):
            raise _infinite(target, family)
        divergence = partial(_as_dtype, found, dtype)
    else:
        divergence = partial(_divergence_of_data, fitted, points, dtype)
        if points.size is not None:
            size = points.size.reshape(batch)
            log_likelihood = partial(_log_likelihood, fitted, points, dtype)
            uncertainty = Uncertainty(fitted, points, dtype)
    return Projection(
        direction="forward",
        family=family,
        converged=bool(fitted.converged.all()),
        iterations=fitted.iterations,
        parameters={name: value.to(dtype) for name, value in shaped.items()},
        num_parameters=coordinates.num_free + _chosen_ends(family),
        num_observations=size,
        warnings=fitted.warnings,
        _construct=partial(_finished, family, shaped, batch, dtype),
        _divergence=divergence,
        _log_likelihood=log_likelihood,
        _steps=fitted.history,
        _target=target,
        _uncertainty=uncertainty,
    )


def _optimum(fitted: Fitted) -> Tensor:
    with torch.no_grad():
        return fitted.coordinates.pack(fitted.parameters).detach()


def _as_dtype(found: Divergence, dtype: torch.dtype) -> Divergence:
    return found._replace(value=found.value.to(dtype), error=found.error.detach())


def _divergence_of_data(fitted: Fitted, points: Points, dtype: torch.dtype) -> Divergence:
    found = of_points(points, fitted.member())
    value, error = found.value.reshape(points.batch_shape).to(dtype), found.error.reshape(points.batch_shape)
    return found._replace(value=value, error=error)


def _log_likelihood(fitted: Fitted, points: Points, dtype: torch.dtype) -> Tensor:
    assert points.size is not None
    with torch.no_grad():
        log_q = log_prob(fitted.member(), points.x)
        mean = torch.where(points.w > 0, points.w * log_q, 0.0).sum(0)
    return (mean * points.size).reshape(points.batch_shape).to(dtype)


def _infinite(target: Target, family: Family) -> InputValueError:
    return InputValueError(
        explain_problem(
            f"KL({target.words} ‖ {family}) is infinite: the family gives no mass to a part of the target, or the "
            "target's tails are too heavy for it.",
            got=f"{target.distribution}",
            expected="a family whose support contains the target's, with tails at least as heavy",
            instead='another family, or direction="reverse"',
        )
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
    found = Divergence(value, error, method)
    return Projection(
        direction="reverse",
        family=family,
        converged=bool(fitted.converged[0]),
        iterations=fitted.iterations,
        parameters={name: each.to(target.dtype) for name, each in shaped.items()},
        optima=members,
        log_normalizer=constant,
        log_normalizer_error=constant_error,
        num_parameters=coordinates.num_free,
        warnings=fitted.warnings,
        _construct=partial(_finished, family, shaped, batch, target.dtype),
        _divergence=partial(_as_dtype, found, target.dtype),
        _steps=fitted.history,
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
