"""Derivatives given by formula, for every transform torch has.

A reference function evaluates its value and its partial derivatives at the *detached* point and hangs the
derivatives on a displacement that is zero:

    d = x - x.detach(),    y = f(x₀) + d·f'(x₀) + ½d²·f''(x₀)

The value is f(x₀) to the last bit, the first derivative of y is f', the second is f''. Only subtraction,
multiplication and addition are differentiated, so reverse mode, double backward, forward mode, nested `torch.func`
levels, `vmap` and `torch.compile` all see the formulas, and no branch of a `where` that was not taken can leak a NaN
into a gradient. A third derivative is not provided and comes out as infinity, never as a plausible number.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

# Two factors whose product is infinite in float64 (and in float32), each small enough not to overflow a gradient.
_HALF_OF_INFINITY = {torch.float64: 1e160, torch.float32: 1e25}
_BOOST = 1e10


def split_point(x: Tensor) -> tuple[Tensor, Tensor]:
    """The detached point and the zero displacement that carries derivatives; an infinite entry carries none."""
    finite = torch.where(torch.isinf(x), torch.zeros_like(x), x)
    return x.detach(), finite - finite.detach()


def _scaled(coefficient: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
    """An infinite coefficient as two finite factors: 0·c₁·c₂ is 0 in the value, c₁·c₂ is infinite in a slope.

    At an infinite argument a formula may be inf/inf; such a coefficient is 0, so that the value beside it survives.
    """
    largest = torch.finfo(coefficient.dtype).max
    coefficient = torch.where(torch.isnan(coefficient) & ~torch.isnan(value), 0.0, coefficient)
    boost = torch.where(torch.isinf(coefficient), _BOOST, 1.0).to(coefficient.dtype)
    return coefficient.clamp(-largest, largest), boost


def attach(value: Tensor, steps: Sequence[Tensor], first: Sequence[Tensor], second: Sequence[Tensor]) -> Tensor:
    """Hang first and second partial derivatives on a value.

    Args:
        value: f at the detached point.
        steps: the zero displacements, one per argument.
        first: the partial derivatives, one per argument.
        second: the upper triangle of the Hessian, row by row: (f_xx,) or (f_xx, f_xy, f_yy).
    """
    total = value
    for step, slope in zip(steps, first, strict=True):
        factor, boost = _scaled(slope, value)
        total = total + (step * factor) * boost
    pairs = [(i, j) for i in range(len(steps)) for j in range(i, len(steps))]
    for (i, j), curvature in zip(pairs, second, strict=True):
        factor, boost = _scaled(0.5 * curvature if i == j else curvature, value)
        total = total + (steps[i] * (steps[j] * factor)) * boost
    reach = sum(steps[1:], steps[0])
    huge = _HALF_OF_INFINITY[value.dtype]
    return total + (reach * huge) * reach * (reach * huge)


def refuse_derivative(value: Tensor, step: Tensor) -> Tensor:
    """Make the derivative along a displacement infinite, where no formula is provided, rather than zero."""
    huge = _HALF_OF_INFINITY[value.dtype]
    return value + (step * huge) * huge
