"""Gaussians compared natively: eight at a time as one alone, low ranks as their formula, factors however stored."""

from __future__ import annotations

import pytest
import torch
import torch.distributions as td

from kullback import kl_divergence
from kullback.kernels import factor_op, native
from kullback.kernels.apart_op import compare_apart, factor_low_rank
from kullback.kernels.factor_op import compare_matrices, matrix_gradients
from kullback.kernels.low_rank_op import LowRank
from kullback.pairs.low_rank_multivariate_normal import compare_low_rank
from kullback.pairs.multivariate_normal import compare_factors
from kullback.pairs.relative_factor import NEAR

pytestmark = pytest.mark.skipif(native.library() is None, reason="the native library is not built here")
KINDS = ["scale_tril", "covariance_matrix", "precision_matrix"]


def draw(seed: int, *shape: int) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def definite(seed: int, batch: int, size: int) -> torch.Tensor:
    root = draw(seed, batch, size, size) / size**0.5
    return root @ root.mT + torch.eye(size, dtype=torch.float64)


def given(kind: str, matrix: torch.Tensor) -> torch.Tensor:
    return torch.linalg.cholesky(matrix) if kind == "scale_tril" else matrix


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("size", [1, 3, 8, 33, 64, 65])
@pytest.mark.parametrize("batch", [2, 7, 8, 17])
def test_a_batch_is_answered_as_its_matrices_are_one_by_one(kind, size, batch):
    p = definite(0, batch, size)
    # Every third is so close to p that it is refined, and one is equal.
    scale = torch.tensor([1e-6 if i % 3 == 0 else 1.0 for i in range(batch)], dtype=torch.float64)
    q = p + scale[:, None, None] * definite(1, batch, size)
    q[1] = p[1]
    loc_p, loc_q = draw(2, batch, size), draw(3, batch, size)
    p, q = given(kind, p), given(kind, q)
    for dtype in (torch.float64, torch.float32):
        a, b, x, y = (t.to(dtype) for t in (p, q, loc_p, loc_q))
        together = compare_matrices(kind, x, a, y, b, NEAR)
        alone = torch.cat([compare_matrices(kind, *(t[i : i + 1] for t in (x, a, y, b)), NEAR) for i in range(batch)])
        torch.testing.assert_close(together, alone, rtol=1e-13, atol=0)
    assert compare_matrices(kind, loc_p[:2], p[:2], loc_p[:2], p[:2], NEAR).tolist() == [0.0, 0.0]


def test_one_matrix_of_a_batch_that_is_not_positive_definite_declines_the_batch():
    p, loc = definite(0, 9, 5), torch.zeros(9, 5, dtype=torch.float64)
    bad = p.clone()
    bad[6, 2, 2] = -1.0
    assert compare_matrices("covariance_matrix", loc, p, loc, p, NEAR) is not None
    assert compare_matrices("covariance_matrix", loc, bad, loc, p, NEAR) is None
    assert compare_matrices("covariance_matrix", loc, p, loc, bad, NEAR) is None


@pytest.mark.parametrize("size", [1, 23, 24, 25, 100])
def test_factors_without_keeping_w(size):
    p, q = (torch.linalg.cholesky(definite(seed, 3, size)) for seed in (0, 1))
    loc_p, loc_q = draw(2, 3, size), draw(3, 3, size)
    value, square = compare_factors.without_derivatives(loc_p, p, loc_q, q)
    kept, kept_square = compare_factors(loc_p, p, loc_q, q)
    assert torch.equal(value, kept)
    assert torch.equal(square, kept_square)
    wanted, wanted_square = compare_factors.formula(loc_p, p, loc_q, q)[:2]
    torch.testing.assert_close(value, wanted, rtol=1e-12, atol=0)
    torch.testing.assert_close(square, wanted_square, rtol=1e-12, atol=0)
    assert compare_factors.without_derivatives(loc_p.requires_grad_(), p, loc_q, q) is None


