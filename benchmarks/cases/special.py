"""Each special function against the best torch expression for the same thing, on 64 and on 1e6 elements.

The arguments stay where the torch expression is accurate too, so that the race is one of speed; the gate says where it
is not. A baseline takes as many passes over memory as torch needs.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor

from benchmarks.registry import Case, case

SIZES = {"64": 64, "1e6": 1_000_000}
DTYPES = {"float64": (torch.float64, 1e-9), "float32": (torch.float32, 1e-4)}
Draw = Callable[[Tensor, Tensor], tuple[Tensor, ...]]


def log1mexp(x: Tensor) -> Tensor:
    return torch.where(x > -math.log(2.0), torch.log(-torch.expm1(x)), torch.log1p(-torch.exp(x)))


def lgamma_bregman(a: Tensor, b: Tensor) -> Tensor:
    return torch.lgamma(b) - torch.lgamma(a) - (b - a) * torch.digamma(a)


def log_ndtr_diff(a: Tensor, b: Tensor) -> Tensor:
    log_high = torch.special.log_ndtr(b)
    return log_high + log1mexp(torch.special.log_ndtr(a) - log_high)


def binet(x: Tensor) -> Tensor:
    return torch.lgamma(x) - ((x - 0.5) * torch.log(x) - x + 0.5 * math.log(2 * math.pi))


def binet_bregman(a: Tensor, b: Tensor) -> Tensor:
    slope = torch.digamma(a) - torch.log(a) + 0.5 / a
    return binet(b) - binet(a) - (b - a) * slope


def log_i0(_: Tensor, x: Tensor) -> Tensor:
    return torch.log(torch.special.i0e(x))


# name: the best torch expression, and the arguments from two uniform numbers in (0, 1)
RACES: dict[str, tuple[Callable[..., Tensor], Draw]] = {
    "expm1mx": (lambda x: torch.expm1(x) - x, lambda u, _: (0.5 + 4 * u,)),
    "log1pmx": (lambda x: torch.log1p(x) - x, lambda u, _: (0.5 + 4 * u,)),
    "log1mexp": (log1mexp, lambda u, _: (-0.05 - 5 * u,)),
    "logdiffexp": (lambda a, b: a + log1mexp(b - a), lambda u, v: (5 + u, 4 * v)),
    "rel_entr": (lambda p, q: p * torch.log(p / q), lambda u, v: (0.05 + u, 1.5 + v)),
    "kl_div": (lambda p, q: p * torch.log(p / q) - p + q, lambda u, v: (0.05 + u, 1.5 + v)),
    "digamma": (torch.digamma, lambda u, _: (2 + 5 * u,)),
    "trigamma": (lambda x: torch.polygamma(1, x), lambda u, _: (0.05 + 5 * u,)),
    "lgamma_bregman": (lgamma_bregman, lambda u, v: (0.1 + u, 2 + 3 * v)),
    "log_ndtr": (torch.special.log_ndtr, lambda u, _: (10 * u - 8,)),
    "log_ndtr_diff": (log_ndtr_diff, lambda u, v: (u - 3, v - 1)),
    "binet": (binet, lambda u, _: (0.3 + 2 * u,)),
    "binet_bregman": (binet_bregman, lambda u, v: (0.3 + u, 2 + 3 * v)),
    "log_iv": (lambda nu, x: log_i0(nu, x) + x, lambda u, _: (0 * u, 0.5 + 60 * u)),
    "log_ive": (log_i0, lambda u, _: (0 * u, 0.5 + 60 * u)),
    "bessel_ratio": (
        lambda _, x: torch.special.i1e(x) / torch.special.i0e(x),
        lambda u, _: (0 * u, 0.5 + 60 * u),
    ),
}


def define(name: str, dtype_name: str) -> Case:
    baseline, draw = RACES[name]
    dtype, rtol = DTYPES[dtype_name]

    def setup(size: int) -> tuple[Tensor, ...]:
        u, v = torch.rand(2, size, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
        return tuple(argument.to(dtype) for argument in draw(u, v))

    def truth(state: tuple[Tensor, ...]) -> Tensor:
        from kullback._core import special

        result: Tensor = getattr(special, name)(*(argument.double() for argument in state))
        return result

    def kullback_native(state: tuple[Tensor, ...]) -> Tensor:
        from kullback import special

        result: Tensor = getattr(special, name)(*state)
        return result

    setup.__doc__ = f"special.{name} on {dtype_name}, elementwise."
    built = case(f"special-{name}-{dtype_name}", group="special", sizes=SIZES, rtol=rtol)(setup)
    built.truth(truth)
    built.contender("kullback", needs=(f"kullback.special:{name}",))(kullback_native)
    built.contender("torch eager")(lambda state: baseline(*state))
    return built


CASES = [define(name, dtype_name) for name in RACES for dtype_name in DTYPES]
