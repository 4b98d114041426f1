"""The divergences beside KL, of distributions: identities, ends, tails, and cases whose value is known."""

from __future__ import annotations

import copy
import functools
import math

import pytest
import torch
from torch import distributions as d
from torch.distributions.transforms import AffineTransform, PowerTransform

import kullback as kb
from kullback.pairs.table import examples
from tests.divergences.test_golden import asked, build, divergence, sides, table

t = functools.partial(torch.tensor, dtype=torch.float64)
NAMES = ("js", "skew_kl 0.1", "scaled_js 0.3", "total_variation", "hellinger", "chi2")
DIVERGENCES = {name: divergence(name) for name in (*NAMES, *(f"renyi {x}" for x in (0.3, 0.5, 1.5, 2)))}
SYMMETRIC = ("js", "total_variation", "hellinger", "renyi 0.5")


@pytest.mark.parametrize("name", SYMMETRIC)
def test_symmetric_ones_are(name: str) -> None:
    for row in table("families")[:24:3]:
        p, q = map(build, sides(row))
        there, back = DIVERGENCES[name](p, q).item(), DIVERGENCES[name](q, p).item()
        assert abs(there - back) <= 1e-12 * there


def univariate() -> list[d.Distribution]:
    return [p for p in examples().values() if not p.event_shape]


@pytest.mark.parametrize("name", DIVERGENCES)
@pytest.mark.sample(3)
def test_equal_distributions_are_exactly_zero_apart(name: str) -> None:
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
def test_distributions_that_share_nothing(p, a, q, b) -> None:
    p, q = p(*map(torch.tensor, a)), q(*map(torch.tensor, b))
    assert kb.js(p, q).item() == pytest.approx(math.log(2), rel=1e-7)
    assert kb.total_variation(p, q).item() == 1.0
    assert kb.hellinger(p, q).item() == 1.0
    for alpha in (0.3, 0.5, 2.0, math.inf):
        assert kb.renyi(p, q, alpha).item() == math.inf
    assert kb.chi2(p, q).item() == kb.jeffreys(p, q).item() == math.inf
    assert kb.skew_kl(p, q, 0.1).item() == pytest.approx(-math.log(0.1), rel=1e-6)


def test_batches_broadcast_and_rows_reduce() -> None:
    p = d.Normal(torch.zeros(3, 1, dtype=torch.float64), 1.0)
    q = d.Laplace(t([0.0, 0.5]), 1.0)
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
    p = d.Weibull(t(1.0), t(1.7))
    q = d.Gamma(t(1.5), t(1.2))
    assert kb.chi2(p, q).item() == pytest.approx(math.expm1(kb.renyi(p, q, 2.0).item()), rel=1e-12)
    assert kb.renyi(p, q, 1.0).item() == kb.kl(p, q).item()
    assert kb.renyi(p, q, 1 - 1e-9).item() == pytest.approx(kb.kl(p, q).item(), rel=1e-8)
    assert kb.scaled_js(p, q, 0.5).item() == pytest.approx(4 * kb.js(p, q).item(), rel=1e-12)
    assert kb.skew_kl(p, q, 0.0).item() == kb.kl(p, q).item()
    assert kb.jeffreys(p, q).item() == pytest.approx(kb.kl(p, q).item() + kb.kl(q, p).item(), rel=1e-15)


def test_the_ends_of_renyis_orders() -> None:
    inf = math.inf
    half = d.Uniform(t(0.0), t(1.0))
    normal = d.Normal(t(0.0), t(1.0))
    inside = 0.5 * math.erf(math.sqrt(0.5))
    assert kb.renyi(half, normal, 0.0).item() == pytest.approx(-math.log(inside), rel=1e-12)
    assert kb.renyi(normal, half, 0.0).item() == 0.0
    assert kb.renyi(half, normal, inf).item() == pytest.approx(0.5 + 0.5 * math.log(2 * math.pi), rel=1e-10)
    wide = d.Normal(t(0.5), t(2.0))
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
    p, q = p(*map(t, a)), q(*map(t, b))
    assert kb.renyi(p, q, math.inf).item() == pytest.approx(want, rel=1e-12, abs=1e-15)


@pytest.mark.skipif(not hasattr(d, "GeneralizedPareto"), reason="newer than the oldest torch supported")
def test_an_infinite_end_that_is_a_parameter() -> None:
    p = d.GeneralizedPareto(t(0.3), t(1.0), t([0.2, 0.0, -0.5]))
    q, normal = d.Laplace(t(0.3), t(1.2)), d.Normal(t(0.3), t(1.2))
    # mpmath.quad at 25 digits
    hellinger = [0.54384214978937508, 0.54389448405041732, 0.60734814840872075]
    js = [0.23461570094602172, 0.224615464221039, 0.25016787981057403]
    assert kb.hellinger(p, q).tolist() == pytest.approx(hellinger, rel=1e-12)
    assert kb.js(p, normal).tolist() == pytest.approx(js, rel=1e-12)
    one = d.GeneralizedPareto(t(0.3), t(1.0), t(0.2))
    assert kb.js(normal, one).item() == pytest.approx(js[0], rel=1e-12)


def test_a_mapped_distribution_inside_another() -> None:
    """Total variation is found in the coordinate of the distribution that ends first, whatever map it went through."""
    p, q = d.Gamma(t(2.0), t(1.5)), d.Beta(t(2.0), t(0.7))
    square, stay = PowerTransform(t(2.0)), [AffineTransform(0.0, 2.0), AffineTransform(0.0, 0.5)]
    mapped = d.TransformedDistribution(p, [square]), d.TransformedDistribution(q, [*stay, square])
    for value in (kb.total_variation(p, q), kb.total_variation(*mapped), kb.total_variation(*mapped[::-1])):
        assert value.item() == pytest.approx(0.57663093736349538, rel=1e-12)


