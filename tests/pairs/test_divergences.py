"""The divergences beside KL, of distributions, against `distribution_divergences.json` and each other."""

from __future__ import annotations

import copy
import functools
import itertools
import json
import math
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import distributions as d
from torch.distributions.transforms import AffineTransform, PowerTransform

import kullback as kb
from kullback.pairs.table import examples

TABLE = Path(__file__).parents[1] / "golden" / "distribution_divergences.json"
# Relative, float64.

DIVERGENCES = {
    "js": kb.js,
    "skew_kl 0.1": functools.partial(kb.skew_kl, alpha=0.1),
    "scaled_js 0.3": functools.partial(kb.scaled_js, beta=0.3),
    "total_variation": kb.total_variation,
    "hellinger": kb.hellinger,
    "renyi 0.3": functools.partial(kb.renyi, alpha=0.3),
    "renyi 0.5": functools.partial(kb.renyi, alpha=0.5),
    "renyi 1.5": functools.partial(kb.renyi, alpha=1.5),
    "renyi 2": functools.partial(kb.renyi, alpha=2.0),
    "chi2": kb.chi2,
}
SYMMETRIC = ("js", "total_variation", "hellinger", "renyi 0.5")


def tolerance(name: str, want: float) -> float:
    """What is promised for parameters that differ by a large part, by 1e-6 and by 1e-9 of their size."""
    size = want**2 if name in ("total_variation", "hellinger") else want
    return 1e-10 if size > 1e-9 else 1e-8 if size > 1e-13 else 1e-5


@functools.cache
def table() -> list[dict[str, Any]]:
    return json.loads(TABLE.read_text(encoding="utf-8"))


def build(described: list[Any], dtype: torch.dtype = torch.float64) -> d.Distribution:
    name, parameters = described
    tensors = {k: torch.tensor(v, dtype=dtype) if isinstance(v, float) else v for k, v in parameters.items()}
    return getattr(d, name)(**tensors)


@pytest.mark.parametrize("name", DIVERGENCES)
@pytest.mark.sample(2)
def test_values(name: str) -> None:
    bad = []
    for row in table():
        want = float(row["truth"][name])
        got = DIVERGENCES[name](build(row["p"]), build(row["q"])).item()
        if not (got == want or abs(got - want) <= tolerance(name, want) * want):
            bad.append((row["p"], row["q"], got, want))
    assert not bad


@pytest.mark.parametrize("name", SYMMETRIC)
def test_symmetric_ones_are(name: str) -> None:
    for row in table()[:24:3]:
        p, q = build(row["p"]), build(row["q"])
        there, back = DIVERGENCES[name](p, q).item(), DIVERGENCES[name](q, p).item()
        assert abs(there - back) <= 1e-12 * there


def univariate() -> list[d.Distribution]:
    return [p for p in examples().values() if not p.event_shape]


@pytest.mark.parametrize("name", DIVERGENCES)
@pytest.mark.sample(3)
def test_equal_laws_are_exactly_zero_apart(name: str) -> None:
    for p in univariate():
        again = copy.deepcopy(p)
        value = DIVERGENCES[name](p, again)
        assert value.item() == 0.0, (type(p).__name__, value)
        assert math.copysign(1.0, value.item()) == 1.0


PAIRS = [
    (d.Uniform, (0.0, 1.0), d.Uniform, (2.0, 3.0)),
    (d.Exponential, (1.0,), d.Uniform, (-2.0, -1.0)),
    (d.Pareto, (3.0, 2.0), d.Beta, (2.0, 3.0)),
    (d.Normal, (0.0, 1.0), d.Poisson, (2.0,)),
]


@pytest.mark.parametrize(("p", "a", "q", "b"), PAIRS)
def test_laws_that_share_nothing(p, a, q, b) -> None:
    p, q = p(*map(torch.tensor, a)), q(*map(torch.tensor, b))
    assert kb.js(p, q).item() == pytest.approx(math.log(2), rel=1e-7)
    assert kb.total_variation(p, q).item() == 1.0
    assert kb.hellinger(p, q).item() == 1.0
    for alpha in (0.3, 0.5, 2.0, math.inf):
        assert kb.renyi(p, q, alpha).item() == math.inf
    assert kb.chi2(p, q).item() == kb.jeffreys(p, q).item() == math.inf
    assert kb.skew_kl(p, q, 0.1).item() == pytest.approx(-math.log(0.1), rel=1e-6)


