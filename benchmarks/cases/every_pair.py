"""Every pair of univariate families that torch registers, and Dirichlet, on 64 elements: one call against torch's.

The truth is torch's formula in float64, at parameters where that is accurate.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.distributions as td
from torch import Tensor
from torch.distributions.kl import _KL_REGISTRY

from benchmarks.registry import case

SIZES = {"64": 64}
Law = Callable[..., td.Distribution]


def between(low: float, high: float, *event: int) -> Callable[[int, torch.Generator], Tensor]:
    return lambda size, generator: low + (high - low) * torch.rand((size, *event), generator=generator)


# family: how it is made, and its parameters
FAMILIES: dict[str, tuple[Law, list[Callable[[int, torch.Generator], Tensor]]]] = {
    "Bernoulli": (td.Bernoulli, [between(0.1, 0.9)]),
    "Beta": (td.Beta, [between(0.5, 3), between(0.5, 3)]),
    "Binomial": (lambda probs, **options: td.Binomial(5, probs=probs, **options), [between(0.1, 0.9)]),
    "Cauchy": (td.Cauchy, [between(-1, 1), between(0.5, 3)]),
    "ContinuousBernoulli": (td.ContinuousBernoulli, [between(0.6, 0.9)]),
    "Dirichlet": (td.Dirichlet, [between(0.5, 3, 10)]),
    "Exponential": (td.Exponential, [between(0.5, 3)]),
    "Gamma": (td.Gamma, [between(0.5, 3), between(0.5, 3)]),
    "Geometric": (td.Geometric, [between(0.1, 0.9)]),
    "Gumbel": (td.Gumbel, [between(-1, 1), between(0.5, 3)]),
    "HalfNormal": (td.HalfNormal, [between(0.5, 3)]),
    "Laplace": (td.Laplace, [between(-1, 1), between(0.5, 3)]),
    "Normal": (td.Normal, [between(-1, 1), between(0.5, 3)]),
    "Pareto": (td.Pareto, [between(1.1, 1.4), between(3, 4)]),
    "Poisson": (td.Poisson, [between(0.5, 3)]),
    "Uniform": (td.Uniform, [between(0.1, 0.4), between(0.6, 0.9)]),
}
# Where the supports above are not nested but those of the pair should be.
WIDE = {"Uniform": [between(-3, -1), between(2, 3)], "Pareto": [between(0.01, 0.05), between(3, 4)]}


def define(p: str, q: str) -> None:
    """One case: a pair of families."""
    make_p, parts_p = FAMILIES[p]
    make_q, parts_q = FAMILIES[q][0], WIDE.get(q, FAMILIES[q][1])

    def build(tensors: tuple[list[Tensor], list[Tensor]]) -> tuple[td.Distribution, td.Distribution]:
        of_p, of_q = tensors
        return make_p(*of_p, validate_args=False), make_q(*of_q, validate_args=False)

    def setup(size: int) -> tuple[td.Distribution, td.Distribution, Any]:
        generator = torch.Generator().manual_seed(0)
        tensors = [part(size, generator) for part in parts_p], [part(size, generator) for part in parts_q]
        return (*build(tensors), tensors)

    setup.__doc__ = f"KL({p} || {q}), float32."
    defined = case(f"pair-{p}-{q}".lower(), group="every-pair", sizes=SIZES, rtol=1e-3, floor=1e-3)(setup)

    @defined.truth
    def _(state: Any) -> Tensor:
        wide = tuple([t.double() for t in side] for side in state[2])
        return td.kl_divergence(*build(wide))  # type: ignore[arg-type]

    @defined.contender("kullback", needs=("kullback:kl_divergence",))
    def _(state: Any) -> Tensor:
        import kullback

        return kullback.kl_divergence(state[0], state[1])

    @defined.contender("torch eager")
    def _(state: Any) -> Tensor:
        return td.kl_divergence(state[0], state[1])


for left, right in sorted((p.__name__, q.__name__) for p, q in _KL_REGISTRY):
    if left in FAMILIES and right in FAMILIES:
        define(left, right)
