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
from torch.distributions import AffineTransform, Distribution, ExpTransform, MixtureSameFamily, TransformedDistribution
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


def test_narrow_against_wide_and_far_apart() -> None:
    # KL(Laplace(m, b) ‖ Cauchy) → −1 − log 2b + log π + log(1 + m²) for b → 0.
    p = d.Laplace(torch.tensor(3.0, dtype=torch.float64), 1e-12)
    want = -1 - math.log(2e-12) + math.log(math.pi) + math.log(10.0)
    assert kl_divergence(p, d.Cauchy(0.0, 1.0)).item() == pytest.approx(want, rel=1e-13)
    # E log(1 + (x/γ)²) for γ → 0 is 2 E log|x| − 2 log γ, E log|x| = −(γ_E + log 2)/2 for a standard Normal.
    q = d.Cauchy(torch.tensor(0.0, dtype=torch.float64), 1e-8)
    entropy = 0.5 * math.log(2 * math.pi * math.e)
    want = -entropy + math.log(math.pi * 1e-8) - (0.5772156649015329 + math.log(2)) - 2 * math.log(1e-8)
    value = kl_divergence(d.Normal(torch.tensor(0.0, dtype=torch.float64), 1.0), q)
    # The next term of the expansion in γ: E log(1 + γ²/x²) = 2π·φ(0)·γ.
    want += 2 * math.pi * 1e-8 / math.sqrt(2 * math.pi)
    assert value.item() == pytest.approx(want, rel=1e-13)


# By mpmath.quad with 30 digits on pieces that follow the narrow law.
NARROW = [
    ("RelaxedBernoulli", {"temperature": 2.0**27, "logits": -3.0 * 2**24}, "Normal", {"loc": 0.5, "scale": 0.25},
     {"kl": 17.7375613654593665}),
    ("RelaxedBernoulli", {"temperature": 2.0**27, "logits": -3.0 * 2**24}, "Beta",
     {"concentration1": 13.5, "concentration0": 15.125}, {"kl": 16.9020174097357452}),
    ("LogNormal", {"loc": 1.0, "scale": 2.0**-26}, "Gumbel", {"loc": 1.0, "scale": 2.0},
     {"p.loc": -0.216490289419926716}),
    ("LogNormal", {"loc": 0.25, "scale": 0.75}, "Cauchy", {"loc": 1.25, "scale": 2.0**-26},
     {"kl": 16.4603004928604306, "q.loc": 0.720154672293542370, "p.loc": 0.0998066198168244897}),
]  # fmt: skip


@pytest.mark.parametrize(("p", "params_p", "q", "params_q", "truth"), NARROW)
def test_scales_a_hundred_million_apart(
    p: str, params_p: dict[str, float], q: str, params_q: dict[str, float], truth: dict[str, float]
) -> None:
    given = {"p": tensors(params_p, grad=True), "q": tensors(params_q, grad=True)}
    value = kl_divergence(make(p, given["p"]), make(q, given["q"]))
    value.backward()
    for name, want in truth.items():
        side, _, parameter = name.partition(".")
        got = value if name == "kl" else given[side][parameter].grad
        assert got.item() == pytest.approx(want, rel=1e-9 if name == "kl" else 1e-6)


@pytest.mark.skipif("GeneralizedPareto" not in NAMES, reason="torch has no such law")
def test_slope_of_a_shape_of_0() -> None:
    """−log q = log σ + z + ξ(z − z²/2) + ξ²(z³/3 − z²/2) + …, whose moments under a uniform law are known."""
    shape = torch.tensor(0.0, dtype=torch.float64, requires_grad=True)
    p = d.Uniform(*torch.tensor([1.25, 3.75], dtype=torch.float64))
    value = kl_divergence(p, d.GeneralizedPareto(*torch.tensor([0.25, 3.0], dtype=torch.float64), shape))
    (slope,) = torch.autograd.grad(value, shape, create_graph=True)
    low, high = 1.0 / 3, 3.5 / 3
    moment = [(high ** (k + 1) - low ** (k + 1)) / (k + 1) / (high - low) for k in range(4)]
    assert value.item() == pytest.approx(moment[1] + math.log(3.0 / 2.5), rel=1e-13)
    assert slope.item() == pytest.approx(moment[1] - moment[2] / 2, rel=1e-12)
    assert torch.autograd.grad(slope, shape)[0].item() == pytest.approx(2 * moment[3] / 3 - moment[2], rel=1e-10)


def test_equal_laws_of_different_names() -> None:
    one = torch.tensor(1.0, dtype=torch.float64)
    scale = torch.tensor(0.7, dtype=torch.float64)
    for p, q in [
        (d.StudentT(one, 0.3, scale), d.Cauchy(0.3, scale)),
        (d.Weibull(scale, one), d.Exponential(1 / scale)),
        (d.Kumaraswamy(one, one), d.Uniform(0 * one, one)),
        (TransformedDistribution(d.Normal(0.2, scale), [ExpTransform()]), d.LogNormal(0.2, scale)),
    ]:
        assert 0 <= kl_divergence(p, q).item() < 1e-27