@pytest.mark.slow
def test_every_univariate_pair_has_an_answer() -> None:
    """Finite where bounded; Rényi's divergence grows with its order, and nothing is negative or not a number."""
    laws = univariate()
    for p in laws[::3]:
        for q in laws[1::4]:
            if p.batch_shape != q.batch_shape:
                continue
            js, tv, h = kb.js(p, q).item(), kb.total_variation(p, q).item(), kb.hellinger(p, q).item()
            names = type(p).__name__, type(q).__name__
            assert 0 <= js <= math.log(2) * (1 + 1e-6), names
            assert h * h - 1e-6 <= tv <= h * math.sqrt(2 - h * h) + 1e-6, (names, tv, h)
            orders = [kb.renyi(p, q, alpha).item() for alpha in (0.3, 0.8, 1.0, 1.7)]
            assert all(x <= y * (1 + 1e-6) for x, y in itertools.pairwise(orders)), (names, orders)


@pytest.mark.parametrize("name", ["js", "total_variation", "hellinger", "renyi 2"])
def test_float32_is_the_rounded_answer(name: str) -> None:
    p, q = d.Gamma(torch.tensor(2.5), torch.tensor(1.5)), d.Gamma(torch.tensor(2.5001), torch.tensor(1.5))
    exact = [d.Gamma(g.concentration.double(), g.rate.double()) for g in (p, q)]
    got = DIVERGENCES[name](p, q)
    assert got.dtype == torch.float32
    assert got.item() == pytest.approx(DIVERGENCES[name](*exact).item(), rel=1e-6)


def test_batches_broadcast_and_rows_reduce() -> None:
    p = d.Normal(torch.zeros(3, 1, dtype=torch.float64), 1.0)
    q = d.Laplace(torch.tensor([0.0, 0.5], dtype=torch.float64), 1.0)
    rows = kb.js(p, q)
    assert rows.shape == (3, 2)
    mask = torch.tensor([[True], [False], [True]])
    assert kb.js(p, q, mask=mask, reduction="mean").item() == pytest.approx(rows[::2].mean().item(), rel=1e-14)
    assert kb.js(p, q, base=2)[0, 1].item() == pytest.approx(rows[0, 1].item() / math.log(2), rel=1e-14)
    assert kb.js_distance(p, q, base=2)[0, 1].item() == pytest.approx(
        math.sqrt(rows[0, 1].item() / math.log(2)), rel=1e-14
    )
    assert kb.hellinger(d.Normal(torch.zeros(0), 1.0), d.Normal(torch.zeros(0), 2.0)).shape == (0,)
    assert kb.js(d.Normal(torch.zeros(0), 1.0), d.Laplace(torch.zeros(0), 2.0)).shape == (0,)


def test_identities_between_divergences() -> None:
    p = d.Weibull(torch.tensor(1.0, dtype=torch.float64), torch.tensor(1.7, dtype=torch.float64))
    q = d.Gamma(torch.tensor(1.5, dtype=torch.float64), torch.tensor(1.2, dtype=torch.float64))
    assert kb.chi2(p, q).item() == pytest.approx(math.expm1(kb.renyi(p, q, 2.0).item()), rel=1e-12)
    assert kb.renyi(p, q, 1.0).item() == kb.kl(p, q).item()
    assert kb.renyi(p, q, 1 - 1e-9).item() == pytest.approx(kb.kl(p, q).item(), rel=1e-8)
    assert kb.scaled_js(p, q, 0.5).item() == pytest.approx(4 * kb.js(p, q).item(), rel=1e-12)
    assert kb.skew_kl(p, q, 0.0).item() == kb.kl(p, q).item()
    assert kb.jeffreys(p, q).item() == pytest.approx(kb.kl(p, q).item() + kb.kl(q, p).item(), rel=1e-15)


def test_the_ends_of_renyis_orders() -> None:
    inf = math.inf
    double = functools.partial(torch.tensor, dtype=torch.float64)
    half = d.Uniform(double(0.0), double(1.0))
    normal = d.Normal(double(0.0), double(1.0))
    inside = 0.5 * math.erf(math.sqrt(0.5))
    assert kb.renyi(half, normal, 0.0).item() == pytest.approx(-math.log(inside), rel=1e-12)
    assert kb.renyi(normal, half, 0.0).item() == 0.0
    assert kb.renyi(half, normal, inf).item() == pytest.approx(0.5 + 0.5 * math.log(2 * math.pi), rel=1e-10)
    wide = d.Normal(double(0.5), double(2.0))
    assert kb.renyi(normal, wide, inf).item() == pytest.approx(math.log(2) + 0.25 / 6, rel=1e-12)
    assert kb.renyi(wide, normal, inf).item() == inf


