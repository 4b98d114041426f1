"""Every divergence against the tables of `tests/golden/make_divergences.py`: values, both precisions, gradients."""

from __future__ import annotations

import functools
import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from torch import distributions as d
from torch.distributions.relaxed_bernoulli import LogitRelaxedBernoulli

import kullback as kb

GOLDEN = Path(__file__).parents[1] / "golden"
TABLES = {"families": "", "pairs": "_pairs", "mixtures": "_mixtures", "gradients": "_gradients", "random": "_random"}
FILES = {"counts": "counts", **{name: f"distribution_divergences{end}" for name, end in TABLES.items()}}
# Relative; an entropy is relative to its size or to 1 nat, since it may be 0.
VALUE, VALUE_32, GRADIENT, GRADIENT_32 = 1e-10, 1e-6, 1e-8, 1e-4
SIGNED = ("entropy", "cross_entropy")
MOST = {"js": math.log(2.0), "total_variation": 1.0, "hellinger": 1.0, "skew_kl 0.1": -math.log(0.1)}
# What central differences leave of a derivative that is 0, and what is left of terms of size 1 that cancel.
NOISE, ROUNDING = 1e-20, 1e-15


@functools.cache
def table(name: str) -> list[dict[str, Any]]:
    rows = json.loads((GOLDEN / f"{FILES[name]}.json").read_text(encoding="utf-8"))
    return [row for row in rows if all(side[0] != "GeneralizedPareto" or hasattr(d, side[0]) for side in sides(row))]


def sides(row: dict[str, Any]) -> tuple[list[Any], list[Any]]:
    return row["p"], row["q"]


def divergence(name: str) -> Callable[[d.Distribution, d.Distribution], Tensor]:
    """`renyi 0.3` is the function `renyi` with 0.3 for its parameter."""
    kind, _, number = name.partition(" ")
    if kind == "entropy":
        return lambda p, _: kb.entropy(p)
    parameter = "beta" if kind == "scaled_js" else "alpha"
    return functools.partial(getattr(kb, kind), **{parameter: float(number)} if number else {})


def build(described: list[Any], dtype: torch.dtype = torch.float64) -> d.Distribution:
    name, parameters = described
    tensor = functools.partial(torch.tensor, dtype=dtype)
    if name == "Mixture":
        parts = build([parameters["of"], parameters["parts"]], dtype)
        return d.MixtureSameFamily(d.Categorical(tensor(parameters["weights"])), parts)
    return make(name, {k: tensor(v) for k, v in parameters.items()})


def make(name: str, parameters: dict[str, Tensor]) -> d.Distribution:
    family = LogitRelaxedBernoulli if name == "LogitRelaxedBernoulli" else getattr(d, name)
    return family(**parameters, validate_args=False)


def within(got: float, want: float, tolerance: float, name: str) -> bool:
    if math.isinf(want):
        return got == want
    size = max(abs(want), 1.0) if name in SIGNED else abs(want)
    return abs(got - want) <= tolerance * size


def tolerance(name: str, want: float) -> float:
    """What is promised for parameters that differ by a large part, by 1e-6 and by 1e-9 of their size."""
    size = want**2 if name in ("total_variation", "hellinger") else want
    return VALUE if name in SIGNED or size > 1e-9 else 1e-8 if size > 1e-13 else 1e-5


def asked(what: str, tables: tuple[str, ...]) -> list[tuple[str, str]]:
    """The divergences in each table, by table and name."""
    return [
        (each, name) for each in tables for name in sorted({name for row in table(each) for name in row.get(what, {})})
    ]


@pytest.mark.parametrize(("of", "name"), asked("truth", ("families", "pairs", "mixtures", "counts")))
@pytest.mark.sample(3)
def test_values(of: str, name: str) -> None:
    bad = []
    for row in table(of):
        if name not in row["truth"]:
            continue
        got, want = divergence(name)(*map(build, sides(row))).item(), float(row["truth"][name])
        allowed = VALUE + ROUNDING / max(abs(want), ROUNDING) if of == "counts" else tolerance(name, want)
        promised = name != "jeffreys" or want >= 1e-12
        if promised and not within(got, want, allowed, name):
            bad.append((row["p"], row["q"], got, want))
        assert 0 <= got <= MOST.get(name, math.inf) or name in SIGNED
    assert not bad


def exact_in_float32(row: dict[str, Any]) -> bool:
    """Whether float32 stores the parameters of the table."""
    numbers = [v for side in sides(row) for v in side[1].values()]
    return all(isinstance(v, float) and torch.tensor(v).item() == v for v in numbers)


@pytest.mark.parametrize(("of", "name"), asked("truth", ("pairs",)))
def test_values_in_float32(of: str, name: str) -> None:
    rows = [row for row in table(of) if exact_in_float32(row) and name in row["truth"]]
    assert rows
    for row in rows:
        want = float(row["truth"][name])
        got = divergence(name)(*(build(side, torch.float32) for side in sides(row)))
        assert got.dtype == torch.float32
        assert within(got.item(), want, VALUE_32, name), (row["p"], row["q"], got, want)


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float64, GRADIENT), (torch.float32, GRADIENT_32)])
@pytest.mark.parametrize(("of", "name"), asked("gradient", ("gradients", "counts")))
@pytest.mark.sample(5)
def test_gradients(of: str, name: str, dtype: torch.dtype, tolerance: float) -> None:
    rows = [row for row in table(of) if name in row.get("gradient", {})]
    noise = NOISE if of == "gradients" else ROUNDING
    for row in rows if dtype == torch.float64 else filter(exact_in_float32, rows):
        given = {
            s: {k: torch.tensor(v, dtype=dtype, requires_grad=True) for k, v in row[s][1].items()} for s in ("p", "q")
        }
        value = divergence(name)(*(make(row[s][0], given[s]) for s in ("p", "q")))
        for key, text in row["gradient"][name].items():
            side, _, parameter = key.partition(".")
            variable, want = given[side][parameter], float(text)
            (found,) = torch.autograd.grad(
                value, variable, retain_graph=True, allow_unused=True, materialize_grads=True
            )
            got = found.flatten()[0].item()  # tables have the first number of a list
            assert abs(got - want) <= tolerance * abs(want) + noise, (row["p"], row["q"], key, got, want)


def test_errors_of_counts_contain_the_truth() -> None:
    for row in table("counts"):
        found, want = kb.kl_with_error(*map(build, sides(row))), float(row["truth"]["kl"])
        off = 0.0 if found.value == want else abs(found.value - want)
        assert off <= found.error + 8e-16 * max(want, 1.0), (row["p"], row["q"], found)


def test_every_pair_of_counts_is_there() -> None:
    assert len({(row["p"][0], row["q"][0]) for row in table("counts")}) == 36


# What is promised of integrals; cases that nobody tuned to, most of them among the slow tests.
@pytest.mark.parametrize("row", table("random"), ids=lambda row: f"{row['p'][0]}-{row['q'][0]}")
@pytest.mark.sample(8)
def test_random_pairs(row: dict[str, Any]) -> None:
    p, q = map(build, sides(row))
    for name, text in row["truth"].items():
        got, want = divergence(name)(p, q).item(), float(text)
        assert within(got, want, 1e-8, name), (row["p"], row["q"], name, got, want)
