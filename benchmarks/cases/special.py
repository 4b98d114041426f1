"""Each special function against the best torch expression for the same thing, on 64 and on 1e6 elements.

The same thing means the same answer, also at the ends of the domain: a third size, "edges", puts both sides through
the gate there. Where torch's shortest expression is wrong at an edge it runs as "torch fastest", beside the shortest
one that is right, "torch eager". Some functions have no short expression that is right (`lgamma_bregman` of nearly
equal arguments, `binet` of large ones, `log_iv` of small ones): there the table of the edges says so, and the ratio is
a lower bound. Expressions can be differentiated, so nothing is done in place.

At 64 and 1e6 the arguments stay where every expression is accurate, so that the race is one of speed.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from benchmarks.registry import Case, case

EDGES = "edges"
SIZES = {"64": 64, "1e6": 1_000_000, EDGES: 0}
DTYPES = {"float64": (torch.float64, 1e-9), "float32": (torch.float32, 1e-4)}
Draw = Callable[[Tensor, Tensor], tuple[Tensor, ...]]


class Race(NamedTuple):
    """What runs beside a function, and on what.

    Attributes:
        torch: The best torch expression; right at the edges too, where a short one is.
        draw: The arguments from two uniform numbers in (0, 1).
        edges: Arguments at the ends of the domain and where terms cancel.
        fastest: A shorter torch expression that is wrong at some edge.
    """

    torch: Callable[..., Tensor]
    draw: Draw
    edges: tuple[list[float], ...]
    fastest: Callable[..., Tensor] | None = None


def expm1mx(x: Tensor) -> Tensor:
    # expm1(x) - x keeps -log10(|x|) digits fewer than it has; four terms of the series are enough for the gate.
    series = x * x * (0.5 + x * (1 / 6 + x * (1 / 24 + x / 120)))
    return torch.where(x.abs() < 0.01, series, torch.expm1(x) - x)


def log1pmx(x: Tensor) -> Tensor:
    series = x * x * (-0.5 + x * (1 / 3 + x * (-1 / 4 + x / 5)))
    return torch.where(x.abs() < 0.003, series, torch.log1p(x) - x)


def rel_entr(p: Tensor, q: Tensor) -> Tensor:
    # 0 where p = 0: xlogy(p, p/q) is NaN at p = q = 0, and xlogy(p, p) - xlogy(p, q) takes twice as long as this.
    return torch.where(p == 0, 0.0, p * torch.log(p / q))


def kl_div(p: Tensor, q: Tensor) -> Tensor:
    return torch.where(p == 0, q, p * torch.log(p / q) - p + q)


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


INF = math.inf
RATIOS: tuple[list[float], ...] = ([0.0, 0.0, 1.0, 0.5, 0.0], [0.0, 1.0, 0.0, 0.5, INF])
ORDER_ZERO: tuple[list[float], ...] = ([0.0, 0.0, 0.0], [1e-8, 1.0, 700.0])
RACES = {
    "expm1mx": Race(
        expm1mx,
        lambda u, _: (0.5 + 4 * u,),
        ([0.0, 1e-12, -1e-9, 1e-5, -1e-3, 0.02, -50.0, 80.0],),
        lambda x: torch.expm1(x) - x,
    ),
    "log1pmx": Race(
        log1pmx,
        lambda u, _: (0.5 + 4 * u,),
        ([0.0, 1e-12, -1e-9, 1e-5, -1e-3, 0.02, -1.0, 1e10],),
        lambda x: torch.log1p(x) - x,
    ),
    "log1mexp": Race(log1mexp, lambda u, _: (-0.05 - 5 * u,), ([0.0, -1e-12, -50.0, -INF],)),
    "logdiffexp": Race(
        lambda a, b: a + log1mexp(b - a),
        lambda u, v: (5 + u, 4 * v),
        ([1000.0, 5.0, 2.0], [999.0, -INF, 2.0]),
    ),
    "rel_entr": Race(rel_entr, lambda u, v: (0.05 + u, 1.5 + v), RATIOS, lambda p, q: p * torch.log(p / q)),
    "kl_div": Race(kl_div, lambda u, v: (0.05 + u, 1.5 + v), RATIOS, lambda p, q: p * torch.log(p / q) - p + q),
    "digamma": Race(torch.digamma, lambda u, _: (2 + 5 * u,), ([1e-8, 0.5, 1e8, -0.5],)),
    "trigamma": Race(lambda x: torch.polygamma(1, x), lambda u, _: (0.05 + 5 * u,), ([1e-8, 0.5, 1e8, -0.5],)),
    "lgamma_bregman": Race(lgamma_bregman, lambda u, v: (0.1 + u, 2 + 3 * v), ([2.0, 1e6], [2.0001, 1e6 + 1])),
    "log_ndtr": Race(torch.special.log_ndtr, lambda u, _: (10 * u - 8,), ([-40.0, -1e4, 0.0, 5.0],)),
    "log_ndtr_diff": Race(log_ndtr_diff, lambda u, v: (u - 3, v - 1), ([1.0, 9.0], [1.0001, 10.0])),
    "binet": Race(binet, lambda u, _: (0.3 + 2 * u,), ([1e3, 1e8],)),
    "binet_bregman": Race(binet_bregman, lambda u, v: (0.3 + u, 2 + 3 * v), ([2.0, 1e6], [2.0001, 2e6])),
    "log_iv": Race(lambda nu, x: log_i0(nu, x) + x, lambda u, _: (0 * u, 0.5 + 60 * u), ORDER_ZERO),
    "log_ive": Race(log_i0, lambda u, _: (0 * u, 0.5 + 60 * u), ORDER_ZERO),
    "bessel_ratio": Race(
        lambda _, x: torch.special.i1e(x) / torch.special.i0e(x), lambda u, _: (0 * u, 0.5 + 60 * u), ORDER_ZERO
    ),
}


def define(name: str, dtype_name: str) -> Case:
    race = RACES[name]
    dtype, rtol = DTYPES[dtype_name]

    def setup(size: int) -> tuple[Tensor, ...]:
        if size == SIZES[EDGES]:
            return tuple(torch.tensor(edge, dtype=dtype) for edge in race.edges)
        u, v = torch.rand(2, size, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
        return tuple(argument.to(dtype) for argument in race.draw(u, v))

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
    built.contender("torch eager")(lambda state: race.torch(*state))
    fastest = race.fastest
    if fastest is not None:
        built.contender("torch fastest")(lambda state: fastest(*state))
    return built


CASES = [define(name, dtype_name) for name in RACES for dtype_name in DTYPES]