@pytest.mark.parametrize("size", [1, 7, 24, 33, 57, 104])
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize("layouts", ["rows", "columns", "both"])
def test_factors_by_rows_and_by_columns(size, dtype, layouts):
    p, q = (torch.linalg.cholesky(definite(seed, 3, size)).to(dtype).contiguous() for seed in (0, 1))
    loc_p, loc_q = draw(2, 3, size).to(dtype), draw(3, 3, size).to(dtype)
    stored_p = p if layouts == "rows" else p.mT.contiguous().mT
    stored_q = q.mT.contiguous().mT if layouts == "columns" else q
    traces = torch.empty(3, 4, dtype=torch.float64)
    value, square = compare_factors.without_derivatives(loc_p, stored_p, loc_q, stored_q, traces)
    wide = [t.double() for t in (loc_p, p, loc_q, q)]
    wanted, wanted_square = compare_factors.formula(*wide)[:2]
    torch.testing.assert_close(value, wanted, rtol=1e-12, atol=0)
    torch.testing.assert_close(square, wanted_square, rtol=1e-12, atol=0)
    inverses = [torch.linalg.inv(lower) for lower in (wide[3], wide[1])]
    exact = torch.stack([t.square().sum((-2, -1)) for t in (wide[3], inverses[0], wide[1], inverses[1])], -1)
    torch.testing.assert_close(traces[:, ::2], exact[:, ::2], rtol=1e-12, atol=0)
    torch.testing.assert_close(traces[:, 1::2], exact[:, 1::2], rtol=0.5, atol=0)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("size", [1, 3, 8, 17, 36, 96])
def test_gradients_of_small_matrices_as_those_of_the_formula(kind, size):
    p, q = (given(kind, definite(seed, 3, size)).contiguous() for seed in (0, 1))
    tensors = [draw(2, 3, size), p, draw(3, 3, size), q]
    weights = draw(4, 3)

    def divergence(*leaves):
        laws = (td.MultivariateNormal(leaves[i], **{kind: leaves[i + 1]}, validate_args=False) for i in (0, 2))
        return (kl_divergence(*laws) * weights).sum()

    found = torch.autograd.grad(divergence(*[t.requires_grad_() for t in tensors]), tensors)
    wanted = torch.func.grad(divergence, argnums=(0, 1, 2, 3))(*(t.detach() for t in tensors))
    for i, (x, y) in enumerate(zip(found, wanted, strict=True)):
        along = y if i % 2 == 0 else y.tril() if kind == "scale_tril" else 0.5 * (y + y.mT)
        torch.testing.assert_close(x, along, rtol=1e-9, atol=1e-11 * float(y.abs().max()))


def test_gradients_of_large_or_indefinite_matrices_are_left_to_torch():
    shift, matrix, grad = draw(0, 2, 5), definite(0, 2, 5), torch.ones(2, dtype=torch.float64)
    bad = matrix.clone()
    bad[1, 3, 3] = -1.0
    assert matrix_gradients("covariance_matrix", grad, shift, matrix, matrix) is not None
    assert matrix_gradients("covariance_matrix", grad, shift, matrix, bad) is None
    assert matrix_gradients("precision_matrix", grad, shift, bad, matrix) is None
    assert matrix_gradients("covariance_matrix", grad, draw(0, 2, 97), *[definite(0, 2, 97)] * 2) is None


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("grad", [False, True])
def test_means_that_are_a_transpose(kind, grad):
    matrices = [given(kind, definite(seed, 3, 4)) for seed in (0, 1)]

    def answer(*means):
        leaves = [t.detach().requires_grad_(grad) for t in means]
        laws = [td.MultivariateNormal(t, **{kind: m}) for t, m in zip(leaves, matrices, strict=True)]
        value = kl_divergence(*laws)
        return [value, *(torch.autograd.grad(value.sum(), leaves) if grad else ())]

    means = [draw(seed, 4, 3).mT for seed in (2, 3)]
    for found, wanted in zip(answer(*means), answer(*(t.contiguous() for t in means)), strict=True):
        assert torch.equal(found, wanted)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize("step", [1.0, 1e-4])
