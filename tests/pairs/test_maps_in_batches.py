"""Maps whose parameters differ within a batch, are hidden by vmap, or want a gradient."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor
from torch import distributions as d
from torch.distributions import TransformedDistribution
from torch.distributions import transforms as maps

from kullback import hellinger, js, kl_divergence
from tests.pairs.test_transforms import NORMAL, STUDENT, mapped, mixture, t


@pytest.mark.parametrize("scale", [t(-1.0), t([-1.0, 1.0])])
def test_maps_whose_sign_is_not_known_beforehand(scale: Tensor) -> None:
    """1 − U^(1/b) is a Beta(1, b), U^(1/b) a Beta(b, 1); one batch may hold both."""
    power = mapped(d.Uniform(t(0.0), t(1.0)), maps.PowerTransform(t(1 / 0.7)))
    shift = (1 - scale) / 2

    def value(shift: Tensor, scale: Tensor) -> Tensor:
        p = mapped(d.HalfNormal(t(1.5)), maps.AffineTransform(0.0, -1.0), maps.ExpTransform())
        q = TransformedDistribution(power, [maps.AffineTransform(shift, scale)], validate_args=False)
        return kl_divergence(p, q)

    p = mapped(d.HalfNormal(t(1.5)), maps.AffineTransform(0.0, -1.0), maps.ExpTransform())
    ends = torch.where(scale < 0, t(1.0), t(0.7)), torch.where(scale < 0, t(0.7), t(1.0))
    expected = kl_divergence(p, d.Beta(*ends))
    torch.testing.assert_close(value(shift, scale), expected, rtol=1e-11, atol=0)
    if scale.dim():
        torch.testing.assert_close(torch.vmap(value)(shift, scale), expected, rtol=1e-11, atol=0)


def test_heavy_tails_of_which_some_are_mirrored() -> None:
    """exp of a Cauchy has no logarithm that is small: distances to an end reach far, but not to where there is none."""
    p, q = d.Cauchy(t(0.3), t(1.0)), d.StudentT(t(2.0), t(0.0), t(1.5))
    scale = t([-2.0, 2.0])

    def value(scale: Tensor) -> Tensor:
        # Another map after the common ones, so that they do not cancel.
        chain = maps.ExpTransform(), maps.AffineTransform(t(0.0), scale)
        first, second = (
            TransformedDistribution(distribution, list(last), validate_args=False)
            for distribution, last in ((p, chain), (q, (*chain, maps.AffineTransform(t(0.0), t(1.0)))))
        )
        return kl_divergence(first, second)

    expected = kl_divergence(p, q).expand(2)
    torch.testing.assert_close(value(scale), expected, rtol=1e-11, atol=0)
    torch.testing.assert_close(torch.vmap(value)(scale), expected, rtol=1e-11, atol=0)


def test_maps_that_are_equal_but_move_alone_have_gradients() -> None:
    """Equal maps cancel; a parameter of one side alone moves the density: ∂KL/∂a = −∂KL/∂b for the two shifts."""
    given = t(0.5).requires_grad_(), t(0.5).requires_grad_()
    p, q = (
        mapped(d.Gumbel(t(loc), t(scale)), maps.AffineTransform(shift, t(2.0)), maps.SigmoidTransform())
        for loc, scale, shift in ((0.0, 1.0, given[0]), (1.0, 1.5, given[1]))
    )
    value = kl_divergence(p, q)
    found = torch.autograd.grad(value, given)
    moved = t([0.0, 0.0]).requires_grad_()
    plain = kl_divergence(d.Gumbel(moved[0], t(1.0)), d.Gumbel(1 + moved[1], t(1.5)))
    torch.testing.assert_close(value, plain, rtol=1e-11, atol=0)
    torch.testing.assert_close(2 * torch.stack(found), *torch.autograd.grad(plain, moved), rtol=1e-9, atol=0)


def test_maps_with_parameters_under_vmap() -> None:
    """Whether two maps are equal cannot be looked at there."""
    shifts = t([0.5, 1.5])

    def value(a: Tensor, b: Tensor) -> Tensor:
        p, q = (
            TransformedDistribution(distribution, [maps.AffineTransform(shift, t(2.0)), maps.SigmoidTransform()], False)
            for distribution, shift in ((NORMAL, a), (d.Laplace(t(0.3), t(1.0)), b))
        )
        return kl_divergence(p, q)

    torch.testing.assert_close(torch.vmap(value)(shifts, shifts), value(t(0.5), t(0.5)).expand(2), rtol=1e-10, atol=0)


def test_mixtures_of_three_betas() -> None:
    """A Beta keeps its two parameters in one tensor; mpmath's quadrature, 30 digits."""
    p = mixture([0.25, 0.25, 0.5], d.Beta(t([2.0, 9.0, 30.0]), t([3.0, 13.0, 5.0])))
    assert kl_divergence(p, STUDENT).item() == pytest.approx(1.5637194295960595, rel=1e-12)


@pytest.mark.parametrize(
    ("last", "divergence"),
    [("exp", js), ("sigmoid", hellinger), ("tanh", js), ("softplus", hellinger), ("softplus", js)],
)
def test_ends_that_change_places_within_a_batch(last: str, divergence: Any) -> None:
    """A half-line turned round begins at −∞, and its image at the end of the map's: of each element by itself."""
    final = {
        "exp": maps.ExpTransform(),
        "sigmoid": maps.SigmoidTransform(),
        "tanh": maps.TanhTransform(),
        "softplus": maps.SoftplusTransform(),
    }[last]
    shift, scale = t([0.9, 0.6]), t([-1.7, 1.1])

    def value(shift: Tensor, scale: Tensor) -> Tensor:
        p = TransformedDistribution(d.HalfNormal(t(0.4)), [maps.AffineTransform(shift, scale), final], False)
        return divergence(p, d.HalfCauchy(t(0.5)))

    alone = torch.stack([value(a, b) for a, b in zip(shift, scale, strict=True)])
    torch.testing.assert_close(value(shift, scale), alone, rtol=1e-11, atol=0)
    torch.testing.assert_close(torch.vmap(value)(shift, scale), alone, rtol=1e-9, atol=0)


def test_tails_whose_ends_change_places_under_vmap() -> None:
    """Softplus of a Gumbel, upwards or downwards, against a HalfCauchy."""
    target = mapped(d.HalfCauchy(t(0.4)), maps.AffineTransform(t(-0.9), t(1.6)))

    def value(scale: Tensor) -> Tensor:
        chain = [maps.AffineTransform(t(0.04), scale), maps.SoftplusTransform()]
        return kl_divergence(TransformedDistribution(d.Gumbel(t(-2.7), t(0.35)), chain, False), target)

    scale = t([1.3, -1.3])
    alone = torch.stack([value(s) for s in scale])
    torch.testing.assert_close(value(scale), alone, rtol=1e-11, atol=0)
    torch.testing.assert_close(torch.vmap(value)(scale), alone, rtol=1e-9, atol=0)