def test_nearly_equal_laws_of_different_names() -> None:
    # KL(Weibull(1, k) ‖ Exponential(1)), k = 1 + ε, in closed form: log k + γ(1/k − 1) + Γ(1 + 1/k) − 1.
    k = 1 + 2.0**-14
    value = kl_divergence(d.Weibull(1.0, torch.tensor(k, dtype=torch.float64)), d.Exponential(1.0))
    with densities.mp.workdps(40):
        exact = densities.mp.mpf(k)
        want = densities.mp.log(exact) + densities.mp.euler * (1 / exact - 1) + densities.mp.gamma(1 + 1 / exact) - 1
    assert value.item() == pytest.approx(float(want), rel=TOLERANCE)


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


@pytest.mark.parametrize("side", ["p", "q"])
def test_a_component_of_weight_1e12th(side: str) -> None:
    thin = normals([1 - 1e-12, 1e-12], [0.0, 30.0], [1.0, 2.0])
    one = torch.tensor(1.0, dtype=torch.float64)
    plain = (d.Normal(0 * one, one), densities.normal(densities.mp.mpf(0), densities.mp.mpf(1)))
    p, q = (thin, plain) if side == "p" else (plain, thin)
    want = float(densities.kl(p[1], q[1], check=False))
    assert kl_divergence(p[0], q[0]).item() == pytest.approx(want, rel=TOLERANCE)


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


def test_transformed_laws() -> None:
    t = functools.partial(torch.tensor, dtype=torch.float64)
    gamma, normal = d.Gamma(t(2.2), t(1.4)), d.Normal(t(-0.1), t(1.0))
    mirrored = TransformedDistribution(d.Exponential(t(1.3)), [AffineTransform(0.0, -1.0)])
    same = [
        (
            TransformedDistribution(d.Exponential(t(1.3)), [AffineTransform(0.0, 2.0)]),
            gamma,
            d.Exponential(t(0.65)),
            gamma,
        ),
        (
            gamma,
            TransformedDistribution(d.Normal(t(0.2), t(0.6)), [ExpTransform()]),
            gamma,
            d.LogNormal(t(0.2), t(0.6)),
        ),
        (mirrored, normal, d.Exponential(t(1.3)), d.Normal(t(0.1), t(1.0))),
        (
            TransformedDistribution(d.Exponential(t(3.1)), [ExpTransform(), AffineTransform(0.0, 0.7)]),
            gamma,
            d.Pareto(t(0.7), t(3.1)),
            gamma,
        ),
        (
            TransformedDistribution(gamma, [ExpTransform().inv]),
            d.Normal(t(0.2), t(0.6)),
            gamma,
            d.LogNormal(t(0.2), t(0.6)),
        ),
        (
            TransformedDistribution(d.Normal(t(0.2), t(0.6)), [d.TanhTransform()]),
            d.Uniform(t(-1.0), t(1.0)),
            TransformedDistribution(d.Normal(t(0.4), t(1.2)), [d.SigmoidTransform()]),
            d.Uniform(t(0.0), t(1.0)),
        ),
        (
            TransformedDistribution(gamma, [d.transforms.PowerTransform(t(-1.0))]),
            d.LogNormal(t(0.1), t(0.8)),
            d.InverseGamma(t(2.2), t(1.4)),
            d.LogNormal(t(0.1), t(0.8)),
        ),
    ]
    for p, q, p_again, q_again in same:
        assert kl_divergence(p, q).item() == pytest.approx(kl_divergence(p_again, q_again).item(), rel=1e-12)
    heavy = TransformedDistribution(d.Cauchy(t(0.0), t(1.0)), [ExpTransform()])
    assert kl_divergence(heavy, d.LogNormal(t(0.1), t(0.8))).item() == math.inf
    scales = t([0.4, 0.5, 0.6])
    exp_laplace = TransformedDistribution(d.Laplace(t(0.0), scales), [ExpTransform()])
    assert kl_divergence(exp_laplace, normal).isinf().tolist() == [False, True, True]


@pytest.mark.slow
def test_float32_is_the_exact_answer_for_the_stored_parameters() -> None:
    for row in table("typical"):
        given = [make(row[side], tensors(row[f"{side}_parameters"], torch.float32)) for side in "pq"]
        value = kl_divergence(*given)
        assert value.dtype == torch.float32
        assert value.item() == pytest.approx(float(row["kl"]), rel=1e-6)