# Tails of the same leading order; the next one tells whether p/q is bounded.
TIES = [
    (d.Exponential, (1.5,), d.Gamma, (0.3, 1.5), math.inf),
    (d.Gamma, (2.0, 1.5), d.Chi2, (1.0,), math.log(2.25 * math.sqrt(2 * math.pi)) + 1.5 * math.log(1.5) - 1.5),
    (d.Gamma, (2.0, 0.5), d.Chi2, (1.0,), math.inf),
    (d.LogNormal, (0.0, 1.0), d.LogNormal, (1.0, 1.0), math.inf),
    (d.LogNormal, (0.0, 1.0), d.LogNormal, (0.0, 2.0), math.log(2)),
    (d.Normal, (0.0, 1.0), d.Normal, (1.0, 1.0), math.inf),
    (d.HalfNormal, (1.0,), d.Normal, (0.0, 1.0), math.log(2)),
    (d.HalfNormal, (1.0,), d.Normal, (1.0, 1.0), math.log(2) + 0.5),
    (d.HalfNormal, (1.0,), d.Normal, (-1.0, 1.0), math.inf),
    (d.Gumbel, (0.0, 1.0), d.Gumbel, (1.0, 1.0), math.inf),
    (d.Gumbel, (1.0, 1.0), d.Gumbel, (0.0, 1.0), 1.0),
    (d.InverseGamma, (2.0, 1.0), d.InverseGamma, (1.0, 1.0), math.inf),
    (d.Weibull, (1.0, 1.0), d.Exponential, (1.0,), 0.0),
    (d.Gamma, (2.0, 1.0), d.Laplace, (0.0, 1.0), math.inf),
    (d.Exponential, (1.0,), d.Laplace, (0.0, 1.0), math.log(2)),
]


@pytest.mark.parametrize(("p", "a", "q", "b", "want"), TIES)
def test_the_largest_ratio_of_tails_that_tie(p, a, q, b, want) -> None:
    double = functools.partial(torch.tensor, dtype=torch.float64)
    p, q = p(*map(double, a)), q(*map(double, b))
    assert kb.renyi(p, q, math.inf).item() == pytest.approx(want, rel=1e-12, abs=1e-15)


@pytest.mark.skipif(not hasattr(d, "GeneralizedPareto"), reason="newer than the oldest torch supported")
def test_an_infinite_end_that_is_a_parameter() -> None:
    double = functools.partial(torch.tensor, dtype=torch.float64)
    p = d.GeneralizedPareto(double(0.3), double(1.0), double([0.2, 0.0, -0.5]))
    q, normal = d.Laplace(double(0.3), double(1.2)), d.Normal(double(0.3), double(1.2))
    # mpmath.quad at 25 digits
    hellinger = [0.54384214978937508, 0.54389448405041732, 0.60734814840872075]
    js = [0.23461570094602172, 0.224615464221039, 0.25016787981057403]
    assert kb.hellinger(p, q).tolist() == pytest.approx(hellinger, rel=1e-12)
    assert kb.js(p, normal).tolist() == pytest.approx(js, rel=1e-12)
    one = d.GeneralizedPareto(double(0.3), double(1.0), double(0.2))
    assert kb.js(normal, one).item() == pytest.approx(js[0], rel=1e-12)


def test_a_mapped_law_inside_another() -> None:
    """Total variation is found in the coordinate of the law that ends first, whatever map it went through."""
    double = functools.partial(torch.tensor, dtype=torch.float64)
    p, q = d.Gamma(double(2.0), double(1.5)), d.Beta(double(2.0), double(0.7))
    square, stay = PowerTransform(double(2.0)), [AffineTransform(0.0, 2.0), AffineTransform(0.0, 0.5)]
    mapped = d.TransformedDistribution(p, [square]), d.TransformedDistribution(q, [*stay, square])
    for value in (kb.total_variation(p, q), kb.total_variation(*mapped), kb.total_variation(*mapped[::-1])):
        assert value.item() == pytest.approx(0.57663093736349538, rel=1e-12)


