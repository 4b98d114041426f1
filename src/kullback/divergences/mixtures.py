"""Expectations under a mixture: those under its components, each in its own coordinate; all divergences call it."""

from __future__ import annotations

import torch
from torch import Tensor

from kullback.densities.registry import Reading
from kullback.integrate.expectation import Expectation, expectation
from kullback.integrate.problem import Integrand, Problem


def over_components(
    p: Reading,
    q: Reading,
    integrand: Integrand,
    *,
    crosses: bool = False,
    ends: bool = False,
    may_be_close: Tensor | None = None,
) -> Expectation:
    """E_p of an integrand of the log-densities of p and q, one for each element."""
    if not p.components or p.component is None:
        return expectation(Problem(p, p, q, integrand, crosses, ends, may_be_close))
    count = p.components
    log_weights = torch.stack(p.parameters[:count], -1)
    parts = [p.component(p.parameters, i) for i in range(count)]
    columns = zip(*(part.parameters for part in parts), strict=True)
    over = parts[0]._replace(parameters=tuple(torch.stack(column, -1).reshape(-1) for column in columns))

    def repeated(t: Tensor) -> Tensor:
        return t.unsqueeze(-1).expand(-1, count).reshape(-1)

    close = None if may_be_close is None else repeated(may_be_close)
    mixture, other = p.mapped(repeated), q.mapped(repeated)
    other = mixture if q is p else other
    found = expectation(Problem(over, mixture, other, integrand, crosses, ends, close, count))
    weights = torch.exp(log_weights)
    value, error, mass = (part.reshape(-1, count) for part in found)
    value = torch.where(weights > 0, weights * value, 0.0).sum(-1)
    error = torch.where(weights > 0, weights.detach() * error, 0.0).sum(-1)
    return Expectation(value, error, torch.where(weights > 0, weights.detach() * mass, 0.0).sum(-1))