def test_large_matrices_however_given_and_however_close(kind, dtype, step):
    """Against the same in float64, factored anew: c·κ·eps with κ below 20."""
    size = 130
    p = definite(0, 1, size)
    q = p + step * definite(1, 1, size)
    loc = draw(2, 1, size)
    p, q, loc = (t.to(dtype) for t in (given(kind, p), given(kind, q), loc))
    value = kl_divergence(
        td.MultivariateNormal(loc, **{kind: p}), td.MultivariateNormal(torch.zeros_like(loc), **{kind: q})
    )
    covariances = [m.double() @ m.double().mT if kind == "scale_tril" else m.double() for m in (p, q)]
    if kind == "precision_matrix":
        covariances = [torch.linalg.inv(m) for m in covariances]
    wanted = 0.5 * (
        (torch.linalg.eigvals(torch.linalg.solve(covariances[1], covariances[0])).real - 1)
        .to(torch.float64)
        .apply_(lambda e: e - torch.log1p(torch.tensor(e, dtype=torch.float64)).item())
        .sum()
        + loc.double()[0] @ torch.linalg.solve(covariances[1][0], loc.double()[0])
    )
    assert value.item() == pytest.approx(wanted.item(), rel=1e-6 if dtype == torch.float32 else 1e-11)


def low_rank(seed: int, batch: int, size: int, rank: int) -> LowRank:
    return LowRank(draw(seed, batch, size), draw(seed + 1, batch, size, rank), draw(seed + 2, batch, size).exp())


def moved(p: LowRank, step: float) -> LowRank:
    """Another law that differs by about `step` in everything."""
    change = low_rank(7, *p.factor.shape)
    loc, factor = p.loc + step * change.loc, p.factor + step * change.factor
    return LowRank(loc, factor, p.diagonal * (1 + step * change.diagonal))


def by_formula(p: LowRank, q: LowRank) -> torch.Tensor:
    return compare_low_rank.formula(*(LowRank(*(t.double() for t in side)) for side in (p, q)))


SHAPES = [(1, 1), (4, 2), (9, 3), (40, 16), (3, 7)]
STEPS = [1.0, 1e-1, 1e-3, 1e-7, 1e-12, 0.0]


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("step", STEPS)
def test_low_ranks_as_their_formula(shape, step):
    p = low_rank(0, 5, *shape)
    q = moved(p, step)
    value = compare_low_rank(p, q)
    torch.testing.assert_close(value, by_formula(p, q), rtol=1e-11, atol=0)
    assert bool((value >= 0).all())
    if step == 0:
        assert value.tolist() == [0.0] * 5
    narrow = [LowRank(*(t.float() for t in side)) for side in (p, q)]
    torch.testing.assert_close(compare_low_rank(*narrow), by_formula(*narrow), rtol=1e-11, atol=0)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("step", STEPS)
def test_gradients_of_low_ranks_as_those_of_the_formula(shape, step):
    def gradients(divergence):
        sides = [LowRank(*(t.requires_grad_() for t in side)) for side in (p, q)]
        value = divergence(*sides)
        return torch.autograd.grad((value * weights).sum(), [t for side in sides for t in side])

    p = low_rank(0, 5, *shape)
    q, weights = moved(p, step), draw(3, 5)
    p, q = (LowRank(*(t.detach().clone() for t in side)) for side in (p, q))
    found, wanted = gradients(compare_low_rank), gradients(by_formula)
    for x, y in zip(found, wanted, strict=True):
        assert x.shape == y.shape
        # A component is compared with the largest of its element, as the formula itself is no better.
        assert bool(((x - y).abs() <= 1e-9 * y.abs().amax() + 1e-300).all())


@pytest.mark.parametrize("shape", [*SHAPES, (60, 5)])
def test_factors_of_low_ranks(shape):
    p = low_rank(0, 5, *shape)
    for big in (1.0, 1e8):
        factor = big * p.factor
        lower = factor_low_rank(factor, p.diagonal)
        stacked = torch.cat([factor.mT, torch.diag_embed(p.diagonal.sqrt())], -2)
        upper = torch.linalg.qr(stacked).R
        wanted = upper.mT * upper.diagonal(dim1=-2, dim2=-1).sign().unsqueeze(-2)
        assert bool(((lower - wanted).abs() <= 1e-13 * wanted.abs().amax((-2, -1), keepdim=True)).all())
        assert torch.equal(lower, lower.tril())
    narrow = p.factor.float(), p.diagonal.float()
    assert torch.equal(factor_low_rank(*narrow), factor_low_rank(*(t.double() for t in narrow)))
    assert factor_low_rank(1e200 * p.factor, p.diagonal) is None
    assert factor_low_rank(p.factor.requires_grad_(), p.diagonal) is None


