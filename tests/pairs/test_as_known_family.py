"""Mapped distributions that amount to a named family are taken as it: density, divergence and route are the same."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor
from torch import distributions as d
from torch.distributions import Distribution, TransformedDistribution
from torch.distributions.transforms import AffineTransform, ExpTransform, SigmoidTransform, TanhTransform, Transform

from kullback import kl_divergence, kl_method, kl_with_error
from kullback.divergences.kl import integral as kl_by_integral
from kullback.pairs.as_known_family import as_known_family


def t(value: float) -> Tensor:
    return torch.tensor(value, dtype=torch.float64)


def mapped(base: Distribution, *chain: Transform) -> TransformedDistribution:
    return TransformedDistribution(base, list(chain))


EXP = ExpTransform()
# (a mapped distribution, the class of its name)
NAMED = {
    "Normal, affine": (mapped(d.Normal(t(0.3), t(1.2)), AffineTransform(t(1.0), t(2.0))), d.Normal),
    "Normal, mirrored": (mapped(d.Normal(t(0.3), t(1.2)), AffineTransform(1.0, -2.0)), d.Normal),
    "Normal, affine twice": (
        mapped(d.Normal(t(0.3), t(1.2)), AffineTransform(1.0, -2.0), AffineTransform(0.5, 3.0)),
        d.Normal,
    ),
    "Cauchy": (mapped(d.Cauchy(t(0.3), t(1.2)), AffineTransform(t(1.0), t(-0.5))), d.Cauchy),
    "Laplace": (mapped(d.Laplace(t(0.3), t(1.2)), AffineTransform(t(1.0), t(-0.5))), d.Laplace),
    "StudentT": (mapped(d.StudentT(t(4.0), t(0.3), t(1.2)), AffineTransform(t(1.0), t(0.5))), d.StudentT),
    "Uniform": (mapped(d.Uniform(t(0.3), t(1.2)), AffineTransform(t(1.0), t(-0.5))), d.Uniform),
    "Gamma": (mapped(d.Gamma(t(2.0), t(1.5)), AffineTransform(t(0.0), t(3.0))), d.Gamma),
    "Chi2": (mapped(d.Chi2(t(3.0)), AffineTransform(0.0, 3.0)), d.Gamma),
    "Exponential": (mapped(d.Exponential(t(1.5)), AffineTransform(0.0, 3.0)), d.Exponential),
    "HalfNormal": (mapped(d.HalfNormal(t(1.5)), AffineTransform(0.0, 3.0)), d.HalfNormal),
    "HalfCauchy": (mapped(d.HalfCauchy(t(1.5)), AffineTransform(0.0, 3.0)), d.HalfCauchy),
    "InverseGamma": (mapped(d.InverseGamma(t(2.0), t(1.5)), AffineTransform(0.0, 3.0)), d.InverseGamma),
    "Pareto": (mapped(d.Pareto(t(2.0), t(1.5)), AffineTransform(0.0, 3.0)), d.Pareto),
    "Weibull": (mapped(d.Weibull(t(2.0), t(1.5)), AffineTransform(0.0, 3.0)), d.Weibull),
    "exp of Normal": (mapped(d.Normal(t(0.3), t(1.2)), EXP), d.LogNormal),
    "exp of affine Normal": (mapped(d.Normal(t(0.3), t(1.2)), AffineTransform(1.0, -0.5), EXP), d.LogNormal),
    "exp of Exponential": (mapped(d.Exponential(t(1.5)), EXP), d.Pareto),
    "log of LogNormal": (mapped(d.LogNormal(t(0.3), t(1.2)), EXP.inv), d.Normal),
}
# Distributions whose image has no name: a shift that leaves a half-line, a reflection, a map without a name.
UNNAMED = {
    "shifted Gamma": mapped(d.Gamma(t(2.0), t(1.5)), AffineTransform(1.0, 3.0)),
    "mirrored Gamma": mapped(d.Gamma(t(2.0), t(1.5)), AffineTransform(0.0, -3.0)),
    "mirrored Gumbel": mapped(d.Gumbel(t(0.0), t(1.5)), AffineTransform(0.0, -3.0)),
    "sigmoid": mapped(d.Normal(t(0.0), t(1.5)), SigmoidTransform()),
    "exp of Laplace": mapped(d.Laplace(t(0.0), t(0.5)), EXP),
}


@pytest.mark.parametrize("name", NAMED)
def test_the_named_distribution_has_the_density_of_the_mapped_one(name: str) -> None:
    image, kind = NAMED[name]
    found = as_known_family(image)
    assert type(found) is kind
    torch.manual_seed(1)
    x = image.sample(torch.Size([200]))
    torch.testing.assert_close(found.log_prob(x), image.log_prob(x), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("name", UNNAMED)
def test_others_keep_their_maps(name: str) -> None:
    assert as_known_family(UNNAMED[name]) is UNNAMED[name]
    assert kl_method(UNNAMED[name], UNNAMED[name]) == "closed form"  # the bases', since the maps are equal


@pytest.mark.parametrize("name", NAMED)
def test_a_named_pair_is_closed(name: str) -> None:
    image, kind = NAMED[name]
    other = as_known_family(mapped(image.base_dist, *image.transforms, AffineTransform(0.0, 1.25)))
    if type(other) is not kind:  # a Pareto or LogNormal that is stretched again
        other = as_known_family(image)
    expected = kl_with_error(as_known_family(image), other)
    for p, q in ((image, other), (image, mapped(image, AffineTransform(0.0, 1.0))), (other, image)):
        assert kl_method(p, q) == kl_method(as_known_family(p), as_known_family(q))
        assert torch.equal(kl_divergence(p, q), kl_divergence(as_known_family(p), as_known_family(q)))
    assert expected.method == kl_method(image, other)


def test_single_precision_is_rounded_once() -> None:
    """1/3 + 0.1·0.7 of float32 numbers, not of a rounded sum."""
    loc, scale, shift, factor = (torch.tensor(x) for x in (0.7, 1.3, 1 / 3, 0.1))
    p, q = mapped(d.Normal(loc, scale), AffineTransform(shift, factor)), d.Normal(torch.tensor(0.4033), factor * 1.3)
    found = kl_divergence(p, q)
    exact = kl_divergence(
        d.Normal(shift.double() + factor.double() * loc.double(), factor.double() * scale.double()),
        d.Normal(q.loc.double(), q.scale.double()),
    )
    assert found.dtype == torch.float32
    assert found.item() == pytest.approx(exact.item(), rel=1e-6)


def test_derivatives_reach_the_base_and_the_map() -> None:
    leaves = [t(x).requires_grad_() for x in (0.3, 1.2, 1.0, -0.5, 0.1, 0.9)]

    def value(*numbers: Tensor) -> Tensor:
        loc, scale, shift, factor, mean, spread = numbers
        p = mapped(d.Normal(loc, scale, validate_args=False), AffineTransform(shift, factor), EXP)
        return kl_divergence(p, d.LogNormal(mean, spread, validate_args=False))

    assert torch.autograd.gradcheck(value, leaves)
    assert torch.autograd.gradgradcheck(value, leaves)


def test_batches_of_maps() -> None:
    p = mapped(d.Normal(torch.zeros(3).double(), 1.0), AffineTransform(torch.arange(2.0).double()[:, None], t(2.0)))
    q = d.Normal(t(0.0), t(1.0))
    expected = kl_divergence(d.Normal(torch.arange(2.0).double()[:, None].expand(2, 3), t(2.0)), q)
    assert torch.equal(kl_divergence(p, q), expected)


@pytest.mark.parametrize("last", [SigmoidTransform(), TanhTransform()])
def test_maps_that_both_end_with_cancel(last: Transform) -> None:
    """sigmoid(1 + 3z) against sigmoid(z): the pair before the sigmoid is one of Normal distributions."""
    z = d.Normal(t(0.0), t(1.0))
    p, q = mapped(z, AffineTransform(1.0, 3.0), last), mapped(z, last)
    assert kl_method(p, q) == "closed form"
    assert torch.equal(kl_divergence(p, q), kl_divergence(d.Normal(t(1.0), t(3.0)), z))
    assert torch.equal(kl_divergence(q, p), kl_divergence(z, d.Normal(t(1.0), t(3.0))))


def test_a_map_of_an_interval_moves_its_ends() -> None:
    """sigmoid(z)/2 lives on (0, ½), 1 + exp(z) on (1, ∞): neither holds all of the plain one."""
    z = d.Normal(t(0.0), t(1.0))
    half, shifted = mapped(z, SigmoidTransform(), AffineTransform(0.0, 0.5)), mapped(z, EXP, AffineTransform(1.0, 1.0))
    for p, q in ((d.Uniform(t(0.0), t(1.0)), half), (mapped(z, SigmoidTransform()), half), (mapped(z, EXP), shifted)):
        assert kl_divergence(p, q) == torch.inf
        assert kl_divergence(q, p) < torch.inf


@pytest.mark.parametrize(("shift", "factor"), [(0.0, -1.0), (-3.0, -0.5), (1.0, 2.0)])
@pytest.mark.parametrize(
    "p",
    [d.LogNormal(t(0.2), t(0.4)), d.Gamma(t(2.0), t(1.5)), d.Beta(t(0.5), t(0.7)), d.Pareto(t(1.5), t(3.5))],
    ids=repr,
)
def test_a_mirrored_half_line(p: Distribution, shift: float, factor: float) -> None:
    """KL(a + bX ‖ N(m, s)) = KL(X ‖ N((m − a)/b, s/|b|))."""
    found = kl_with_error(mapped(p, AffineTransform(shift, factor)), d.Laplace(t(0.3), t(1.2)))
    expected = kl_divergence(p, d.Laplace(t((0.3 - shift) / factor), t(1.2 / abs(factor))))
    assert found.value.item() == pytest.approx(expected.item(), rel=1e-11)


def test_an_interval_against_the_same_one_in_other_words() -> None:
    p = d.Uniform(t(0.4), t(0.85))
    q = mapped(d.Uniform(t(0.3), t(1.2)), AffineTransform(t(1.0), t(-0.5)))
    for a, b in ((p, q), (q, p)):
        assert kl_by_integral(a, b)[0] < 1e-30


def test_vmap_and_compile() -> None:
    def value(loc: Tensor, factor: Tensor) -> Tensor:
        p = mapped(d.Normal(loc, t(1.0), validate_args=False), AffineTransform(t(1.0), factor), EXP)
        return kl_divergence(p, d.LogNormal(t(0.0), t(1.0), validate_args=False))

    loc, factor = torch.linspace(-1, 1, 4).double(), torch.linspace(0.5, 2, 4).double()
    expected = torch.stack([value(a, b) for a, b in zip(loc, factor, strict=True)])
    torch.testing.assert_close(torch.vmap(value)(loc, factor), expected, rtol=1e-14, atol=0)
    compiled = torch.compile(value, fullgraph=True, backend="aot_eager")
    torch.testing.assert_close(compiled(loc, factor), expected, rtol=1e-14, atol=0)
