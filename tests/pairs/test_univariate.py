"""Every ordered pair of univariate continuous families: against mpmath, and finite or infinite as the tails say."""

from __future__ import annotations

import functools
import itertools
import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import distributions as d
from torch.distributions import Distribution, ExpTransform, MixtureSameFamily, TransformedDistribution
from torch.distributions.relaxed_bernoulli import LogitRelaxedBernoulli

from kullback.pairs import kl_divergence, kl_method, kl_with_error
from tests.golden import densities

GOLDEN = Path(__file__).parents[1] / "golden"
PARAMETERS = json.loads((GOLDEN / "parameters.json").read_text(encoding="utf-8"))
TYPICAL, HARD = PARAMETERS["typical"], PARAMETERS["hard"]
NAMES = [name for name in TYPICAL if name == "LogitRelaxedBernoulli" or hasattr(d, name)]
# Stricter than what is promised of an integral; float32 is rounded once from float64.
TOLERANCE, GRADIENT = 1e-10, 1e-8


def make(name: str, parameters: dict[str, Any], **options: Any) -> Distribution:
    family = LogitRelaxedBernoulli if name == "LogitRelaxedBernoulli" else getattr(d, name)
    return family(**parameters, **options)


def tensors(
    parameters: dict[str, float], dtype: torch.dtype = torch.float64, *, grad: bool = False
) -> dict[str, torch.Tensor]:
    return {k: torch.tensor(v, dtype=dtype, requires_grad=grad) for k, v in parameters.items()}


@functools.cache
def table(name: str) -> list[dict[str, Any]]:
    rows = json.loads((GOLDEN / f"univariate_{name}.json").read_text(encoding="utf-8"))
    return [row for row in rows if row["p"] in NAMES and row["q"] in NAMES]


def pair_of(row: dict[str, Any]) -> tuple[Distribution, Distribution]:
    return make(row["p"], tensors(row["p_parameters"])), make(row["q"], tensors(row["q_parameters"]))


# Near equality the promised 1e-8.
@pytest.mark.parametrize(
    ("name", "tolerance"),
    [("typical", TOLERANCE), ("hard", TOLERANCE), ("near", 1e-8), ("swept", TOLERANCE), ("close", TOLERANCE)],
)
def test_values_and_errors(name: str, tolerance: float) -> None:
    bad = []
    for row in table(name):
        found, want = kl_with_error(*pair_of(row)), float(row["kl"])
        off = abs(found.value.item() - want)
        if not off <= tolerance * want or not off <= found.error.item() + 1e-15 * want:
            bad.append((row, "got", found.value.item(), "error", found.error.item()))
    assert not bad


@pytest.fixture
def float64_by_default() -> Iterator[None]:
    """torch's GeneralizedPareto compares its parameters with a tensor of the default dtype."""
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.usefixtures("float64_by_default")
def test_the_densities_of_the_tables_are_torchs(name: str) -> None:
    for parameters in (TYPICAL[name], *HARD[name]):
        density = densities.make(name, parameters)
        points = [x for place, width in density.places for x in (place - width / 2, place, place + width)]
        inside = tensors({"x": [float(x) for x in points if density.lower < x < density.upper]})["x"]
        wanted = [float(density.log_pdf(densities.mp.mpf(x))) for x in inside.tolist()]
        assert wanted
        found = make(name, tensors(parameters)).log_prob(inside)
        assert found.tolist() == pytest.approx(wanted, rel=1e-7, abs=1e-7), parameters  # its Bessel function


def test_the_tables_are_large_enough() -> None:
    answered = {(row["p"], row["q"]) for name in ("typical", "hard") for row in table(name)}
    assert len(answered) >= 250


