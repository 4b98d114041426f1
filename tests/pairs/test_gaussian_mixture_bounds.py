"""Gaussian mixtures in several dimensions: no value, but an interval that contains it."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor
from torch.distributions import (
    Categorical,
    Independent,
    LowRankMultivariateNormal,
    MixtureSameFamily,
    MultivariateNormal,
    Normal,
)

import kullback
from kullback.pairs.gaussian.mixture_bounds import bounds

F64 = torch.float64


def t(values: object) -> Tensor:
    return torch.tensor(values, dtype=F64)


def mixture(weights: Tensor, loc: Tensor, factor: Tensor) -> MixtureSameFamily:
    return MixtureSameFamily(Categorical(weights), MultivariateNormal(loc, scale_tril=factor))


def random_mixture(seed: int, count: int, size: int, *, spread: float = 1.0, batch: tuple[int, ...] = ()):
    generator = torch.Generator().manual_seed(seed)

    def draw(*shape: int) -> Tensor:
        return torch.randn(*batch, *shape, dtype=F64, generator=generator)

    eye = torch.eye(size, dtype=F64)
    factor = (draw(count, size, size) * 0.3).tril(-1) + torch.diag_embed(torch.exp(draw(count, size) * 0.3)) * eye
    return mixture(torch.exp(draw(count)), spread * draw(count, size), factor)


def lifted(line: MixtureSameFamily, loc: float, scale: float) -> MixtureSameFamily:
    """A mixture on the line times a Normal, as a mixture in the plane: its divergence is a sum of two known ones."""
    inner = line.component_distribution
    both = torch.stack([inner.loc, torch.full_like(inner.loc, loc)], -1)
    scales = torch.stack([inner.scale, torch.full_like(inner.scale, scale)], -1)
    turn = t([[0.8, 0.6], [-0.6, 0.8]])
    covariance = turn @ torch.diag_embed(scales**2) @ turn.mT
    return MixtureSameFamily(line.mixture_distribution, MultivariateNormal(both @ turn.mT, covariance))


def on_line(weights: list[float], locs: list[float], scales: list[float]) -> MixtureSameFamily:
    return MixtureSameFamily(Categorical(t(weights)), Normal(t(locs), t(scales)))


REFERENCE = (
    on_line([0.5, 0.5], [-2.0, 1.5], [0.6, 1.0]),
    on_line([0.3, 0.5, 0.2], [-1.0, 1.0, 3.0], [1.0, 0.8, 1.5]),
)
# The same two, far apart, close to each other, with hardly any weight.
LINES = [
    REFERENCE,
    (on_line([0.2, 0.8], [-20.0, 30.0], [0.1, 3.0]), on_line([0.9, 0.1], [-25.0, 31.0], [1.0, 2.0])),
    (on_line([0.5, 0.5], [-0.01, 0.01], [1.0, 1.0]), on_line([0.4, 0.6], [-0.02, 0.01], [1.01, 1.0])),
    (on_line([1e-12, 1.0], [50.0, 0.0], [1.0, 1.0]), on_line([0.0, 1.0], [3.0, 0.5], [1.0, 1.5])),
    (on_line([0.5, 0.5], [-2.0, 2.0], [1.0, 1.0]), on_line([1.0], [0.0], [2.2])),
    (on_line([1.0], [0.3], [1.2]), on_line([0.5, 0.5], [-2.0, 2.0], [1.0, 1.0])),
]


@pytest.mark.parametrize("index", range(len(LINES)))
def test_the_interval_contains_the_truth(index: int) -> None:
    p, q = LINES[index]
    beside = kullback.kl(Normal(t(0.3), t(1.1)), Normal(t(-0.2), t(0.9)))
    truth = kullback.kl(p, q) + beside
    found = kullback.kl_with_error(lifted(p, 0.3, 1.1), lifted(q, -0.2, 0.9))
    assert (found.method, found.certified) == ("bounds", True)
    assert abs(found.value.item() - truth.item()) <= found.error.item()


def test_the_reference_case_is_narrower_than_the_published_bounds() -> None:
    """The divergence is 0.449706893657398; Durrieu's interval is [0.2698, 0.7540], Hershey and Olsen's end 0.6060."""
    p, q = (
        MixtureSameFamily(line.mixture_distribution, Independent(Normal(inner.loc[:, None], inner.scale[:, None]), 1))
        for line in REFERENCE
        for inner in [line.component_distribution]
    )
    lower, upper, _ = bounds(p, q)
    assert 0.39 < lower.item() < 0.449706893657398 < upper.item() < 0.60602


@pytest.mark.parametrize("size", [1, 2, 6])
def test_equal_mixtures_in_any_order_are_no_distance(size: int) -> None:
    p = random_mixture(4, 3, size)
    order = [2, 0, 1]
    inner = p.component_distribution
    q = mixture(p.mixture_distribution.probs[order], inner.loc[order], inner.scale_tril[order])
    for pair in ((p, p), (p, q), (q, p)):
        found = kullback.kl_with_error(*pair)
        assert found.value.item() <= 1e-15
        assert found.error.item() < 1e-12


def test_single_and_coinciding_components_are_exact() -> None:
    p, q = random_mixture(7, 1, 3), random_mixture(8, 1, 3)
    (gaussian_p,), (gaussian_q,) = (
        [MultivariateNormal(m.component_distribution.loc[0], scale_tril=m.component_distribution.scale_tril[0])]
        for m in (p, q)
    )
    truth = kullback.kl(gaussian_p, gaussian_q)

    def repeated(m: MixtureSameFamily, weights: list[float]) -> MixtureSameFamily:
        inner = m.component_distribution
        return mixture(t(weights), inner.loc.expand(len(weights), -1), inner.scale_tril.expand(len(weights), -1, -1))

    for pair in (
        (p, q),
        (gaussian_p, q),
        (p, gaussian_q),
        (repeated(p, [0.3, 0.7]), q),
        (p, repeated(q, [0.2, 0.5, 0.3])),
        (repeated(p, [0.3, 0.7]), repeated(q, [0.2, 0.5, 0.3])),
    ):
        found = kullback.kl_with_error(*pair)
        torch.testing.assert_close(found.value, truth, rtol=1e-12, atol=0)
        assert found.error.item() < 1e-11


def test_all_kinds_of_gaussians_are_read() -> None:
    weights, loc, scale = t([0.4, 0.6]), t([[0.0, 1.0], [2.0, -1.0]]), t([[1.0, 0.5], [0.7, 2.0]])
    kinds = [
        Independent(Normal(loc, scale), 1),
        MultivariateNormal(loc, torch.diag_embed(scale**2)),
        MultivariateNormal(loc, precision_matrix=torch.diag_embed(scale**-2)),
        LowRankMultivariateNormal(loc, torch.zeros(2, 2, 1, dtype=F64), scale**2),
    ]
    q = random_mixture(9, 3, 2)
    first, *others = (kullback.kl_with_error(MixtureSameFamily(Categorical(weights), kind), q) for kind in kinds)
    for other in others:
        torch.testing.assert_close(other.value, first.value, rtol=1e-12, atol=0)


def test_batches_broadcast() -> None:
    p, q = random_mixture(10, 2, 2, batch=(4, 1)), random_mixture(11, 3, 2, batch=(5,))
    found = kullback.kl_with_error(p, q)
    assert found.value.shape == found.error.shape == (4, 5)
    inner_p, inner_q = p.component_distribution, q.component_distribution
    one = mixture(p.mixture_distribution.probs[2, 0], inner_p.loc[2, 0], inner_p.scale_tril[2, 0])
    other = mixture(q.mixture_distribution.probs[3], inner_q.loc[3], inner_q.scale_tril[3])
    torch.testing.assert_close(found.value[2, 3], kullback.kl_with_error(one, other).value, rtol=1e-12, atol=0)
    single = kullback.kl_with_error(
        mixture(torch.ones(2), torch.zeros(2, 2), torch.eye(2).expand(2, 2, 2)),
        mixture(torch.ones(2), torch.ones(2, 2), torch.eye(2).expand(2, 2, 2)),
    )
    assert single.value.dtype == single.error.dtype == torch.float32


def test_gradients_are_those_of_the_interval() -> None:
    def ends(logits: Tensor, loc: Tensor, scale: Tensor) -> Tensor:
        p = MixtureSameFamily(Categorical(logits=logits), Independent(Normal(loc, scale), 1))
        return torch.stack(bounds(p, q)[:2])

    q, given = random_mixture(12, 3, 2), random_mixture(13, 2, 2)
    inner = given.component_distribution
    leaves = [given.mixture_distribution.logits, inner.loc, torch.ones_like(inner.loc) * 1.3]
    leaves = [leaf.detach().clone().requires_grad_() for leaf in leaves]
    assert torch.autograd.gradcheck(ends, leaves, rtol=1e-4, atol=1e-6)


def test_gradients_are_finite_at_components_without_weight() -> None:
    weights = t([0.0, 1.0]).requires_grad_()
    loc = t([[1e6, 0.0], [0.0, 0.0]]).requires_grad_()
    p = mixture(weights, loc, torch.eye(2, dtype=F64).expand(2, 2, 2))
    found = kullback.kl_with_error(p, random_mixture(14, 3, 2))
    found.value.backward()
    assert weights.grad.isfinite().all()
    assert loc.grad.isfinite().all()
    assert loc.grad[0].eq(0).all()


def test_the_value_itself_is_refused_by_name() -> None:
    p, q = random_mixture(15, 2, 2), random_mixture(16, 2, 2)
    assert kullback.kl_method(p, q) is None
    with pytest.raises(NotImplementedError, match="kl_with_error"):
        kullback.kl(p, q)
