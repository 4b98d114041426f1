"""Every ordered pair of laws of counts, against sums in mpmath."""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable
from typing import Any

import mpmath as mp
import pytest
import torch
from torch import distributions as d
from torch.distributions import Distribution, MixtureSameFamily

from kullback.pairs import kl_divergence, kl_method, kl_with_error

t = functools.partial(torch.tensor, dtype=torch.float64)
Pmf = tuple[Callable[[int], Any], float]


def poisson(rate: float) -> Pmf:
    rate = mp.mpf(rate)
    return lambda k: k * mp.log(rate) - rate - mp.loggamma(k + 1), math.inf


def geometric(p: float) -> Pmf:
    p = mp.mpf(p)
    return lambda k: mp.log(p) + k * mp.log(1 - p), math.inf


def negative_binomial(r: float, p: float) -> Pmf:
    r, p = mp.mpf(r), mp.mpf(p)
    level = r * mp.log(1 - p) - mp.loggamma(r)
    return lambda k: mp.loggamma(k + r) - mp.loggamma(k + 1) + level + k * mp.log(p), math.inf


def binomial(n: int, p: float) -> Pmf:
    p = mp.mpf(p)
    return (
        lambda k: (
            mp.loggamma(n + 1) - mp.loggamma(k + 1) - mp.loggamma(n - k + 1) + k * mp.log(p) + (n - k) * mp.log(1 - p)
        ),
        n,
    )


def listed(weights: list[float]) -> Pmf:
    total = mp.fsum(weights)
    return lambda k: mp.log(mp.mpf(weights[k]) / total), len(weights) - 1


LAWS: dict[str, tuple[Distribution, Pmf]] = {
    "Bernoulli": (d.Bernoulli(t(0.3125)), listed([0.6875, 0.3125])),
    "Binomial": (d.Binomial(2, t(0.375)), binomial(2, 0.375)),
    "long Binomial": (d.Binomial(3000, t(0.875)), binomial(3000, 0.875)),
    "Categorical": (d.Categorical(t([0.25, 0.5, 0.25])), listed([0.25, 0.5, 0.25])),
    "Geometric": (d.Geometric(t(0.3125)), geometric(0.3125)),
    "long Geometric": (d.Geometric(t(0.015625)), geometric(0.015625)),
    "NegativeBinomial": (d.NegativeBinomial(t(3.5), t(0.625)), negative_binomial(3.5, 0.625)),
    "peaked NegativeBinomial": (d.NegativeBinomial(t(0.25), t(0.96875)), negative_binomial(0.25, 0.96875)),
    "Poisson": (d.Poisson(t(3.25)), poisson(3.25)),
    "wide Poisson": (d.Poisson(t(520.0)), poisson(520.0)),
}


@functools.cache
def logarithms(name: str, count: int) -> list[Any]:
    log_pmf, upper = LAWS[name][1]
    return [log_pmf(k) for k in range(min(count, int(min(upper, count)) + 1))]


def truth(p: str, q: str) -> float:
    upper_p, upper_q = LAWS[p][1][1], LAWS[q][1][1]
    if upper_p > upper_q:
        return math.inf
    with mp.workdps(30):
        log_p, log_q = logarithms(p, 3001), logarithms(q, 3001)
        terms = (mp.exp(a) * (a - b) for a, b in zip(log_p, log_q, strict=False))
        return float(mp.fsum(terms))


@pytest.mark.parametrize(("p", "q"), list(itertools.permutations(LAWS, 2)))
@pytest.mark.sample(3)
def test_value(p: str, q: str) -> None:
    first, second = LAWS[p][0], LAWS[q][0]
    want, found = truth(p, q), kl_with_error(first, second)
    if math.isinf(want):
        assert found.value.item() == math.inf
        return
    assert found.value.item() == pytest.approx(want, rel=1e-11)
    if found.method == "series":
        assert abs(found.value.item() - want) <= found.error.item() + 1e-15 * want


def test_methods() -> None:
    assert kl_method(d.Poisson(t(2.0)), d.Geometric(t(0.5))) == "series"
    assert kl_method(d.Geometric(t(0.5)), d.Categorical(t([0.5, 0.5]))) == "infinite"
    assert kl_method(d.Normal(t(0.0), t(1.0)), d.Poisson(t(2.0))) == "infinite"
    assert kl_method(d.Poisson(t(2.0)), d.Normal(t(0.0), t(1.0))) == "infinite"