def test_gradients() -> None:
    bad = []
    for row in (*table("gradients"), *table("steep")):
        given = {side: tensors(row[f"{side}_parameters"], grad=True) for side in "pq"}
        kl_divergence(make(row["p"], given["p"]), make(row["q"], given["q"])).backward()
        for name, text in row["gradient"].items():
            side, _, parameter = name.partition(".")
            got, want = given[side][parameter].grad.item(), float(text)
            if abs(got - want) > GRADIENT * max(abs(want), 1e-3 if abs(want) > 1e-6 else 0.0):
                bad.append((row["p"], row["q"], name, got, want))
    assert not bad


def outside(p: str, params_p: dict[str, float], q: str, params_q: dict[str, float]) -> bool:
    density_p, density_q = densities.make(p, params_p), densities.make(q, params_q)
    return density_p.lower < density_q.lower or density_p.upper > density_q.upper


@pytest.mark.parametrize("p", NAMES)
@pytest.mark.sample(4)
def test_finite_exactly_where_it_should_be(p: str) -> None:
    for q in NAMES:
        if p == q:
            continue
        for params_p, params_q in [(TYPICAL[p], TYPICAL[q]), (HARD[p][0], TYPICAL[q]), (TYPICAL[p], HARD[q][0])]:
            given = tensors(params_p, grad=True), tensors(params_q, grad=True)
            value = kl_divergence(make(p, given[0]), make(q, given[1]))
            infinite = outside(p, params_p, q, params_q) or densities.diverges(p, params_p, q, params_q)
            assert value.item() >= 0, (p, params_p, q, params_q, value)
            assert value.isinf().item() == infinite, (p, params_p, q, params_q, value)
            value.backward()
            gradients = [t.grad for side in given for t in side.values() if t.grad is not None]
            assert not any(g.isnan().any() for g in gradients), (p, params_p, q, params_q, gradients)
            if infinite:
                assert all(bool((g == 0).all()) for g in gradients), (p, params_p, q, params_q, gradients)


def test_a_method_is_named() -> None:
    for p, q in itertools.permutations(NAMES, 2):
        method = kl_method(make(p, tensors(TYPICAL[p])), make(q, tensors(TYPICAL[q])))
        assert method in {"closed form", "integral", "infinite"}, (p, q)


def test_tails_decide_per_element() -> None:
    df = torch.tensor([0.5, 1.0, 1.0 + 1e-9, 3.0], dtype=torch.float64)
    value = kl_divergence(d.StudentT(df), d.Laplace(0.0, 1.0))
    assert value.isinf().tolist() == [True, True, False, False]
    alone = kl_divergence(d.StudentT(df[2]), d.Laplace(0.0, 1.0))
    torch.testing.assert_close(value[2], alone, rtol=1e-10, atol=0)
    shape = torch.tensor([1.0, 2.0, 2.0 + 1e-6, 2.5], dtype=torch.float64)
    value = kl_divergence(d.InverseGamma(shape, torch.ones_like(shape)), d.HalfNormal(1.0))
    assert value.isinf().tolist() == [True, True, False, False]
    # E x² = 1/((a − 1)(a − 2)), the rest is of order 1.
    assert abs(value[2].item() / 0.5e6 - 1) < 1e-4


@pytest.mark.skipif("GeneralizedPareto" not in NAMES, reason="torch has no such distribution")
def test_slope_of_a_shape_of_0() -> None:
    """−log q = log σ + z + ξ(z − z²/2) + ξ²(z³/3 − z²/2) + …, whose moments under a uniform distribution are known."""
    shape = torch.tensor(0.0, dtype=torch.float64, requires_grad=True)
    p = d.Uniform(*torch.tensor([1.25, 3.75], dtype=torch.float64))
    value = kl_divergence(p, d.GeneralizedPareto(*torch.tensor([0.25, 3.0], dtype=torch.float64), shape))
    (slope,) = torch.autograd.grad(value, shape, create_graph=True)
    low, high = 1.0 / 3, 3.5 / 3
    moment = [(high ** (k + 1) - low ** (k + 1)) / (k + 1) / (high - low) for k in range(4)]
    assert value.item() == pytest.approx(moment[1] + math.log(3.0 / 2.5), rel=1e-13)
    assert slope.item() == pytest.approx(moment[1] - moment[2] / 2, rel=1e-12)
    assert torch.autograd.grad(slope, shape)[0].item() == pytest.approx(2 * moment[3] / 3 - moment[2], rel=1e-10)


