"""Points of the line that know their distances exactly; coordinates make them, densities are evaluated at them.

x = 1 − 1e-40 is 1 in float64, but its distance to 1 decides the log-density of a Beta there. So a point is never a bare
x: it is anchor + unit·offset, and log|offset| is carried beside the offset, which may underflow or overflow.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import softplus as torch_softplus

End = float | Tensor

# Magnitudes are kept below this, so that a product with a weight does not overflow.
HUGE = 1e300
# exp() of more than this overflows.
MAX_EXPONENT = 700.0


def stable_exp(x: Tensor) -> Tensor:
    """exp(x) that neither overflows nor underflows."""
    return torch.exp(x.clamp(-MAX_EXPONENT, MAX_EXPONENT))


def softplus(x: Tensor) -> Tensor:
    """log(1 + eˣ), without torch's threshold, which loses e^−x beyond 20."""
    return torch_softplus(x, threshold=40.0) if x.dtype == torch.float64 else torch_softplus(x)


def same_end(a: End, b: End) -> bool:
    """Whether two ends are known to be one number: the same tensor, or equal Python numbers."""
    return a is b or (isinstance(a, float) and isinstance(b, float) and a == b)


def is_endless(end: End) -> bool:
    """Whether an end is known to be infinite for all elements."""
    return isinstance(end, float) and abs(end) == float("inf")


class Point(NamedTuple):
    """x = anchor + e^log_unit · offset.

    Attributes:
        anchor: The number that distances are measured from.
        log_unit: The logarithm of their unit.
        offset: The signed distance in units.
        log_offset: log|offset|, also where the offset itself underflows or overflows.
        known: Pairs (end, log(|x − end|/unit)) for ends whose distance is known exactly.
    """

    anchor: End
    log_unit: Tensor
    offset: Tensor
    log_offset: Tensor
    known: tuple[tuple[End, Tensor], ...] = ()

    def z(self, loc: End, log_scale: Tensor | float) -> Tensor:
        """(x − loc)/scale."""
        shift = self.log_unit - log_scale
        inner = stable_exp(shift) * self.offset
        if same_end(loc, self.anchor):
            return inner.clamp(-HUGE, HUGE)
        gap = (self.anchor - loc) * stable_exp(-torch.as_tensor(log_scale, dtype=inner.dtype, device=inner.device))
        return (gap + inner).clamp(-HUGE, HUGE)

    def log_distance(self, loc: End, log_scale: Tensor | float = 0.0) -> Tensor:
        """log(|x − loc|/scale)."""
        shift = self.log_unit - log_scale
        for end, log_distance in self.known:
            if same_end(end, loc):
                return log_distance + shift
        if same_end(loc, self.anchor):
            return self.log_offset + shift
        gap = torch.as_tensor(self.anchor - loc, dtype=self.offset.dtype, device=self.offset.device)
        step = torch.copysign(stable_exp(self.log_unit + self.log_offset), self.offset)
        by_step = gap.abs() <= step.abs()
        divisor = torch.where(by_step, step, torch.where(by_step, 1.0, gap))
        ratio = torch.where(by_step, gap, step) / divisor
        by_gap = torch.log(torch.where(by_step, 1.0, gap).abs()) - log_scale
        # At x = loc the ratio is −1; a distance of one rounding stands for 0.
        return torch.where(by_step, self.log_offset + shift, by_gap) + torch.log1p(ratio.clamp_min(-1 + 1e-16))

    def value(self) -> Tensor:
        """The nearest float to x."""
        return self.anchor + stable_exp(self.log_unit) * self.offset


def centred(loc: End, log_scale: Tensor) -> Point:
    """A mark: a location, and a scale to either side, along the last dimension."""
    steps = torch.tensor([-1.0, 0.0, 1.0], dtype=log_scale.dtype, device=log_scale.device)
    return Point(loc, log_scale, steps, torch.log(steps.abs()))


def at(place: Tensor) -> Point:
    """A point without width, where a density has an end or a kink."""
    zero = torch.zeros_like(place)
    return Point(place, zero, zero, torch.full_like(zero, -math.inf))