def test_chi_squared_diverges_by_tails_not_by_overflow() -> None:
    scale = t([1.0, 1.4, 1.5])
    assert kb.chi2(d.Normal(t(0.0), scale), d.Normal(t(0.0), 1.0)).isinf().tolist() == [False, False, True]
    shapes = t([0.4, 0.6])
    singular = kb.chi2(d.Gamma(shapes, t(1.0)), d.Laplace(t(0.0), t(3.0)))
    assert singular.isinf().tolist() == [True, False]
    df = t([3.0, 0.9])
    assert kb.chi2(d.StudentT(df), d.StudentT(t(5.0))).isinf().tolist() == [False, True]


def test_several_dimensions() -> None:
    p, q = d.Normal(t([0.0, 1.0]), 1.0), d.Normal(t([0.5, 1.0]), t([1.0, 2.0]))
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
    for name, function in DIVERGENCES.items():
        assert function(*moved).item() == pytest.approx(function(p, q).item(), rel=1e-6), name


def test_mixtures() -> None:
    mixture = d.MixtureSameFamily(d.Categorical(t([0.3, 0.7])), d.Normal(t([-8.0, 8.0]), t([1.0, 1.0])))
    one = d.Normal(t(8.0), t(1.0))
    # The components do not overlap, so this is a mixture of two classes against one of them.
    classes = kb.Probs(t([0.3, 0.7])), kb.Probs(t([0.0, 1.0]))
    for name in ("js", "total_variation", "hellinger", "renyi 0.5"):
        assert DIVERGENCES[name](mixture, one).item() == pytest.approx(DIVERGENCES[name](*classes).item(), rel=1e-10), (
            name
        )
        assert DIVERGENCES[name](one, mixture).item() == pytest.approx(DIVERGENCES[name](*classes).item(), rel=1e-10), (
            name
        )
    assert kb.chi2(one, mixture).item() == pytest.approx(kb.chi2(*reversed(classes)).item(), rel=1e-10)


def test_views_and_distributions_do_not_mix() -> None:
    for function in DIVERGENCES.values():
        with pytest.raises(kb.InputTypeError, match="not one with the other"):
            function(d.Categorical(torch.ones(3)), kb.Probs(torch.ones(3) / 3))


def test_entropy_answers_whatever_torch_does() -> None:
    known = [*examples().values(), d.Multinomial(5, torch.tensor([0.0, 0.25, 0.75])), d.Multinomial(3, torch.eye(2))]
    known += [d.Wishart(torch.tensor([4.0, 7.5]), torch.eye(3) + 0.25)]
    for p in known:
        try:
            want = p.entropy()
        except NotImplementedError:
            continue
        got = kb.entropy(p)
        assert got.shape == want.shape
        assert torch.allclose(got, want, rtol=1e-5, atol=1e-5), (type(p).__name__, got, want)
        assert torch.allclose(kb.cross_entropy(p, p), got)


def test_a_batch_is_its_elements_near_and_far_together() -> None:
    """Elements that are near, far, disjoint and infinite take different routes through one call."""
    loc = t([0.0, 1e-6, 1e-3, 0.7, 9.0, 60.0])
    scale = t([1.0, 1.0 + 1e-6, 0.999, 1.3, 0.4, 1.0])
    p, q = d.Laplace(torch.zeros_like(loc), torch.ones_like(loc)), d.Laplace(loc, scale)
    for _, name in asked("truth", ("pairs",)):
        function = divergence(name)
        alone = [function(d.Laplace(p.loc[i], p.scale[i]), d.Laplace(loc[i], scale[i])).item() for i in range(len(loc))]
        for got, want in zip(function(p, q).tolist(), alone, strict=True):
            assert got == want or abs(got - want) <= 1e-9 * abs(want), (name, got, want)


def test_a_singular_end_inside_the_other_distribution() -> None:
    shape, rate, loc, scale = 0.625, 2.875, -0.25, 5.5
    p = d.Gamma(t(shape), rate)
    q = d.Laplace(t(loc), scale)
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
    bent = d.TransformedDistribution(d.StudentT(t(5.0)), [d.SigmoidTransform()])
    pairs = {"an end that is a number": (d.Weibull(t(1.5), t(1.25)), bent, 0.33796849488524120, math.nan)}
    if hasattr(d, "GeneralizedPareto"):
        pareto = d.GeneralizedPareto(t(0.0), t(1.0), t(0.2))
        normal = d.Normal(t(0.25), t(1.25))
        pairs["an end at infinity"] = (pareto, normal, 0.26621171561732115, 0.19612190213047082)
    return pairs


@pytest.mark.parametrize("name", _outer())
def test_distributions_that_reach_beyond_an_end(name: str) -> None:
    """mpmath's quadrature, 25 digits: the density is 0 beyond the image of a map; an end at infinity is no mark."""
    p, q, squared, js = _outer()[name]
    for first, second in ((p, q), (q, p)):
        assert kb.hellinger(first, second).item() ** 2 == pytest.approx(squared, rel=1e-11)
        if not math.isnan(js):
            assert kb.js(first, second).item() == pytest.approx(js, rel=1e-11)
    assert kb.total_variation(p, q).item() == pytest.approx(kb.total_variation(q, p).item(), rel=1e-10)
    assert kb.total_variation(p, q).item() > squared
