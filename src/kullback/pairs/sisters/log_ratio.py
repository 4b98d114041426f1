"""log p − log q at the nodes of an integral, also where p and q are two members of a family that nearly agree.

The difference of two log-densities keeps no more digits than differ. For one family with parameters θ the same number
is an integral along the segment from q's parameters to p's,

    log p − log q = ∫₀¹ ⟨∂_θ log f(x; θ_q + t(θ_p − θ_q)), θ_p − θ_q⟩ dt,

in which the difference of the parameters, exact for close ones, is a factor. Its value is hung on the derivatives of
the difference, which need no such care.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import torch
from torch import Tensor
from torch.distributions import ContinuousBernoulli, Distribution, MixtureSameFamily, RelaxedBernoulli
from torch.distributions.relaxed_bernoulli import LogitRelaxedBernoulli

from kullback._core.gauss_legendre import gauss_legendre
from kullback.pairs.densities.describe import describe_as, same_family
from kullback.pairs.densities.expectation import NOWHERE, Sample
from kullback.pairs.densities.point import Distance, Offset, Point
from kullback.pairs.densities.reading import Given
from kullback.pairs.parameters import read
from kullback.pairs.visible import hidden

LogRatio = Callable[[Sample], Tensor]

# Over t: for parameters that differ by 1 % the error is below 1e-16 of the value.
_RULE = gauss_legendre(4)
# Their parameters are not read by name.
_BY_CHANCE = (ContinuousBernoulli, LogitRelaxedBernoulli, RelaxedBernoulli, MixtureSameFamily)


def plain(sample: Sample) -> Tensor:
    """The difference of the logarithms; astronomic, not infinite, where q has no density, 0 where p has no weight."""
    here = sample.log_weight > NOWHERE
    return torch.where(here, sample.log_p, 0.0) - torch.where(here, sample.log_q.total(), 0.0)


def one_family(p: Distribution, q: Distribution) -> bool:
    """Whether `along_segment` serves the pair."""
    return same_family(p, q) and not isinstance(p, _BY_CHANCE) and not isinstance(q, _BY_CHANCE)


def along_segment(p: Distribution, q: Distribution) -> LogRatio:
    """The log-ratio of close members of one family."""

    def log_ratio(sample: Sample) -> Tensor:
        start = plain(sample)
        with torch.inference_mode(False):
            assert sample.point is not None
            point = _still(sample.point)

            def log_density(t: Tensor) -> Tensor:
                return describe_as(p, cast("Given", _Between(p, q, t))).log_density(point).total()

            total = torch.zeros_like(start)
            for node, weight in zip(*_RULE, strict=True):
                total = total + weight * _slope(log_density, torch.full_like(start, node).detach())
        return total + (start - start.detach())

    return log_ratio


def _slope(f: Callable[[Tensor], Tensor], t: Tensor) -> Tensor:
    """The derivative of a function that works on each element by itself."""
    if hidden():
        slope: Tensor = torch.func.grad(lambda at: f(at).sum())(t)
        return slope.detach()
    with torch.enable_grad():
        t = t.requires_grad_()
        return torch.autograd.grad(f(t).sum(), t)[0]


class _Between:
    """Parameters on the way from q's to p's, a step t for every node; without derivatives but that to t."""

    def __init__(self, p: Distribution, q: Distribution, t: Tensor) -> None:
        self.distribution, self.other, self.t = p, q, t

    def read(self, *names: str) -> tuple[Tensor, ...]:
        """The named parameters at t."""
        pairs = zip(read(self.distribution, *names), read(self.other, *names), strict=True)
        return tuple(self._between(_kept(a), _kept(b)) for a, b in pairs)

    def _between(self, a: Tensor, b: Tensor) -> Tensor:
        a, b = a.unsqueeze(-1), b.unsqueeze(-1)
        return b + self.t * (a - b)


def _kept(tensor: Tensor) -> Tensor:
    """A tensor without derivatives that others may be recorded with, which one made in inference mode may not."""
    return tensor.detach() if hidden() or not tensor.is_inference() else tensor.clone()


def _still(point: Point) -> Point:
    """The same nodes without derivatives."""
    return Point(*(_detached(part) for part in point[:4]))


def _detached(part: Offset | Distance | Tensor | None) -> Any:
    if part is None or isinstance(part, Tensor):
        return None if part is None else _kept(part)
    return type(part)(*(_detached(inner) for inner in part))