def test_atoms_against_a_density_are_infinite_both_ways() -> None:
    mixture = MixtureSameFamily(d.Categorical(t([0.5, 0.5])), d.Normal(t([0.0, 1.0]), t(1.0)))
    for density in (d.VonMises(t(0.0), t(1.0)), d.Normal(t(0.0), t(1.0)), mixture):
        for p, q in ((density, d.Poisson(t(2.0))), (d.Poisson(t(2.0)), density)):
            assert kl_method(p, q) == "infinite"
            assert kl_divergence(p, q).item() == math.inf


def test_a_mean_of_1e12() -> None:
    # With the same mean, KL(Poisson(m) ‖ NB) for r → ∞ is ½·[log(1 + x) − x/(1 + x)] + O(1/m), x = m/r.
    mean, r = 1e12, 1e12
    value = kl_divergence(d.Poisson(t(mean)), d.NegativeBinomial(t(r), t(mean / (mean + r))))
    assert value.item() == pytest.approx((math.log(2) - 0.5) / 2, rel=1e-11)
    # KL(Geometric ‖ Poisson) of a large mean: E[deviance] + ½·log(2πk) − entropy, dominated by m·E[u log u].
    value = kl_divergence(d.Geometric(t(1e-9)), d.Poisson(t(1e9)))
    assert value.item() == pytest.approx(1e9 * (1 - 0.5772156649015329), rel=1e-6)


def integrated(p: Pmf, q: Pmf, mean: float, deviation: float) -> float:
    """A sum over so wide a law is its integral, but for e^(−2π²·variance)."""
    with mp.workdps(50):
        edges = [mp.mpf(mean) + mp.mpf(deviation) * step for step in range(-13, 14)]

        def term(k: Any) -> Any:
            log_p = p[0](k)
            return mp.exp(log_p) * (log_p - q[0](k))

        return float(mp.quad(term, edges, maxdegree=4))


with mp.workdps(60):
    BIG = {
        "Poisson": (d.Poisson(t(1e12)), poisson(1e12), 1e12, 1e6),
        "NegativeBinomial": (
            d.NegativeBinomial(t(1e12), t(0.5000003)),
            negative_binomial(1e12, 0.5000003),
            1e12,
            1.5e6,
        ),
        "inexact NegativeBinomial": (
            d.NegativeBinomial(t(2.3e12), t(0.3)),
            negative_binomial(2.3e12, 0.3),
            985714285714,
            1.2e6,
        ),
        "Geometric": (d.Geometric(t(1e-12)), geometric(1e-12), 0.0, 0.0),
        "Binomial": (d.Binomial(t(2e12), t(0.5)), binomial(2_000_000_000_000, 0.5), 1e12, 8e5),
    }
# A Geometric is as wide as its mean, a Binomial finite, and KL(Binomial ‖ Poisson) has a formula of its own.
NARROW = [name for name in BIG if name != "Geometric"]
ENDLESS = [name for name in BIG if name != "Binomial"]


@pytest.mark.parametrize(
    ("p", "q"),
    [(p, q) for p in NARROW for q in ENDLESS if p.split()[-1] != q.split()[-1] and (p, q) != ("Binomial", "Poisson")],
)
@pytest.mark.sample(3)
def test_counts_of_1e12(p: str, q: str) -> None:
    law, log_pmf, mean, deviation = BIG[p]
    want, found = integrated(log_pmf, BIG[q][1], mean, deviation), kl_with_error(law, BIG[q][0])
    assert found.value.item() == pytest.approx(want, rel=1e-9)
    assert abs(found.value.item() - want) <= found.error.item()


def test_equal_laws_of_different_names() -> None:
    for p, q in [
        (d.Geometric(t(0.25)), d.NegativeBinomial(t(1.0), t(0.75))),
        (d.Bernoulli(t(0.25)), d.Categorical(t([0.75, 0.25]))),
        (d.Categorical(t([0.75, 0.25])), d.Binomial(1, t(0.25))),
    ]:
        assert 0 <= kl_divergence(p, q).item() < 1e-27
    near = kl_divergence(d.Poisson(t(3.0)), d.NegativeBinomial(t(1e6), t(3.0 / (1e6 + 3.0))))
    assert near.item() == pytest.approx(9 / 4e12, rel=1e-4)


def test_degenerate_laws() -> None:
    zero = d.Poisson(t([0.0, 1.0]))
    value = kl_divergence(zero, d.Bernoulli(t(0.25)))
    assert value.tolist() == [pytest.approx(-math.log(0.75)), math.inf]
    assert kl_divergence(d.Geometric(t(0.5)), d.Poisson(t(0.0))).item() == math.inf
    holes = d.Categorical(t([0.5, 0.0, 0.5]))
    assert kl_divergence(d.Binomial(2, t(0.5)), holes).item() == math.inf
    assert kl_divergence(holes, d.Binomial(2, t(0.5))).item() == pytest.approx(math.log(2))


