"""Pairs of distributions of counts: very wide ones, degenerate ones, mixtures; `counts.json` has the ordinary ones."""

from __future__ import annotations

import functools
import math

import mpmath as mp
import pytest
import torch
from torch import distributions as d
from torch.distributions import Distribution, MixtureSameFamily

import kullback as kb
from kullback.pairs import kl_divergence, kl_method, kl_with_error
from tests.divergences.test_golden import build, sides, table
from tests.golden import counts

t = functools.partial(torch.tensor, dtype=torch.float64)


def test_the_probabilities_of_the_table_are_torchs() -> None:
    for name, given in (side for row in table("counts")[:36] for side in sides(row)):
        numbers = range(int(min(counts.largest(name, given), 12)) + 1)
        wanted = [float(counts.probability(name, given, k)) for k in numbers]
        found = build([name, given]).log_prob(t(list(numbers))).exp()
        assert found.tolist() == pytest.approx(wanted, rel=1e-9), (name, given)


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


# A family, its parameters, mean and deviation.
BIG = {
    "Poisson": ("Poisson", {"rate": 1e12}, 1e12, 1e6),
    "NegativeBinomial": ("NegativeBinomial", {"total_count": 1e12, "probs": 0.5000003}, 1e12, 1.5e6),
    "inexact": ("NegativeBinomial", {"total_count": 2.3e12, "probs": 0.3}, 985714285714, 1.2e6),
    "Geometric": ("Geometric", {"probs": 1e-12}, 0.0, 0.0),
    "Binomial": ("Binomial", {"total_count": 2e12, "probs": 0.5}, 1e12, 8e5),
}
# A Geometric is as wide as its mean, a Binomial finite, and KL(Binomial ‖ Poisson) has a formula of its own.
WIDE = [
    (p, q)
    for p in BIG
    for q in BIG
    if p != "Geometric" and q != "Binomial" and BIG[p][0] != BIG[q][0] and (p, q) != ("Binomial", "Poisson")
]


@pytest.mark.parametrize(("p", "q"), WIDE)
@pytest.mark.sample(3)
def test_counts_of_1e12(p: str, q: str) -> None:
    """A sum over so wide a distribution is its integral, but for e^(−2π²·variance)."""
    *of_p, mean, deviation = BIG[p]
    of_q = BIG[q][:2]
    with mp.workdps(50):
        exact = [[name, {k: mp.mpf(v) for k, v in given.items()}] for name, given in (of_p, of_q)]

        def term(k: mp.mpf) -> mp.mpf:
            x, y = (counts.probability(*each, k) for each in exact)
            return x * mp.log(x / y)

        edges = [mp.mpf(mean) + mp.mpf(deviation) * step for step in range(-13, 14)]
        want = float(mp.quad(term, edges, maxdegree=4))
    found = kl_with_error(build(of_p), build(of_q))
    assert found.value.item() == pytest.approx(want, rel=1e-9)
    # One rounding of a probability next to ½ moves the mean by 1e-4 and these divergences by 2e-10.
    assert abs(found.value.item() - want) <= found.error.item() + 2e-10 * want


def test_equal_distributions_of_different_names() -> None:
    for p, q in [
        (d.Geometric(t(0.25)), d.NegativeBinomial(t(1.0), t(0.75))),
        (d.Bernoulli(t(0.25)), d.Categorical(t([0.75, 0.25]))),
        (d.Categorical(t([0.75, 0.25])), d.Binomial(1, t(0.25))),
    ]:
        assert 0 <= kl_divergence(p, q).item() < 1e-27
    near = kl_divergence(d.Poisson(t(3.0)), d.NegativeBinomial(t(1e6), t(3.0 / (1e6 + 3.0))))
    assert near.item() == pytest.approx(9 / 4e12, rel=1e-4)


def test_degenerate_counts() -> None:
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


def test_transforms() -> None:
    stacked = tuple(torch.stack([x, 1.01 * x]) for x in POINT)
    looped = torch.stack([negative_binomial_poisson(*(x[i] for x in stacked)) for i in range(2)])
    torch.testing.assert_close(torch.vmap(negative_binomial_poisson)(*stacked), looped, rtol=1e-12, atol=0)
    leaves = tuple(x.clone().requires_grad_() for x in POINT)
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


def test_an_infinite_element_has_no_gradient() -> None:
    """Log-odds of −800 are a probability of 0 in float64; their slope is 0 where p reaches beyond q, not NaN."""
    logits, probs = (torch.tensor(v, dtype=torch.float64, requires_grad=True) for v in (-800.0, 0.625))
    value = kb.kl(d.Geometric(probs), d.Binomial(t(1e6), logits=logits))
    assert value.item() == math.inf
    assert [g.item() for g in torch.autograd.grad(value, [probs, logits])] == [0.0, 0.0]
