"""The divergences beside KL on pairs of families, near ones and mixtures, in both precisions, with gradients."""

from __future__ import annotations

import functools
import json
import math
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from torch import distributions as d
from torch.distributions.relaxed_bernoulli import LogitRelaxedBernoulli

import kullback as kb
from tests.pairs.test_divergences import tolerance

GOLDEN = Path(__file__).parents[1] / "golden"
# Relative; an entropy is relative to its size or to 1 nat, since it may be 0.
VALUE, VALUE_32, GRADIENT, GRADIENT_32 = 1e-10, 1e-6, 1e-8, 1e-4

DIVERGENCES = {
    "entropy": lambda p, _: kb.entropy(p),
    "cross_entropy": kb.cross_entropy,
    "jeffreys": kb.jeffreys,
    "js": kb.js,
    "skew_kl 0.1": functools.partial(kb.skew_kl, alpha=0.1),
    "scaled_js 0.3": functools.partial(kb.scaled_js, beta=0.3),
    "total_variation": kb.total_variation,
    "hellinger": kb.hellinger,
    "chi2": kb.chi2,
    "renyi 0.3": functools.partial(kb.renyi, alpha=0.3),
    "renyi 0.99999": functools.partial(kb.renyi, alpha=0.99999),
    "renyi 1.5": functools.partial(kb.renyi, alpha=1.5),
}
MOST = {"js": math.log(2.0), "total_variation": 1.0, "hellinger": 1.0, "skew_kl 0.1": -math.log(0.1)}
SIGNED = ("entropy", "cross_entropy")


@functools.cache
def table(name: str) -> list[dict[str, Any]]:
    return json.loads((GOLDEN / f"distribution_divergences_{name}.json").read_text(encoding="utf-8"))


def build(described: list[Any], dtype: torch.dtype = torch.float64) -> d.Distribution:
    name, parameters = described
    tensor = functools.partial(torch.tensor, dtype=dtype)
    if name == "Mixture":
        parts = build([parameters["of"], parameters["parts"]], dtype)
        return d.MixtureSameFamily(d.Categorical(tensor(parameters["weights"])), parts)
    family = LogitRelaxedBernoulli if name == "LogitRelaxedBernoulli" else getattr(d, name)
    return family(**{k: tensor(v) for k, v in parameters.items()})


def within(got: float, want: float, tolerance: float, name: str) -> bool:
    if math.isinf(want):
        return got == want
    size = max(abs(want), 1.0) if name in SIGNED else abs(want)
    return abs(got - want) <= tolerance * size


def available(row: dict[str, Any]) -> bool:
    return all(
        described[0] != "GeneralizedPareto" or hasattr(d, "GeneralizedPareto") for described in (row["p"], row["q"])
    )


@pytest.mark.parametrize("name", DIVERGENCES)
@pytest.mark.sample(3)
def test_values(name: str) -> None:
    bad = []
    for row in filter(available, [*table("pairs"), *table("mixtures")]):
        if name not in row["truth"]:
            continue
        want = float(row["truth"][name])
        got = DIVERGENCES[name](build(row["p"]), build(row["q"])).item()
        allowed = VALUE if name in SIGNED else tolerance(name, want)
        promised = name != "jeffreys" or want >= 1e-12
        if promised and not within(got, want, allowed, name):
            bad.append((row["p"], row["q"], got, want))
        assert got <= MOST.get(name, math.inf)
    assert not bad


def exact_in_float32(row: dict[str, Any]) -> bool:
    """Whether float32 stores the parameters of the table."""
    numbers = [v for side in (row["p"], row["q"]) for v in side[1].values()]
    return all(isinstance(v, float) and torch.tensor(v).item() == v for v in numbers)


@pytest.mark.parametrize("name", DIVERGENCES)
def test_values_in_float32(name: str) -> None:
    rows = [row for row in table("pairs") if available(row) and exact_in_float32(row) and name in row["truth"]]
    assert rows
    for row in rows:
        want = float(row["truth"][name])
        got = DIVERGENCES[name](build(row["p"], torch.float32), build(row["q"], torch.float32))
        assert got.dtype == torch.float32
        assert within(got.item(), want, VALUE_32, name), (row["p"], row["q"], got, want)


# What central differences leave of a derivative that is 0.
NOISE = 1e-20


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float64, GRADIENT), (torch.float32, GRADIENT_32)])
@pytest.mark.parametrize("name", DIVERGENCES)
@pytest.mark.sample(3)
def test_gradients(name: str, dtype: torch.dtype, tolerance: float) -> None:
    rows = [row for row in table("gradients") if dtype == torch.float64 or exact_in_float32(row)]
    assert len(rows) >= 2
    for row in rows:
        sides = [{k: torch.tensor(v, dtype=dtype, requires_grad=True) for k, v in row[s][1].items()} for s in "pq"]
        laws = [getattr(d, row[s][0])(**side) for s, side in zip("pq", sides, strict=True)]
        wanted = row["gradient"][name]
        variables: dict[str, Tensor] = {
            f"{s}.{k}": v for s, side in zip("pq", sides, strict=True) for k, v in side.items()
        }
        value = DIVERGENCES[name](*laws)
        found = torch.autograd.grad(value, list(variables.values()), allow_unused=True, materialize_grads=True)
        for key, got in zip(variables, found, strict=True):
            want = float(wanted[key])
            assert abs(got.item() - want) <= tolerance * abs(want) + NOISE, (row["p"], row["q"], key, got, want)


