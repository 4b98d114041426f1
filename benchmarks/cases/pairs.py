"""Distribution pairs against torch's own: 64 and 1e6 elements, Gaussians, Categorical; and StudentT, which torch lacks.

The parameters stay where torch's formula is accurate too, so that the race is one of speed; the truth is that formula
in float64. Objects are made once for the forward cases; a gradient needs fresh ones.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.distributions as td
from torch import Tensor

from benchmarks.registry import Case, case

SIZES = {"64": 64, "1e6": 1_000_000}
Tensors = tuple[Tensor, ...]
Build = Callable[[Tensors], tuple[td.Distribution, td.Distribution]]


def positive(u: Tensor) -> Tensor:
    return 0.3 + 3 * u


def bernoulli(name: str) -> Build:
    def build(t: Tensors) -> tuple[td.Distribution, td.Distribution]:
        p, q = ({name: side} for side in t)
        return td.Bernoulli(**p, validate_args=False), td.Bernoulli(**q, validate_args=False)

    return build


def two_parameters(family: Callable[..., td.Distribution]) -> Build:
    return lambda t: (family(t[0], t[1], validate_args=False), family(t[2], t[3], validate_args=False))


def one_parameter(family: Callable[..., td.Distribution]) -> Build:
    return lambda t: (family(t[0], validate_args=False), family(t[1], validate_args=False))


# name: how p and q are built from parameters, and each parameter from uniform numbers in (0, 1)
FAMILIES: dict[str, tuple[Build, list[Callable[[Tensor], Tensor]]]] = {
    "normal": (two_parameters(td.Normal), [lambda u: 2 * u, positive, lambda u: u - 3, positive]),
    "gamma": (two_parameters(td.Gamma), [positive, positive, lambda u: 4 + u, positive]),
    "beta": (two_parameters(td.Beta), [positive, positive, lambda u: 4 + u, positive]),
    "bernoulli-probs": (bernoulli("probs"), [lambda u: 0.05 + 0.3 * u, lambda u: 0.5 + 0.4 * u]),
    "bernoulli-logits": (bernoulli("logits"), [lambda u: u - 3, lambda u: 2 * u]),
    "poisson": (one_parameter(td.Poisson), [positive, lambda u: 4 + u]),
}


def ours(p: td.Distribution, q: td.Distribution) -> Tensor:
    import kullback

    return kullback.kl_divergence(p, q)


def with_gradients(divergence: Callable[..., Tensor], build: Build, given: Tensors) -> Tensors:
    leaves = tuple(t.detach().requires_grad_() for t in given)
    value = divergence(*build(leaves))
    return (value.detach(), *torch.autograd.grad(value.sum(), leaves))


def define(
    name: str, build: Build, draw: Callable[[Any], Tensors], sizes: dict[str, Any], *, rtol: float
) -> list[Case]:
    """A forward and a forward-and-backward case of one pair: torch and this library."""

    def forward_setup(size: Any) -> tuple[td.Distribution, td.Distribution, Tensors]:
        given = draw(size)
        return (*build(given), given)

    forward_setup.__doc__ = f"KL of {name} pairs, float32."
    forward = case(f"pairs-{name}", group="pairs", sizes=sizes, rtol=rtol)(forward_setup)
    forward.truth(lambda state: td.kl_divergence(*build(tuple(t.double() for t in state[2]))))
    forward.contender("kullback", needs=("kullback:kl_divergence",))(lambda state: ours(state[0], state[1]))
    forward.contender("torch eager")(lambda state: td.kl_divergence(state[0], state[1]))

    def backward_setup(size: Any) -> Tensors:
        return draw(size)

    backward_setup.__doc__ = f"KL of {name} pairs and its gradient to every parameter, float32; objects are made anew."
    backward = case(f"pairs-{name}-backward", group="pairs", sizes=sizes, rtol=100 * rtol, floor=1e-3)(backward_setup)
    backward.truth(lambda state: with_gradients(td.kl_divergence, build, tuple(t.double() for t in state)))
    backward.contender("kullback", needs=("kullback:kl_divergence",))(lambda state: with_gradients(ours, build, state))
    backward.contender("torch eager")(lambda state: with_gradients(td.kl_divergence, build, state))
    return [forward, backward]


def elementwise(parts: list[Callable[[Tensor], Tensor]]) -> Callable[[int], Tensors]:
    def draw(size: int) -> Tensors:
        generator = torch.Generator().manual_seed(0)
        return tuple(part(torch.rand(size, generator=generator)) for part in parts)

    return draw


def gaussians(how: str) -> tuple[Build, Callable[[tuple[int, int]], Tensors]]:
    def build(t: Tensors) -> tuple[td.Distribution, td.Distribution]:
        # torch passes a gradient to what is above the diagonal of a factor; it is no parameter.
        p, q = ({how: matrix.tril() if how == "scale_tril" else matrix} for matrix in (t[1], t[3]))
        return (
            td.MultivariateNormal(t[0], **p, validate_args=False),
            td.MultivariateNormal(t[2], **q, validate_args=False),
        )

    def draw(size: tuple[int, int]) -> Tensors:
        batch, dimension = size
        generator = torch.Generator().manual_seed(0)
        found: list[Tensor] = []
        for _ in range(2):
            root = torch.randn(batch, dimension, dimension, generator=generator, dtype=torch.float64) / dimension**0.5
            matrix = root @ root.mT + 0.5 * torch.eye(dimension, dtype=torch.float64)
            matrix = torch.linalg.cholesky(matrix) if how == "scale_tril" else matrix
            found += [torch.randn(batch, dimension, generator=generator), matrix.float().contiguous()]
        return tuple(found)

    return build, draw


def logits(size: tuple[int, int]) -> Tensors:
    generator = torch.Generator().manual_seed(0)
    return tuple(torch.randn(size, generator=generator) for _ in range(2))


def categorical(t: Tensors) -> tuple[td.Distribution, td.Distribution]:
    return td.Categorical(logits=t[0], validate_args=False), td.Categorical(logits=t[1], validate_args=False)


CASES = [
    built
    for name, (build, parts) in FAMILIES.items()
    for built in define(name, build, elementwise(parts), SIZES, rtol=1e-5)
]
for how in ("scale_tril", "covariance_matrix", "precision_matrix"):
    CASES += define(
        f"mvn-{how.replace('_', '-')}",
        *gaussians(how),
        {"64 x 32": (64, 32), "1 x 512": (1, 512)},
        rtol=1e-4,
    )
CASES += define("categorical", categorical, logits, {"256 x 65536": (256, 65_536), "64 x 1000": (64, 1000)}, rtol=1e-5)


@case("pairs-student-t", group="pairs", sizes={"1000": 1000}, rtol=1e-5)
def student_t(size: int) -> tuple[td.StudentT, td.StudentT]:
    """KL of StudentT pairs, which torch does not answer."""
    df, loc, scale, other = elementwise([lambda u: 1 + 9 * u, lambda u: u, positive, lambda u: 1 + 9 * u])(size)
    return td.StudentT(df, loc, scale), td.StudentT(other, -loc, scale.flip(0))


@student_t.truth
def _(state: tuple[td.StudentT, td.StudentT]) -> Tensor:
    """The trapezoid rule in t, x = loc + scale·sinh(t), in which the integrand decays exponentially."""
    p, q = (td.StudentT(*(t.double() for t in (d.df, d.loc, d.scale))) for d in state)
    t = torch.linspace(-60, 60, 12_001, dtype=torch.float64).unsqueeze(-1)
    x = p.loc + p.scale * torch.sinh(t)
    log_p = p.log_prob(x)
    return (torch.exp(log_p) * (log_p - q.log_prob(x)) * p.scale * torch.cosh(t)).sum(0) * (120 / 12_000)


@student_t.contender("kullback", needs=("kullback:kl_divergence",))
def _(state: tuple[td.StudentT, td.StudentT]) -> Tensor:
    return ours(*state)