def test_chi_squared_diverges_by_tails_not_by_overflow() -> None:
    double = functools.partial(torch.tensor, dtype=torch.float64)
    scale = double([1.0, 1.4, 1.5])
    assert kb.chi2(d.Normal(double(0.0), scale), d.Normal(double(0.0), 1.0)).isinf().tolist() == [False, False, True]
    shapes = double([0.4, 0.6])
    singular = kb.chi2(d.Gamma(shapes, double(1.0)), d.Laplace(double(0.0), double(3.0)))
    assert singular.isinf().tolist() == [True, False]
    df = double([3.0, 0.9])
    assert kb.chi2(d.StudentT(df), d.StudentT(double(5.0))).isinf().tolist() == [False, True]


def test_several_dimensions() -> None:
    double = functools.partial(torch.tensor, dtype=torch.float64)
    p, q = d.Normal(double([0.0, 1.0]), 1.0), d.Normal(double([0.5, 1.0]), double([1.0, 2.0]))
    joint = d.Independent(p, 1), d.Independent(q, 1)
    gaussian = [d.MultivariateNormal(x.loc, scale_tril=torch.diag(x.scale)) for x in (p, q)]
    for alpha in (0.3, 0.5):
        want = kb.renyi(p, q, alpha).sum().item()
        assert kb.renyi(*joint, alpha).item() == pytest.approx(want, rel=1e-14)
        assert kb.renyi(*gaussian, alpha).item() == pytest.approx(want, rel=1e-12)
    closeness = (1 - kb.hellinger(p, q) ** 2).prod().item()
    assert kb.hellinger(*joint).item() == pytest.approx(math.sqrt(1 - closeness), rel=1e-13)
    assert kb.hellinger(*gaussian).item() == pytest.approx(math.sqrt(1 - closeness), rel=1e-12)
    assert kb.entropy(joint[0]).item() == pytest.approx(kb.entropy(gaussian[0]).item(), rel=1e-14)
    assert kb.jeffreys(*joint).item() == pytest.approx(kb.jeffreys(*gaussian).item(), rel=1e-12)
    for pair in (joint, gaussian):
        with pytest.raises(NotImplementedError, match="several dimensions"):
            kb.js(*pair)


def test_a_bijection_changes_nothing() -> None:
    p, q = d.Normal(torch.tensor(0.0), 1.0), d.Normal(torch.tensor(0.5), 1.5)
    moved = [d.TransformedDistribution(x, d.transforms.SigmoidTransform()) for x in (p, q)]
    for name, divergence in DIVERGENCES.items():
        assert divergence(*moved).item() == pytest.approx(divergence(p, q).item(), rel=1e-6), name


def test_mixtures() -> None:
    double = functools.partial(torch.tensor, dtype=torch.float64)
    mixture = d.MixtureSameFamily(d.Categorical(double([0.3, 0.7])), d.Normal(double([-8.0, 8.0]), double([1.0, 1.0])))
    one = d.Normal(double(8.0), double(1.0))
    # The components do not overlap, so this is a mixture of two classes against one of them.
    classes = kb.Probs(double([0.3, 0.7])), kb.Probs(double([0.0, 1.0]))
    for name in ("js", "total_variation", "hellinger", "renyi 0.5"):
        assert DIVERGENCES[name](mixture, one).item() == pytest.approx(DIVERGENCES[name](*classes).item(), rel=1e-10), (
            name
        )
        assert DIVERGENCES[name](one, mixture).item() == pytest.approx(DIVERGENCES[name](*classes).item(), rel=1e-10), (
            name
        )
    assert kb.chi2(one, mixture).item() == pytest.approx(kb.chi2(*reversed(classes)).item(), rel=1e-10)


def test_views_and_distributions_do_not_mix() -> None:
    for divergence in DIVERGENCES.values():
        with pytest.raises(kb.InputTypeError, match="not one with the other"):
            divergence(d.Categorical(torch.ones(3)), kb.Probs(torch.ones(3) / 3))


def test_entropy_answers_whatever_torch_does() -> None:
    laws = [*examples().values(), d.Multinomial(5, torch.tensor([0.0, 0.25, 0.75])), d.Multinomial(3, torch.eye(2))]
    laws += [d.Wishart(torch.tensor([4.0, 7.5]), torch.eye(3) + 0.25)]
    for p in laws:
        try:
            want = p.entropy()
        except NotImplementedError:
            continue
        got = kb.entropy(p)
        assert got.shape == want.shape
        assert torch.allclose(got, want, rtol=1e-5, atol=1e-5), (type(p).__name__, got, want)
        assert torch.allclose(kb.cross_entropy(p, p), got)
