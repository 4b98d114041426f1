"""What an expectation is of: the densities, what is known of them at nodes, the integrand; `divergences` makes it."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from kullback.densities.density import Density
from kullback.densities.mixture import inside_log_prob
from kullback.densities.point import HUGE
from kullback.densities.registry import Reading

# Below e^−45 of p's weight, a user's density of 0 may be an underflow.
_UNDERFLOW = -45.0


class Sample(NamedTuple):
    """What is known at nodes.

    Attributes:
        log_weight: log of the density that is integrated over, per unit of the coordinate.
        log_p: The log-density of the first distribution.
        log_q: That of the second.
        log_ratio: log q − log p, kept within ±1e300.
    """

    log_weight: Tensor
    log_p: Tensor
    log_q: Tensor
    log_ratio: Tensor


class Integrand:
    """A function of a sample whose integral over the coordinate is wanted; the defaults are those of p itself.

    Attributes:
        grows_as_log_q: Whether it is −p·log q where q vanishes faster than p.
    """

    grows_as_log_q = False

    def value(self, sample: Sample, close: Tensor) -> Tensor:
        """The integrand; `close` says where |log_ratio| is small at all nodes of an element."""
        raise NotImplementedError

    def differentiated(self, sample: Sample, *, moving_ends: bool) -> Tensor | None:
        """Another integrand with the same integral, whose derivatives are taken instead; None for this one.

        `moving_ends` says whether an end of a support is a parameter.
        """
        del sample, moving_ends
        return None

    def log_size(self, sample: Sample) -> Tensor:
        """The logarithm of a bound of its size, which decides how far the range reaches."""
        return sample.log_weight

    def slope(self, sample: Sample, close: Tensor) -> Tensor:
        """How much of a rounding of the log-ratio comes into the value, per unit of weight."""
        del close
        return torch.ones_like(sample.log_weight)


class Problem(NamedTuple):
    """What an expectation is of.

    Attributes:
        over: The density that is integrated over.
        p: The first distribution, often the same.
        q: The second.
        integrand: The function.
        crosses: Whether the integrand has a kink where the log-ratio is 0.
        ends: Whether the ends of p's and q's supports may lie inside the support of `over`.
        may_be_close: Which elements may use the second-order form of the integrand; None for all.
        group: So many elements in a row, the components of a mixture, use one form of the integrand.
        scaled: Whether the integral is wanted in units of e^log_scale, the integrand's largest value.
        log_scale: That logarithm, once it is known.
    """

    over: Reading
    p: Reading
    q: Reading
    integrand: Integrand
    crosses: bool = False
    ends: bool = False
    may_be_close: Tensor | None = None
    group: int = 1
    scaled: bool = False
    log_scale: Tensor | None = None

    def mapped(self, change: Callable[[Tensor], Tensor]) -> Problem:
        """The problem with every parameter changed alike."""
        over = self.over.mapped(change)
        p = over if self.p is self.over else self.p.mapped(change)
        q = p if self.q is self.p else self.q.mapped(change)
        may_be_close = None if self.may_be_close is None else change(self.may_be_close)
        log_scale = None if self.log_scale is None else change(self.log_scale)
        return self._replace(over=over, p=p, q=q, may_be_close=may_be_close, log_scale=log_scale)

    def parameters(self) -> list[Tensor]:
        """All parameters."""
        return [t for reading in (self.over, self.p, self.q) for t in reading.parameters]

    def densities(self) -> Densities:
        """The densities of all elements."""
        over = self.over.density()
        p = over if self.p is self.over else self.p.density()
        log_scale = None if self.log_scale is None else self.log_scale.unsqueeze(-1)
        return Densities(over, p, p if self.q is self.p else self.q.density(), log_scale)


class Densities(NamedTuple):
    """The densities of a problem, and the logarithm of the unit of their weights."""

    over: Density
    p: Density
    q: Density
    log_scale: Tensor | None = None

    def moving_ends(self) -> bool:
        """Whether an end of a density's support is a parameter."""
        sides = self.p, self.q
        return not self.over.lattice and any(isinstance(end, Tensor) for side in sides for end in (side.low, side.high))

    def integers_only(self) -> bool:
        """Whether there are sums over mass functions that can only be asked at integers."""
        return self.over.lattice and any(density.integers_only for density in self[:3])

    def lost(self, v: Tensor) -> Tensor | None:
        """The share of the distance to the ends that rounding loses where a class can only be asked at x itself."""
        if self.over.lattice or all(density.tails is not None for density in self[:3]):
            return None
        x, lost = self.over.coordinate.point(v), torch.zeros_like(v)
        for end in (self.over.low, self.over.high):
            unit = torch.finfo(v.dtype).eps * torch.as_tensor(end, dtype=v.dtype, device=v.device).abs()
            lost = lost + torch.where(unit < math.inf, unit * torch.exp(-x.log_distance(end)), 0.0)
        return lost.clamp_max(1.0)

    def others(self) -> tuple[Density, ...]:
        """Those that are not integrated over."""
        return tuple(d for i, d in enumerate((self.p, self.q)) if d is not self.over and (i == 0 or d is not self.p))

    def sample(self, v: Tensor) -> Sample:
        """What is known at coordinates (..., nodes)."""
        over = self.over
        x = over.coordinate.point(v)
        log_over = over.log_prob(x)
        log_p = log_over if self.p is over else inside_log_prob(self.p, x)
        log_q = log_p if self.q is self.p else inside_log_prob(self.q, x)
        log_weight = log_over + over.coordinate.log_slope(v) if over.log_weight is None else over.log_weight(v)
        log_weight = torch.where(log_weight.isnan(), -math.inf, log_weight)
        if over.lattice:
            log_weight = torch.where((v > over.low) & (v < over.high + 1), log_weight, -math.inf)
        if self.q.tails is None and not over.lattice:
            # log of a density that underflows; p's weight says whether it matters.
            log_q = torch.where((log_q == -math.inf) & (log_weight < _UNDERFLOW), math.nan, log_q)
        some = (log_p > -HUGE) & (log_p < HUGE) & ~log_q.isnan()
        ratio = torch.where(some, log_q, 0.0) - torch.where(some, log_p, 0.0)
        log_weight = log_weight if self.log_scale is None else log_weight - self.log_scale
        return Sample(log_weight, log_p, log_q, ratio.clamp(-HUGE, HUGE))