def test_equal_distributions_of_different_names() -> None:
    one = torch.tensor(1.0, dtype=torch.float64)
    scale = torch.tensor(0.7, dtype=torch.float64)
    for p, q in [
        (d.StudentT(one, 0.3, scale), d.Cauchy(0.3, scale)),
        (d.Weibull(scale, one), d.Exponential(1 / scale)),
        (d.Kumaraswamy(one, one), d.Uniform(0 * one, one)),
        (TransformedDistribution(d.Normal(0.2, scale), [ExpTransform()]), d.LogNormal(0.2, scale)),
    ]:
        assert 0 <= kl_divergence(p, q).item() < 1e-27


@pytest.mark.parametrize(
    ("p", "params_p", "q", "params_q"),
    [
        ("FisherSnedecor", {"df1": 4.0, "df2": 1e6}, "Gamma", {"concentration": 2.0, "rate": 2.0}),
        ("Gamma", {"concentration": 1e6, "rate": 1e6}, "LogNormal", {"loc": -5e-7, "scale": 1e-3}),
        (
            "Kumaraswamy",
            {"concentration1": 1.0001, "concentration0": 2.0},
            "Beta",
            {"concentration1": 1.0001, "concentration0": 2.0},
        ),
    ],
)
def test_nearly_equal_across_families(p: str, params_p: dict[str, float], q: str, params_q: dict[str, float]) -> None:
    want = float(densities.kl(densities.make(p, params_p), densities.make(q, params_q), check=False))
    found = kl_with_error(make(p, tensors(params_p)), make(q, tensors(params_q)))
    assert found.value.item() == pytest.approx(want, rel=TOLERANCE)
    assert abs(found.value.item() - want) <= found.error.item()


def normals(weights: list[float], locs: list[float], scales: list[float]) -> tuple[Distribution, densities.Density]:
    t = [torch.tensor(part, dtype=torch.float64) for part in (weights, locs, scales)]
    parts = [densities.normal(densities.mp.mpf(m), densities.mp.mpf(s)) for m, s in zip(locs, scales, strict=True)]
    return MixtureSameFamily(d.Categorical(probs=t[0]), d.Normal(t[1], t[2])), densities.mixture(weights, parts)


def test_mixtures() -> None:
    p, q = normals([0.5, 0.5], [-2.0, 1.5], [0.6, 1.0]), normals([0.3, 0.5, 0.2], [-1.0, 1.0, 3.0], [1.0, 0.8, 1.5])
    found = kl_with_error(p[0], q[0])
    assert found.value.item() == pytest.approx(0.449706893657397804, rel=1e-13)
    assert found.method == "integral"


def test_a_sharp_corner_between_components() -> None:
    t = functools.partial(torch.tensor, dtype=torch.float64)
    q = MixtureSameFamily(d.Categorical(t([0.5, 0.5])), d.Normal(t([-100.0, 100.0]), t([1.0, 2.0])))
    found = kl_with_error(d.Normal(t(0.0), t(500.0)), q)
    # By ten thousand panels of the same rule and, to nine digits, by a uniform grid of 24 million points.
    assert found.value.item() == pytest.approx(31605.612267274, rel=1e-12)


