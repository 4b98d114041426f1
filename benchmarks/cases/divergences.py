"""Divergences beside KL that have no closed form, by kullback and by hand: a sum over a grid of what `log_prob` says.

The truth is that sum on a grid sixteen times as fine. The hand-written one is as good as its grid.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.distributions as td
from torch import Tensor

from benchmarks.every_pair import CONTINUOUS, drawing
from benchmarks.registry import case

SIZES = {"1": 1, "1000": 1000}
PAIRS = [("StudentT", "Laplace"), ("Mixture", "Normal"), ("Mixture", "Mixture"), ("Gumbel", "Normal")]
# Beyond this a Student-t of two degrees of freedom has 1e-9 of its mass; the step is e^(1/200) far out.
FAR, POINTS = 15.0, 2**11


def _relative(p: Tensor, m: Tensor) -> Tensor:
    return torch.where(p > 0, p * torch.log(p / m), 0.0)


def _half_squared(x: Tensor) -> Tensor:
    return x * x / 2


# What is summed of the densities p and q at a point.
TERMS: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "js": lambda p, q: (_relative(p, (p + q) / 2) + _relative(q, (p + q) / 2)) / 2,
    "total_variation": lambda p, q: (p - q).abs() / 2,
    "hellinger": lambda p, q: _half_squared(p.sqrt() - q.sqrt()),
}


def on_grid(name: str, p: td.Distribution, q: td.Distribution, points: int) -> Tensor:
    """The divergence by the trapezoid rule in asinh x."""
    y = torch.linspace(-FAR, FAR, points + 1, dtype=torch.float64).reshape(-1, *(1,) * len(p.batch_shape))
    x = torch.sinh(y)
    densities = [torch.exp(distribution.log_prob(x)) * torch.cosh(y) for distribution in (p, q)]
    total = TERMS[name](*densities).sum(0) * (2 * FAR / points)
    return total.sqrt() if name == "hellinger" else total


def define(name: str, p: str, q: str) -> None:
    """One case: a divergence of two families."""

    def setup(size: int) -> tuple[td.Distribution, td.Distribution]:
        return CONTINUOUS[p](drawing(size, 1)), CONTINUOUS[q](drawing(size, 2))

    setup.__doc__ = f"{name}({p}, {q}), float64."
    defined = case(f"{name}-{p}-{q}".lower(), group="divergences", sizes=SIZES, rtol=1e-4)(setup)

    @defined.truth
    def _(pair: Any) -> Tensor:
        return on_grid(name, *pair, 16 * POINTS)

    @defined.contender("kullback", needs=(f"kullback:{name}",))
    def _(pair: Any) -> Tensor:
        import kullback

        found: Tensor = getattr(kullback, name)(*pair)
        return found

    @defined.contender("a grid by hand")
    def _(pair: Any) -> Tensor:
        return on_grid(name, *pair, POINTS)


for _name in TERMS:
    for _p, _q in PAIRS:
        define(_name, _p, _q)
