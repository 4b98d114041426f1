"""Expectations under a distribution, and whether its density integrates to 1; all divergences call it.

An expectation under a mixture is that under its components, each in its own coordinate.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from kullback._core.errors import InputValueError, explain_problem
from kullback.densities.registry import Reading
from kullback.integrate.expectation import Expectation, expectation
from kullback.integrate.problem import Integrand, Problem, Sample
from kullback.kernels.levels import is_traced

# By how much the integral of a user's density may differ from 1: log_prob may be computed in float32.
_MASS_TOLERANCE = 1e-4


def over_components(
    p: Reading,
    q: Reading,
    integrand: Integrand,
    *,
    crosses: bool = False,
    ends: bool = False,
    may_be_close: Tensor | None = None,
    scaled: bool = False,
) -> Expectation:
    """E_p of an integrand of the log-densities of p and q, one for each element."""
    if not p.components:
        return expectation(Problem(p, p, q, integrand, crosses, ends, may_be_close, scaled=scaled))
    count = len(p.components)
    log_weights = torch.stack(p.parameters[:count], -1)
    parts = p.parts()
    if any(part.make is not parts[0].make for part in parts):
        return _one_by_one(parts, log_weights, Problem(p, p, q, integrand, crosses, ends, scaled=scaled))
    columns = zip(*(part.parameters for part in parts), strict=True)
    over = parts[0]._replace(parameters=tuple(torch.stack(column, -1).reshape(-1) for column in columns))

    def repeated(t: Tensor) -> Tensor:
        return t.unsqueeze(-1).expand(-1, count).reshape(-1)

    close = None if may_be_close is None else repeated(may_be_close)
    mixture, other = p.mapped(repeated), q.mapped(repeated)
    other = mixture if q is p else other
    found = expectation(Problem(over, mixture, other, integrand, crosses, ends, close, count, scaled))
    return _weighted(log_weights, *(part.reshape(-1, count) for part in found))


def _weighted(log_weights: Tensor, value: Tensor, error: Tensor, log_scale: Tensor) -> Expectation:
    """The sum over the last dimension, in units of the largest component's."""
    some = log_weights.detach() > -torch.inf
    log_unit = torch.where(some, log_scale, -torch.inf).amax(-1, keepdim=True)
    weights = torch.where(some, torch.exp(log_weights + (log_scale - log_unit)), 0.0)
    parts = (value, weights), (error, weights.detach())
    sums = [torch.where(some, weight * part, 0.0).sum(-1) for part, weight in parts]
    return Expectation(sums[0], sums[1], log_unit.squeeze(-1))


def _one_by_one(parts: Sequence[Reading], log_weights: Tensor, problem: Problem) -> Expectation:
    """The same for components of several families, which cannot be stacked.

    The second-order form of an integrand holds for the whole mixture only, so that no component may choose it.
    """
    never = torch.zeros_like(problem.p.parameters[0], dtype=torch.bool)
    found = [expectation(problem._replace(over=part, may_be_close=never)) for part in parts]
    return _weighted(log_weights, *(torch.stack(column, -1) for column in zip(*found, strict=True)))


class _Mass(Integrand):
    """The density itself."""

    def value(self, sample: Sample, close: Tensor) -> Tensor:
        """The integrand."""
        del close
        return torch.exp(sample.log_weight)


def check_normalised(reading: Reading) -> None:
    """Refuse a searched density whose integral is not 1; where values cannot be looked at, it is believed."""
    if not reading.searched or is_traced():
        return
    with torch.no_grad():
        mass = over_components(reading, reading, _Mass()).value
    wrong = ~((mass - 1).abs() < _MASS_TOLERANCE)
    if not bool(wrong.any()):
        return
    element = int(wrong.nonzero()[0])
    total = f"{'a sum' if reading.lattice else 'an integral'} of {mass[element].item():.6g}"
    raise InputValueError(
        explain_problem(
            f"{reading.source.__name__}.log_prob is not normalised.",
            got=f"{total} over its support, for element {element} of the batch",
            expected="1, as of every probability distribution",
            instead="log_prob less the logarithm of that number, or the support that the class really has; if it is "
            "normalised, the search missed a narrow peak: register_density says where the mass is",
        )
    )