def test_batches_broadcast() -> None:
    p, q = d.Gamma(torch.tensor([[2.0], [3.0]]), 1.0), d.LogNormal(torch.tensor([0.1, 0.2, 0.3]), 0.8)
    value = kl_divergence(p, q)
    assert value.shape == (2, 3)
    for i, j in itertools.product(range(2), range(3)):
        single = kl_divergence(d.Gamma(2.0 + i, 1.0), d.LogNormal(q.loc[j], 0.8))
        assert value[i, j].item() == pytest.approx(single.item(), rel=1e-6)
    assert kl_divergence(p.expand((0, 2, 1)), q).shape == (0, 2, 3)
    locs = torch.tensor([[0.0, 2.0], [1.0, 3.0]], dtype=torch.float64)
    mixture = MixtureSameFamily(d.Categorical(torch.ones(2, 2, dtype=torch.float64)), d.Normal(locs, 1.0))
    value = kl_divergence(mixture, d.Cauchy(torch.zeros(3, 1), 1.0))
    assert value.shape == (3, 2)
    first = MixtureSameFamily(d.Categorical(torch.ones(2, dtype=torch.float64)), d.Normal(locs[1], 1.0))
    assert value[2, 1].item() == pytest.approx(kl_divergence(first, d.Cauchy(0.0, 1.0)).item(), rel=1e-12)


def test_elements_that_need_more_panels_do_not_disturb_the_others() -> None:
    # Narrow, wide, far apart, infinite and nearly equal ones beside each other: each goes its own way.
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
    assert kl_divergence(*student_laplace_pair(slice(None))).isinf().tolist() == [
        False,
        False,
        False,
        True,
        False,
        False,
    ]
    leaves = scale.clone().requires_grad_(), scale.clone().requires_grad_()
    kl_divergence(d.StudentT(df, 0.3, leaves[0]), d.Laplace(0.0, 1.0)).nan_to_num(posinf=0.0).sum().backward()
    for i in range(len(df)):
        kl_divergence(d.StudentT(df[i], 0.3, leaves[1][i]), d.Laplace(0.0, 1.0)).backward()
    torch.testing.assert_close(leaves[0].grad, leaves[1].grad, rtol=1e-9, atol=0)


def gamma_log_normal(a: torch.Tensor, b: torch.Tensor, c: torch.Tensor, e: torch.Tensor) -> torch.Tensor:
    return kl_divergence(d.Gamma(a, b, validate_args=False), d.LogNormal(c, e, validate_args=False))


def student_laplace(a: torch.Tensor, b: torch.Tensor, c: torch.Tensor, e: torch.Tensor) -> torch.Tensor:
    p = d.StudentT(a, b, 1.0, validate_args=False)
    return kl_divergence(p, d.Laplace(c, e, validate_args=False))


def mixture_cauchy(a: torch.Tensor, b: torch.Tensor, c: torch.Tensor, e: torch.Tensor) -> torch.Tensor:
    parts = d.Normal(torch.stack([c, -c]), torch.stack([e, 2 * e]), validate_args=False)
    weights = d.Categorical(logits=torch.stack([a, b]), validate_args=False)
    return kl_divergence(MixtureSameFamily(weights, parts, validate_args=False), d.Cauchy(a, b, validate_args=False))


FUNCTIONS = [gamma_log_normal, student_laplace, mixture_cauchy]
POINT = tuple(torch.tensor(x, dtype=torch.float64) for x in (2.2, 1.3, 0.4, 0.8))


@pytest.mark.parametrize("function", FUNCTIONS)
def test_transforms_agree_with_eager(function: Any) -> None:
    stacked = tuple(torch.stack([x, 1.01 * x]) for x in POINT)
    looped = torch.stack([function(*(x[i] for x in stacked)) for i in range(2)])
    torch.testing.assert_close(torch.vmap(function)(*stacked), looped, rtol=1e-12, atol=0)
    leaves = [x.clone().requires_grad_() for x in POINT]
    function(*leaves).backward()
    wanted = torch.stack([x.grad for x in leaves])
    gradient = torch.stack(torch.func.grad(function, argnums=(0, 1, 2, 3))(*POINT))
    torch.testing.assert_close(gradient, wanted, rtol=1e-10, atol=1e-13)
    _, slope = torch.func.jvp(function, POINT, tuple(torch.ones_like(x) for x in POINT))
    torch.testing.assert_close(slope, wanted.sum(), rtol=1e-10, atol=1e-13)


@pytest.mark.parametrize("function", FUNCTIONS)
def test_second_derivative(function: Any) -> None:
    assert torch.autograd.gradgradcheck(
        function, tuple(x.clone().requires_grad_() for x in POINT), rtol=1e-4, atol=1e-6
    )


def laplace_cauchy(a: torch.Tensor, b: torch.Tensor, c: torch.Tensor, e: torch.Tensor) -> torch.Tensor:
    return kl_divergence(d.Laplace(a, b, validate_args=False), d.Cauchy(c, e, validate_args=False))


# Dynamo cannot always capture torch's constructor of StudentT, which validates a Chi2 of its own.
@pytest.mark.slow
@pytest.mark.parametrize("function", [gamma_log_normal, laplace_cauchy, mixture_cauchy])
def test_compiles_in_one_graph(function: Any) -> None:
    torch.compiler.reset()
    compiled = torch.compile(function, fullgraph=True, backend="aot_eager")
    torch.testing.assert_close(compiled(*POINT), function(*POINT), rtol=1e-12, atol=0)
