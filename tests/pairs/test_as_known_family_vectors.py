"""Vectors whose coordinates are mapped one by one, and affine maps of Gaussians, are distributions with a name."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor
from torch import distributions as d
from torch.distributions import Distribution, Independent, TransformedDistribution
from torch.distributions.transforms import (
    AffineTransform,
    ComposeTransform,
    ExpTransform,
    IndependentTransform,
    SigmoidTransform,
    SoftmaxTransform,
    TanhTransform,
    Transform,
)

import kullback as kb
from kullback.pairs.as_known_family import as_known_family


def t(*values: float) -> Tensor:
    return torch.tensor(values, dtype=torch.float64)


NORMALS = Independent(d.Normal(t(0.3, -0.5, 1.0), t(1.2, 0.5, 2.0)), 1)
LOWER = torch.tensor([[1.0, 0.0, 0.0], [0.5, 2.0, 0.0], [-0.3, 0.1, 0.7]], dtype=torch.float64)
GAUSSIANS: dict[str, Distribution] = {
    "scale_tril": d.MultivariateNormal(t(0.1, 0.2, 0.3), scale_tril=LOWER),
    "covariance_matrix": d.MultivariateNormal(t(0.1, 0.2, 0.3), LOWER @ LOWER.mT),
    "precision_matrix": d.MultivariateNormal(t(0.1, 0.2, 0.3), precision_matrix=LOWER @ LOWER.mT),
    "low rank": d.LowRankMultivariateNormal(t(0.1, 0.2, 0.3), LOWER[:, :2], t(0.5, 1.0, 2.0)),
}
AFFINE: dict[str, Transform] = {
    "scalar": AffineTransform(1.0, -2.0),
    "vector": AffineTransform(t(1.0, 0.0, -1.0), t(2.0, -0.5, 3.0), event_dim=1),
    "twice": ComposeTransform([AffineTransform(1.0, 2.0, event_dim=1), AffineTransform(0.0, t(1.0, -1.0, 2.0))]),
}


@pytest.mark.parametrize("last", [TanhTransform(), SigmoidTransform(), IndependentTransform(ExpTransform(), 1)])
def test_squashed_coordinates_are_a_sum(last: Transform) -> None:
    chain = [AffineTransform(0.5, t(1.0, -2.0, 0.5), event_dim=1), last]
    p = TransformedDistribution(NORMALS, chain)
    each = [AffineTransform(0.5, t(1.0, -2.0, 0.5)), last.base_transform if hasattr(last, "base_transform") else last]
    alone = TransformedDistribution(NORMALS.base_dist, each)
    # From inside the image to a distribution that has all of it.
    q = d.Normal(t(0.0, 0.0, 0.0), t(1.0, 1.0, 4.0))
    torch.testing.assert_close(kb.kl(p, Independent(q, 1)), kb.kl(alone, q).sum(), rtol=1e-12, atol=0)
    same = TransformedDistribution(Independent(q, 1), chain)
    torch.testing.assert_close(kb.kl(p, same), kb.kl(NORMALS, Independent(q, 1)), rtol=1e-12, atol=0)
    assert kb.kl(p, p).item() == 0


@pytest.mark.parametrize("name", GAUSSIANS)
@pytest.mark.parametrize("affine", AFFINE)
def test_affine_maps_of_gaussians(name: str, affine: str) -> None:
    base = GAUSSIANS[name]
    image = TransformedDistribution(base, [AFFINE[affine]])
    found = as_known_family(image)
    assert type(found) is type(base)
    x = torch.randn(7, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    torch.testing.assert_close(found.log_prob(x), image.log_prob(x), rtol=1e-12, atol=1e-12)
    q = GAUSSIANS["scale_tril"]
    torch.testing.assert_close(kb.kl(image, q), kb.kl(found, q), rtol=1e-14, atol=0)
    torch.testing.assert_close(kb.kl(q, image), kb.kl(q, found), rtol=1e-14, atol=0)


def test_names_that_meet_other_structures() -> None:
    logs = Independent(d.LogNormal(t(0.3, -0.5, 1.0), t(1.2, 0.5, 2.0)), 1)
    by_map = TransformedDistribution(NORMALS, [ExpTransform()])
    assert kb.kl(logs, by_map).item() == 0
    gaussian = GAUSSIANS["scale_tril"]
    moved = TransformedDistribution(NORMALS, [AffineTransform(1.0, 2.0)])
    by_hand = Independent(d.Normal(1 + 2 * t(0.3, -0.5, 1.0), 2 * t(1.2, 0.5, 2.0)), 1)
    torch.testing.assert_close(kb.kl(moved, gaussian), kb.kl(by_hand, gaussian), rtol=1e-14, atol=0)


def test_derivatives_and_batches() -> None:
    scale = torch.tensor([[1.0, 2.0, -0.5], [0.3, 1.0, 1.0]], dtype=torch.float64, requires_grad=True)

    def value(scale: Tensor) -> Tensor:
        image = TransformedDistribution(GAUSSIANS["scale_tril"], [AffineTransform(0.5, scale, event_dim=1)])
        return kb.kl(image, GAUSSIANS["covariance_matrix"])

    assert value(scale).shape == (2,)
    torch.testing.assert_close(value(scale)[1], value(scale[1]), rtol=1e-14, atol=0)
    assert torch.autograd.gradcheck(value, (scale,))


def test_maps_of_whole_vectors_keep_them() -> None:
    image = TransformedDistribution(NORMALS, [SoftmaxTransform()])
    assert as_known_family(image) is image