def test_components_with_ends() -> None:
    t = functools.partial(torch.tensor, dtype=torch.float64)
    halves = MixtureSameFamily(d.Categorical(t([0.5, 0.5])), d.Uniform(t([0.0, 1.0]), t([1.0, 2.0])))
    gap = MixtureSameFamily(d.Categorical(t([0.5, 0.5])), d.Uniform(t([0.0, 1.1]), t([1.0, 2.0])))
    whole, normal = d.Uniform(t(0.0), t(2.0)), d.Normal(t(0.1), t(0.8))
    assert kl_divergence(halves, normal).item() == pytest.approx(kl_divergence(whole, normal).item(), rel=1e-13)
    assert 0 <= kl_divergence(whole, halves).item() < 1e-15
    assert kl_divergence(whole, gap).item() == math.inf
    low = t([0.0, 1.1]).requires_grad_()
    inner = MixtureSameFamily(d.Categorical(t([0.5, 0.5])), d.Uniform(low, t([1.0, 2.0])))
    kl_divergence(inner, normal).backward()
    steps = torch.eye(2, dtype=torch.float64) * 1e-6

    def at(shift: torch.Tensor) -> float:
        moved = MixtureSameFamily(d.Categorical(t([0.5, 0.5])), d.Uniform(low.detach() + shift, t([1.0, 2.0])))
        return kl_divergence(moved, normal).item()

    for got, step in zip(low.grad.tolist(), steps, strict=True):
        assert got == pytest.approx((at(step) - at(-step)) / 2e-6, rel=1e-7)


@pytest.mark.slow
def test_float32_is_the_exact_answer_for_the_stored_parameters() -> None:
    for row in table("typical"):
        given = [make(row[side], tensors(row[f"{side}_parameters"], torch.float32)) for side in "pq"]
        value = kl_divergence(*given)
        assert value.dtype == torch.float32
        assert value.item() == pytest.approx(float(row["kl"]), rel=1e-6)


def test_elements_that_need_more_panels_do_not_disturb_the_others() -> None:
    # Narrow, wide, far apart, infinite and nearly equal ones beside each other: each takes its own route.
    scale = torch.tensor([1.0, 1e-8, 1e6, 0.02, 3.0, 1.0], dtype=torch.float64)
    df = torch.tensor([4.0, 3.0, 2.5, 1.0, 50.0, 1e9], dtype=torch.float64)
    parts = torch.tensor(
        [[-3.0, 3.0], [0.0, 1e-7], [-40.0, 80.0], [0.0, 1.0], [1.0, 5.0], [0.0, 0.0]], dtype=torch.float64
    )

    def student_laplace_pair(rows: slice | int) -> tuple[Distribution, Distribution]:
        return d.StudentT(df[rows], 0.3, scale[rows]), d.Laplace(torch.tensor(0.0, dtype=torch.float64), 1.0)

    def mixtures(rows: slice | int) -> tuple[Distribution, Distribution]:
        weights = d.Categorical(probs=torch.tensor([0.75, 0.25], dtype=torch.float64).expand(parts[rows].shape))
        return MixtureSameFamily(weights, d.Normal(parts[rows], scale[rows].unsqueeze(-1))), d.Cauchy(0.5, scale[rows])

    for pair in (student_laplace_pair, mixtures):
        whole = kl_divergence(*pair(slice(None)))
        singles = torch.stack([kl_divergence(*pair(i)) for i in range(len(df))])
        torch.testing.assert_close(whole, singles, rtol=1e-11, atol=0)
    infinite = kl_divergence(*student_laplace_pair(slice(None))).isinf()
    assert infinite.nonzero().flatten().tolist() == [3]
    leaves = scale.clone().requires_grad_(), scale.clone().requires_grad_()
    kl_divergence(d.StudentT(df, 0.3, leaves[0]), d.Laplace(0.0, 1.0)).nan_to_num(posinf=0.0).sum().backward()
    for i in range(len(df)):
        kl_divergence(d.StudentT(df[i], 0.3, leaves[1][i]), d.Laplace(0.0, 1.0)).backward()
    torch.testing.assert_close(leaves[0].grad, leaves[1].grad, rtol=1e-9, atol=0)