def test_mixtures() -> None:
    thin = MixtureSameFamily(d.Categorical(t([1 - 1e-12, 1e-12])), d.Poisson(t([3.0, 300.0])))
    plain = d.Poisson(t(3.0))
    # −log of the first weight, since the second component has its mass elsewhere.
    assert kl_divergence(plain, thin).item() == pytest.approx(1e-12, rel=1e-9)
    want = 1e-12 * (math.log(1e-12) - 1 + 300 * math.log(100) - 297)
    assert kl_divergence(thin, plain).item() == pytest.approx(want + 1e-24, rel=1e-3)
    two = MixtureSameFamily(d.Categorical(t([0.5, 0.5])), d.Binomial(4, t([0.25, 0.75])))
    k = torch.arange(5, dtype=torch.float64)
    q = d.Geometric(t(0.25))
    log_p = two.log_prob(k)
    want = (log_p.exp() * (log_p - q.log_prob(k))).sum().item()
    assert kl_divergence(two, q).item() == pytest.approx(want, rel=1e-12)


def negative_binomial_poisson(a: torch.Tensor, b: torch.Tensor, c: torch.Tensor) -> torch.Tensor:
    p = d.NegativeBinomial(a, logits=b, validate_args=False)
    return kl_divergence(p, d.Poisson(c, validate_args=False))


POINT = (t(2.25), t(1.25), t(7.5))


def test_gradients_and_transforms() -> None:
    leaves = tuple(x.clone().requires_grad_() for x in POINT)
    value = negative_binomial_poisson(*leaves)
    value.backward()

    def sum_of(r: Any, logit: Any, rate: Any) -> Any:
        p = 1 / (1 + mp.exp(-logit))
        log_p, log_q = negative_binomial(r, p)[0], poisson(rate)[0]
        return mp.fsum(mp.exp(log_p(k)) * (log_p(k) - log_q(k)) for k in range(400))

    with mp.workdps(30):
        at = [mp.mpf(x.item()) for x in POINT]
        for i, leaf in enumerate(leaves):
            up, down = (sum_of(*(x + s * mp.mpf("1e-8") * (i == j) for j, x in enumerate(at))) for s in (1, -1))
            assert leaf.grad.item() == pytest.approx(float((up - down) / mp.mpf("2e-8")), rel=1e-8)
    stacked = tuple(torch.stack([x, 1.01 * x]) for x in POINT)
    looped = torch.stack([negative_binomial_poisson(*(x[i] for x in stacked)) for i in range(2)])
    torch.testing.assert_close(torch.vmap(negative_binomial_poisson)(*stacked), looped, rtol=1e-12, atol=0)
    assert torch.autograd.gradgradcheck(negative_binomial_poisson, leaves, rtol=1e-4, atol=1e-6)


def test_batches_broadcast() -> None:
    value = kl_divergence(d.Poisson(t([[1.0], [20.0]])), d.NegativeBinomial(t([1.0, 2.0, 3.0]), t(0.5)))
    assert value.shape == (2, 3)
    single = kl_divergence(d.Poisson(t(20.0)), d.NegativeBinomial(t(2.0), t(0.5)))
    assert value[1, 1].item() == pytest.approx(single.item(), rel=1e-13)
    assert kl_divergence(d.Poisson(torch.ones(0)), d.Geometric(torch.tensor(0.5))).shape == (0,)


@pytest.mark.slow
def test_compiles_in_one_graph() -> None:
    torch.compiler.reset()
    compiled = torch.compile(negative_binomial_poisson, fullgraph=True, backend="aot_eager")
    torch.testing.assert_close(compiled(*POINT), negative_binomial_poisson(*POINT), rtol=1e-12, atol=0)


def _wide(weights: list[float], logits: list[float]) -> Distribution:
    return MixtureSameFamily(d.Categorical(t(weights)), d.Geometric(logits=t(logits)))


@pytest.mark.parametrize(
    ("p", "q", "want"),
    [
        # mpmath: sums over the first counts, what follows in closed form or by Euler and Maclaurin's formula.
        (_wide([0.75, 2.0**-33], [30.0, -27.5]), d.Geometric(t(0.75)), 189.044474481321192),
        (d.Geometric(logits=t(-33.0)), d.Poisson(t(0.75)), 7021091606183523.2788),
    ],
)
def test_means_beyond_1e12(p: Distribution, q: Distribution, want: float) -> None:
    """A component of weight 1e-10 that reaches to 1e12 decides; far nodes have no number for their count."""
    found = kl_with_error(p, q)
    assert found.value.item() == pytest.approx(want, rel=1e-11)
    assert abs(found.value.item() - want) <= found.error.item() < 1e-10 * want