def test_a_component_of_hardly_any_weight() -> None:
    """At 30 the weight 2^−40 makes up for e^−450; KL(StudentT ‖ mixture) by mpmath.quad with 25 digits."""
    double = functools.partial(torch.tensor, dtype=torch.float64)
    parts = d.Normal(double([0.0, 30.0]), double([1.0, 0.5]))
    mixture, student = d.MixtureSameFamily(d.Categorical(double([1.0, 2.0**-40])), parts), d.StudentT(double(3.0))
    there = kb.jeffreys(student, mixture).item() - kb.kl(mixture, student).item()
    assert there == pytest.approx(0.61239281849535, rel=1e-12)


def test_a_batch_is_its_elements_near_and_far_together() -> None:
    """Elements that are near, far, disjoint and infinite take different ways through one call."""
    loc = torch.tensor([0.0, 1e-6, 1e-3, 0.7, 9.0, 60.0], dtype=torch.float64)
    scale = torch.tensor([1.0, 1.0 + 1e-6, 0.999, 1.3, 0.4, 1.0], dtype=torch.float64)
    for family in (d.Laplace, d.Cauchy, d.Gumbel):
        p, q = family(torch.zeros_like(loc), torch.ones_like(loc)), family(loc, scale)
        for name, divergence in DIVERGENCES.items():
            together = divergence(p, q)
            alone = [divergence(family(p.loc[i], p.scale[i]), family(loc[i], scale[i])).item() for i in range(len(loc))]
            for got, want in zip(together.tolist(), alone, strict=True):
                assert got == want or abs(got - want) <= 1e-9 * abs(want), (family, name, got, want)


def test_a_singular_end_inside_the_other_law() -> None:
    shape, rate, loc, scale = 0.625, 2.875, -0.25, 5.5
    p = d.Gamma(torch.tensor(shape, dtype=torch.float64), rate)
    q = d.Laplace(torch.tensor(loc, dtype=torch.float64), scale)
    # ∫ p²/q: p² has the exponent 2·shape − 2 and the rate 2·rate, 1/q grows like e^(x/scale).
    left = 2 * rate - 1 / scale
    power = 2 * shape * math.log(rate) - 2 * math.lgamma(shape) + math.lgamma(2 * shape - 1)
    power += (1 - 2 * shape) * math.log(left) + math.log(2 * scale) - loc / scale
    assert kb.chi2(p, q).item() == pytest.approx(math.expm1(power), rel=1e-11)
    assert kb.renyi(p, q, alpha=2.0).item() == pytest.approx(power, rel=1e-11)


def test_one_end_of_the_support_of_the_other() -> None:
    # ½|p − q| of Exponential(1) and Laplace(0, 1), q = p/2 for x > 0, is ¼ on either side.
    one = torch.ones((), dtype=torch.float64)
    p, q = d.Exponential(one), d.Laplace(0 * one, one)
    for value in (kb.total_variation(p, q), kb.total_variation(q, p)):
        assert value.item() == pytest.approx(0.5, rel=1e-12)
    # ∫ √(pq) = 1/√2 on the half-line.
    assert kb.hellinger(q, p).item() ** 2 == pytest.approx(1 - math.sqrt(0.5), rel=1e-11)


@pytest.mark.skipif(not hasattr(d, "GeneralizedPareto"), reason="newer than the oldest torch supported")
def test_beyond_an_interval_without_an_end_of_its_own() -> None:
    # Of shape 0 it is Exponential: ∫₀¹ √(e^(−x)) = 2·(1 − e^(−½)).
    one = torch.ones((), dtype=torch.float64)
    for shape, want in ((0.0, 2 * -math.expm1(-0.5)), (1.0, math.log(2.0))):
        p = d.GeneralizedPareto(0 * one, one, shape * one)
        found = kb.hellinger(p, d.Beta(one, one)).item() ** 2
        assert found == pytest.approx(1 - want, rel=1e-10)


def _outer() -> dict[str, tuple[d.Distribution, d.Distribution, float, float]]:
    """Pairs of which one reaches beyond the other, with ½∫(√p − √q)² and, if known, Jensen and Shannon's divergence."""
    t = functools.partial(torch.tensor, dtype=torch.float64)
    bent = d.TransformedDistribution(d.StudentT(t(5.0)), [d.SigmoidTransform()])
    pairs = {"an end that is a number": (d.Weibull(t(1.5), t(1.25)), bent, 0.33796849488524120, math.nan)}
    if hasattr(d, "GeneralizedPareto"):
        pareto = d.GeneralizedPareto(t(0.0), t(1.0), t(0.2))
        normal = d.Normal(t(0.25), t(1.25))
        pairs["an end at infinity"] = (pareto, normal, 0.26621171561732115, 0.19612190213047082)
    return pairs


@pytest.mark.parametrize("name", _outer())
def test_laws_that_reach_beyond_an_end(name: str) -> None:
    """mpmath's quadrature, 25 digits: the density is 0 beyond the image of a map; an end at infinity is no mark."""
    p, q, squared, js = _outer()[name]
    for first, second in ((p, q), (q, p)):
        assert kb.hellinger(first, second).item() ** 2 == pytest.approx(squared, rel=1e-11)
        if not math.isnan(js):
            assert kb.js(first, second).item() == pytest.approx(js, rel=1e-11)
    assert kb.total_variation(p, q).item() == pytest.approx(kb.total_variation(q, p).item(), rel=1e-10)
    assert kb.total_variation(p, q).item() > squared