@pytest.mark.parametrize("shape", [(2, 1), (4, 2), (9, 3), (40, 16)])
def test_gaussians_apart_as_their_formula(shape):
    q, loc = low_rank(0, 5, *shape), draw(3, 5, shape[0])
    lower = draw(4, 5, shape[0], shape[0]).tril() + 3 * torch.eye(shape[0])
    for big in (1.0, 1e8):
        laws = [td.LowRankMultivariateNormal(q.loc, big * q.factor, q.diagonal)]
        laws += [td.MultivariateNormal(loc, scale_tril=lower)]
        for p, other in (laws, laws[::-1]):
            value = kl_divergence(p, other)
            with torch.enable_grad():  # followed parameters take the formula
                p.loc.requires_grad_()
                wanted = kl_divergence(p, other)
                p.loc.requires_grad_(requires_grad=False)
            torch.testing.assert_close(value, wanted.detach(), rtol=1e-13, atol=0)
    singles = [LowRank(*(t.float() for t in q)), loc.float(), lower.float()]
    found = compare_apart(singles[1], singles[2], singles[0])
    wide = compare_apart(singles[1].double(), singles[2].double(), LowRank(*(t.double() for t in singles[0])))
    for x, y in zip(found, wide, strict=True):
        assert torch.equal(x, y)
    assert compare_apart(loc, lower, q._replace(factor=1e200 * q.factor)) is None


def test_low_ranks_that_overflow_or_do_not_match_are_left_to_the_formula():
    p, q = low_rank(0, 3, 4, 2), low_rank(5, 3, 4, 2)
    one = LowRank(*(t[:1] for t in q))
    torch.testing.assert_close(compare_low_rank(p, one), by_formula(p, one), rtol=1e-12, atol=0)
    mixed = q._replace(loc=q.loc.float())
    torch.testing.assert_close(compare_low_rank(p, mixed), by_formula(p, mixed), rtol=1e-12, atol=0)
    wide = low_rank(0, 2, 20, 17), low_rank(5, 2, 20, 17)
    torch.testing.assert_close(compare_low_rank(*wide), by_formula(*wide), rtol=1e-12, atol=0)
    ranks = [td.LowRankMultivariateNormal(*low_rank(seed, 3, 4, rank)) for seed, rank in ((0, 2), (5, 3))]
    assert bool((kl_divergence(*ranks) > 0).all())


@pytest.mark.parametrize("kind", ["scale_tril", "covariance_matrix"])
def test_large_matrices_on_processors_without_wide_vectors(kind, monkeypatch):
    monkeypatch.setattr(factor_op, "_is_wide", lambda: False)
    monkeypatch.setattr(factor_op, "_LARGEST", 8)
    p, q = (given(kind, definite(seed, 3, 11)).contiguous() for seed in (0, 1))
    tensors = [draw(2, 3, 11), p, draw(3, 3, 11), q]

    def divergence(*leaves, of=kl_divergence):
        laws = (td.MultivariateNormal(leaves[i], **{kind: leaves[i + 1]}, validate_args=False) for i in (0, 2))
        return of(*laws)

    def lower(gradients):  # entries above the diagonal of a factor are no parameters
        return [g.tril() if g.dim() == 3 and kind == "scale_tril" else g for g in gradients]

    wanted = divergence(*tensors, of=td.kl_divergence)
    torch.testing.assert_close(divergence(*tensors), wanted, rtol=1e-12, atol=0)
    assert divergence(*tensors[:2], *tensors[:2]).tolist() == [0.0] * 3
    leaves = [t.requires_grad_() for t in tensors]
    both = []
    for of in (kl_divergence, td.kl_divergence):
        first = lower(torch.autograd.grad(divergence(*leaves, of=of).sum(), leaves, create_graph=True))
        second = lower(torch.autograd.grad(sum(g.square().sum() for g in first), leaves))
        both.append([*first, *second])
    for found, expected in zip(*both, strict=True):
        torch.testing.assert_close(found, expected, rtol=1e-8, atol=1e-8)
