"""Maps, mixtures, maps of mixtures, mixtures of maps: the same distribution in another form has the same divergence."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import Tensor
from torch import distributions as d
from torch.distributions import MixtureSameFamily, TransformedDistribution, constraints
from torch.distributions import transforms as maps

from kullback import kl_divergence, kl_with_error


def t(values: Any) -> Tensor:
    return torch.tensor(values, dtype=torch.float64)


def mapped(base: d.Distribution, *chain: maps.Transform) -> TransformedDistribution:
    return TransformedDistribution(base, list(chain))


def mixture(weights: list[Any], component: d.Distribution) -> MixtureSameFamily:
    return MixtureSameFamily(d.Categorical(t(weights)), component)


NORMAL = d.Normal(t(0.0), t(1.0))
TWO = mixture([0.3, 0.7], d.Normal(t([-1.0, 1.0]), t([0.5, 1.0])))
NESTED = mixture(
    [0.5, 0.5], mixture([[0.3, 0.7], [0.6, 0.4]], d.Normal(t([[-1.0, 1.0], [0.0, 2.0]]), t([[0.5, 1.0], [1.0, 1.0]])))
)
FLAT = mixture([0.15, 0.35, 0.3, 0.2], d.Normal(t([-1.0, 1.0, 0.0, 2.0]), t([0.5, 1.0, 1.0, 1.0])))
POISSON_NESTED = mixture([0.5, 0.5], mixture([[0.3, 0.7], [0.6, 0.4]], d.Poisson(t([[1.0, 2.0], [3.0, 9.0]]))))
POISSON_FLAT = mixture([0.15, 0.35, 0.3, 0.2], d.Poisson(t([1.0, 2.0, 3.0, 9.0])))
DOUBLE_EXP = d.LogNormal(t(0.2), t(0.8))


def soft(base: d.Distribution) -> TransformedDistribution:
    """Equal maps cancel by structure; one written as a chain does not, and its integral is tested."""
    return mapped(base, maps.SoftplusTransform(), maps.AffineTransform(t(0.0), t(1.0)))


# Each side twice: in the words under test, and in plain ones.
SAME = {
    "inverse power": (
        (mapped(d.Exponential(t(1.3)), maps.PowerTransform(t(2.0)).inv), d.Gamma(t(2.0), t(1.0))),
        (d.Weibull(1 / t(1.3).sqrt(), t(2.0)), d.Gamma(t(2.0), t(1.0))),
    ),
    "logit": (
        (mapped(d.Beta(t(2.0), t(3.0)), maps.SigmoidTransform().inv), NORMAL),
        (d.Beta(t(2.0), t(3.0)), mapped(NORMAL, maps.SigmoidTransform())),
    ),
    "inverse tanh": (
        (mapped(d.Uniform(t(-1.0), t(1.0)), maps.TanhTransform().inv), NORMAL),
        (d.Uniform(t(-1.0), t(1.0)), mapped(NORMAL, maps.TanhTransform())),
    ),
    "softplus": (
        (d.Gamma(t(2.0), t(1.5)), mapped(NORMAL, maps.SoftplusTransform())),
        (mapped(d.Gamma(t(2.0), t(1.5)), maps.SoftplusTransform().inv), NORMAL),
    ),
    "softplus of a half-line": (
        (soft(d.Exponential(t(2.0))), mapped(d.Gamma(t(1.5), t(1.0)), maps.SoftplusTransform())),
        (d.Exponential(t(2.0)), d.Gamma(t(1.5), t(1.0))),
    ),
    "exp of a mixture": ((mapped(TWO, maps.ExpTransform()), d.LogNormal(t(0.0), t(1.0))), (TWO, NORMAL)),
    "to the exp of a mixture": ((d.LogNormal(t(0.0), t(1.0)), mapped(TWO, maps.ExpTransform())), (NORMAL, TWO)),
    "affine of a mixture": (
        (mapped(TWO, maps.AffineTransform(t(1.0), t(-2.0))), NORMAL),
        (mixture([0.3, 0.7], d.Normal(t([3.0, -1.0]), t([1.0, 2.0]))), NORMAL),
    ),
    "mixture of maps": (
        (mixture([0.3, 0.7], mapped(d.Normal(t([-1.0, 1.0]), t([0.5, 1.0])), maps.ExpTransform())), DOUBLE_EXP),
        (mixture([0.3, 0.7], d.LogNormal(t([-1.0, 1.0]), t([0.5, 1.0]))), DOUBLE_EXP),
    ),
    "mixture of mixtures": ((NESTED, NORMAL), (FLAT, NORMAL)),
    "to a mixture of mixtures": ((NORMAL, NESTED), (NORMAL, FLAT)),
    "map of a mixture of mixtures": (
        (mapped(NESTED, maps.ExpTransform()), DOUBLE_EXP),
        (mapped(FLAT, maps.ExpTransform()), DOUBLE_EXP),
    ),
    "mixture of mixtures of counts": ((POISSON_NESTED, d.Poisson(t(3.0))), (POISSON_FLAT, d.Poisson(t(3.0)))),
}


@pytest.mark.parametrize("name", SAME)
def test_other_words_for_the_same_distribution(name: str) -> None:
    (p, q), (plain_p, plain_q) = SAME[name]
    found, want = kl_with_error(p, q), kl_divergence(plain_p, plain_q)
    torch.testing.assert_close(found.value, want, rtol=1e-11, atol=0)
    assert found.error <= 1.01e-10 * want


def test_a_mixture_in_other_words_is_no_distance_away() -> None:
    for p, q in ((FLAT, NESTED), (NESTED, FLAT), (POISSON_NESTED, POISSON_FLAT)):
        assert kl_divergence(p, q).item() < 1e-28


def test_maps_of_batches_of_mixtures() -> None:
    base = MixtureSameFamily(
        d.Categorical(t([[0.3, 0.7], [0.2, 0.8]])), d.Normal(t([[-1.0, 1.0], [0.0, 1.0]]), t([0.5, 1.0]))
    )
    value = kl_divergence(mapped(base, maps.AffineTransform(t([1.0, 2.0]), t([-2.0, 3.0]))), NORMAL)
    second = mixture([0.2, 0.8], d.Normal(t([2.0, 5.0]), t([1.5, 3.0])))
    assert value.shape == (2,)
    torch.testing.assert_close(value[1], kl_divergence(second, NORMAL), rtol=1e-12, atol=0)


class Cubic(maps.Transform):
    """A map the library has never seen."""

    domain, codomain, bijective, sign = constraints.real, constraints.real, True, 1

    def _call(self, x: Tensor) -> Tensor:
        return x**3 / 3 + x

    def _inverse(self, y: Tensor) -> Tensor:
        u = (1.5 * y.abs() + torch.sqrt(2.25 * y * y + 1)) ** (1 / 3)
        return torch.sign(y) * (u - 1 / u)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return torch.log1p(x * x)


def test_tails_after_an_unknown_map_are_looked_at() -> None:
    """The square of the image is of order x⁶: infinite under five degrees of freedom, not under six and a half."""
    heavy, light = (mapped(d.StudentT(t(df)), Cubic()) for df in (5.0, 6.5))
    assert kl_divergence(heavy, NORMAL) == math.inf
    assert kl_divergence(light, NORMAL).isfinite()
    mirrored = kl_divergence(NORMAL, mapped(NORMAL, Cubic()))
    assert mirrored.item() == pytest.approx(kl_divergence(mapped(NORMAL, Cubic().inv), NORMAL).item(), rel=1e-10)


def test_tails_after_softplus() -> None:
    """E x of a Gamma: infinite under a Cauchy, not under three degrees of freedom."""
    bases = d.StudentT(t([1.0, 3.0]))
    values = kl_divergence(mapped(bases, maps.SoftplusTransform()), d.Gamma(t(2.0), t(2.0)))
    assert values.isinf().tolist() == [True, False]


def test_mass_at_an_end_after_a_map() -> None:
    """Softplus of a Laplace of scale b has a density like x^(1/b − 1) at 0: E 1/x is infinite for b ≥ 1."""
    target = d.InverseGamma(t(2.0), t(2.0))
    values = kl_divergence(mapped(d.Laplace(t(0.0), t([0.5, 1.0, 2.0])), maps.SoftplusTransform()), target)
    assert values.isinf().tolist() == [False, True, True]


def by_function(base: d.Distribution, of: d.Distribution) -> TransformedDistribution:
    return mapped(base, maps.CumulativeDistributionTransform(of))


class Algebraic(maps.Transform):
    """−1.5·z/√(1 + z²), decreasing, onto an interval; it does not say its sign."""

    domain, codomain, bijective = constraints.real, constraints.interval(-1.5, 1.5), True

    @property
    def sign(self) -> int:
        raise NotImplementedError

    def _call(self, x: Tensor) -> Tensor:
        return -1.5 * x / torch.sqrt(1 + x * x)

    def _inverse(self, y: Tensor) -> Tensor:
        u = -y / 1.5
        return u / torch.sqrt((1 - u) * (1 + u))

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        del y
        return math.log(1.5) - 1.5 * torch.log1p(x * x)


class Hyperbolic(maps.Transform):
    """z + √(1 + z²), from the line onto the half-line."""

    domain, codomain, bijective, sign = constraints.real, constraints.positive, True, +1

    def _call(self, x: Tensor) -> Tensor:
        root = torch.sqrt(1 + x * x)
        return torch.where(x > 0, x + root, 1 / (root - x))

    def _inverse(self, y: Tensor) -> Tensor:
        return (y - 1 / y) / 2

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return torch.log(y) - torch.log1p(x * x) / 2


BETA = d.Beta(t(2.0), t(3.0))
# mpmath's quadrature over the base distribution, 30 digits.
BY_VALUES = {
    "own distribution function": (by_function(NORMAL, NORMAL), d.Beta(t(2.0), t(2.0)), 0.208240530771945),
    "Laplace's function": (by_function(NORMAL, d.Laplace(t(0.0), t(1.0))), BETA, 0.3010104416913395),
    "Cauchy's function": (by_function(NORMAL, d.Cauchy(t(0.3), t(1.5))), BETA, 0.1428015181847525),
    "from a half-line": (
        by_function(d.Gamma(t(2.0), t(1.0)), d.Exponential(t(1.0))),
        d.Beta(t(2.0), t(2.0)),
        0.9860907990221857,
    ),
    "as q": (BETA, by_function(NORMAL, d.Laplace(t(0.0), t(1.0))), 0.1968091135438389),
    "quantile function": (mapped(BETA, maps.CumulativeDistributionTransform(NORMAL).inv), NORMAL, 0.2349066497880003),
    "decreasing onto an interval": (mapped(NORMAL, Algebraic()), d.Uniform(t(-2.0), t(2.0)), 0.3620704895732557),
    "onto the half-line": (mapped(NORMAL, Hyperbolic()), d.Gamma(t(2.0), t(1.0)), 0.20231886319871),
    "onto the half-line, as q": (d.LogNormal(t(0.0), t(0.5)), mapped(NORMAL, Hyperbolic()), 0.2424154954474829),
}


@pytest.mark.parametrize("name", BY_VALUES)
def test_maps_that_are_known_by_their_values(name: str) -> None:
    p, q, truth = BY_VALUES[name]
    found = kl_with_error(p, q)
    assert found.value.item() == pytest.approx(truth, rel=1e-12)
    assert abs(found.value.item() - truth) <= found.error.item() + 1e-15 * truth


GAP = mixture([0.5, 0.5], d.Uniform(t([0.0, 2.0]), t([1.0, 3.0])))


@pytest.mark.parametrize(
    ("p", "q", "want"),
    [
        (d.Uniform(t(2.2), t(2.5)), GAP, math.log(1 / 0.3 / 0.5)),
        (d.Uniform(t(0.5), t(2.5)), GAP, math.inf),
        (GAP, mixture([0.2, 0.8], d.Uniform(t([0.0, 2.0]), t([1.5, 3.0]))), math.log(3.75) / 2 + math.log(0.625) / 2),
        (GAP, d.Uniform(t(0.0), t(3.0)), math.log(1.5)),
        (GAP, d.Uniform(t(0.5), t(3.0)), math.inf),
        (mixture([0.0, 1.0], d.Uniform(t([-9.0, 2.0]), t([1.0, 3.0]))), d.Uniform(t(1.0), t(3.0)), math.log(2.0)),
    ],
)
def test_mixtures_of_intervals(p: d.Distribution, q: d.Distribution, want: float) -> None:
    assert kl_divergence(p, q).item() == pytest.approx(want, rel=1e-12)


@pytest.mark.parametrize("weight", [0.0, 1e-300, 1e-12])
def test_components_of_hardly_any_weight(weight: float) -> None:
    """A component far away, of weight w, adds w·(log w + ½·50²) to the divergence from the other component alone."""
    p = mixture([weight, 1.0], d.Normal(t([50.0, 0.0]), t([1.0, 1.0])))
    want = weight * (math.log(weight) + 1250.0) - weight if weight else 0.0
    assert kl_divergence(p, NORMAL).item() == pytest.approx(want, rel=1e-9)
    assert kl_divergence(NORMAL, p).item() == pytest.approx(weight, rel=1e-9)


GAMMA = d.Gamma(t(0.3), t(1.5))
MIRRORED = (maps.AffineTransform(0.0, -1.0), maps.ExpTransform(), maps.PowerTransform(t(0.5)))
INVERSE_GAMMA, FISHER, STUDENT = (
    d.InverseGamma(t(3.5), t(1.5)),
    d.FisherSnedecor(t(5.0), t(7.0)),
    d.StudentT(t(5.0), t(0.3), t(1.2)),
)
# p, the maps, q, and KL(T(p) ‖ q) = KL(p ‖ T⁻¹(q)): 30 digits of mpmath, in the coordinate log x of p or in x.
EITHER_SIDE = {
    "a singular end under exp and a power": (GAMMA, MIRRORED, d.Beta(t(2.0), t(3.0)), 9.16836095246206597),
    "two singular ends": (GAMMA, MIRRORED, d.Beta(t(0.5), t(0.7)), 1.72838457592081886),
    "exp of a heavy tail": (INVERSE_GAMMA, (maps.ExpTransform(),), INVERSE_GAMMA, 2.62404839805016693),
    "a heavy tail against a logarithm": (STUDENT, (maps.ExpTransform(),), d.HalfCauchy(t(1.5)), 0.00506994868582578502),
}


@pytest.mark.parametrize("name", EITHER_SIDE)
def test_a_map_on_one_side_is_its_inverse_on_the_other(name: str) -> None:
    """What a map keeps of the distances to its ends decides the density there: e^−x/2 of x = 1e-40 is next to 1."""
    p, chain, q, expected = EITHER_SIDE[name]
    inverse = [transform.inv for transform in reversed(chain)]
    for result in (kl_with_error(mapped(p, *chain), q), kl_with_error(p, mapped(q, *inverse))):
        assert result.value.item() == pytest.approx(expected, rel=1e-10)
        assert abs(result.value.item() - expected) <= result.error.item() + 1e-15


def test_a_tail_in_logarithms_is_infinite() -> None:
    """A HalfCauchy has no mean, and −log of the density of log Y grows in proportion to x."""
    y = d.GeneralizedPareto(t(0.3), t(1.0), t(0.2)) if hasattr(d, "GeneralizedPareto") else d.Pareto(t(0.3), t(5.0))
    assert kl_divergence(d.HalfCauchy(t(1.5)), mapped(y, maps.ExpTransform().inv)) == math.inf


@pytest.mark.skipif(not hasattr(d, "GeneralizedPareto"), reason="newer than this torch")
@pytest.mark.parametrize(
    ("shape", "power", "finite"), [(0.2, 2.0, True), (0.2, 2.5, False), (0.2, 3.0, False), (0.8, 0.5, True)]
)
def test_a_power_changes_the_tail_of_an_end_that_may_be_infinite(shape: float, power: float, finite: bool) -> None:
    """P(X > x) falls like x^(−1/ξ), that of Xᵏ like x^(−1/(ξk)), and a HalfNormal needs a second moment."""
    p = mapped(d.GeneralizedPareto(t(0.3), t(1.0), t(shape)), maps.PowerTransform(t(power)))
    assert kl_divergence(p, d.HalfNormal(t(1.0))).isfinite() == finite


def test_a_power_of_a_mixture_with_a_singular_end() -> None:
    """KL(X³ ‖ Y³) of a mixture X that is singular at 1, against the plain pair."""
    x, y = mixture([0.75, 0.25], d.Beta(t([3.4, 2.5]), t([1.5, 0.37]))), d.Beta(t(2.0), t(0.5))
    cube = maps.PowerTransform(t(3.0))
    plain = kl_divergence(x, y).item()
    written = kl_divergence(mapped(x, cube), mapped(y, cube, maps.AffineTransform(t(0.0), t(1.0))))
    assert written.item() == pytest.approx(plain, rel=1e-11)
