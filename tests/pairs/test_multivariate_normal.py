"""KL between Gaussians in several dimensions."""

import pytest
import torch
from torch.distributions import Independent, LowRankMultivariateNormal, MultivariateNormal, Normal

from kullback.pairs.dispatch import kl_divergence, kl_method
from kullback.special import log1pmx
from tests.pairs.contract import *  # noqa: F403
from tests.pairs.contract import close, read_table, tensors

# A gradient component that is zero by symmetry comes out as rounding of the others.
CASES = [
    Case(p, q, gradient_floor=1e-6)  # noqa: F405
    for p in (MultivariateNormal, LowRankMultivariateNormal)
    for q in (MultivariateNormal, LowRankMultivariateNormal)
]


@pytest.mark.parametrize("name", ["covariance_matrix", "precision_matrix"])
@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float64, 1e-12), (torch.float32, 1e-6)])
def test_matrices_as_given(name, dtype, tolerance):
    for row in read_table("MultivariateNormal", f"MultivariateNormal_{name}"):
        if dtype == torch.float32 and not row["float32"]:
            continue
        params = [tensors(row[side], dtype, grad=True) for side in "pq"]
        value = kl_divergence(*(MultivariateNormal(**given) for given in params))
        assert close(value.item(), float(row["kl"]), tolerance, dtype), row
        value.backward()
        wanted = torch.tensor([float(v) for v in row["gradient"]["q.loc"]], dtype=torch.float64)
        torch.testing.assert_close(params[1]["loc"].grad.double(), wanted, rtol=100 * tolerance, atol=1e-30)


@pytest.mark.parametrize("name", ["covariance_matrix", "precision_matrix", "scale_tril"])
def test_equal_matrices_are_exactly_equal(name):
    torch.manual_seed(0)
    factor = torch.randn(5, 6, 6, dtype=torch.float64).tril() + 3 * torch.eye(6, dtype=torch.float64)
    given = factor if name == "scale_tril" else factor @ factor.mT
    p, q = (MultivariateNormal(torch.zeros(6, dtype=torch.float64), **{name: given}) for _ in range(2))
    assert kl_divergence(p, q).tolist() == [0.0] * 5
    assert kl_divergence(p.expand([2, 5]), q).tolist() == [[0.0] * 5] * 2


def test_large_factors_do_not_cancel():
    one = LowRankMultivariateNormal(torch.zeros(3), torch.full((3, 1), 1e4), torch.ones(3))
    assert kl_divergence(one, one).item() == 0.0
    for row in read_table("LowRankMultivariateNormal", "LowRankMultivariateNormal_spike"):
        p, q = (LowRankMultivariateNormal(**tensors(row[side], torch.float64)) for side in "pq")
        assert close(kl_divergence(p, q).item(), float(row["kl"]), 1e-12, torch.float64)


def test_identity_against_its_multiple_in_float32():
    p, q = (MultivariateNormal(torch.zeros(64), c * torch.eye(64)) for c in (1.0, 1.0001))
    r = q.covariance_matrix[0, 0].double().reciprocal() - 1
    assert kl_divergence(p, q).item() == pytest.approx(32 * (r - torch.log1p(r)).item(), rel=1e-6)


def test_independent_normals_are_a_gaussian():
    loc, scale = torch.tensor([[0.0, 1.0, 2.0]] * 4), torch.tensor([1.0, 2.0, 3.0])
    p = Independent(Normal(loc, scale), 1)
    dense = MultivariateNormal(loc, scale_tril=torch.diag(scale))
    low = LowRankMultivariateNormal(torch.zeros(3), torch.ones(3, 1), torch.ones(3))
    for q in (MultivariateNormal(torch.ones(3), 2 * torch.eye(3)), low):
        torch.testing.assert_close(kl_divergence(p, q), kl_divergence(dense, q), rtol=1e-6, atol=0)
        torch.testing.assert_close(kl_divergence(q, p), kl_divergence(q, dense), rtol=1e-6, atol=0)
        assert kl_method(p, q) == kl_method(q, p) == "closed form"
    assert kl_divergence(p, dense).tolist() == [0.0] * 4


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=str)
@pytest.mark.parametrize("size", [1, 4, 33, 128, 129, 300])  # from 129 rows on by blocks
def test_factors_of_every_size(size, dtype):
    generator = torch.Generator().manual_seed(size)

    def draw(*shape):
        return torch.randn(*shape, generator=generator, dtype=torch.float64)

    lower = [(draw(2, size, size) / size**0.5).tril(-1) / 4 + torch.eye(size) for _ in range(2)]
    given = [t.to(dtype).requires_grad_() for t in (draw(2, size), lower[0], draw(2, size), lower[1] * 1.5)]
    wide = [t.detach().double().requires_grad_() for t in given]

    def divergence(kl, loc_p, lower_p, loc_q, lower_q):
        p = MultivariateNormal(loc_p, scale_tril=lower_p, validate_args=False)
        return kl(p, MultivariateNormal(loc_q, scale_tril=lower_q, validate_args=False))

    value, wanted = divergence(kl_divergence, *given), divergence(torch.distributions.kl_divergence, *wide)
    loose = 1e-12 if dtype == torch.float64 else 1e-5
    torch.testing.assert_close(value.double(), wanted, rtol=loose, atol=0)
    weights = torch.tensor([1.0, 3.0])
    found = torch.autograd.grad((value * weights).sum(), given)
    for got, full in zip(found, torch.autograd.grad((wanted * weights).sum(), wide), strict=True):
        expected = full.tril() if got.dim() == 3 else full
        torch.testing.assert_close(got.double(), expected, rtol=loose, atol=loose * float(expected.abs().max()))


def test_what_is_above_the_diagonal_of_a_factor_is_not_read():
    lower, loc = torch.eye(3, dtype=torch.float64), torch.zeros(3, dtype=torch.float64)
    dirty = lower + torch.full((3, 3), 7.0).triu(1)
    p = MultivariateNormal(loc, scale_tril=2 * lower, validate_args=False)
    clean = kl_divergence(p, MultivariateNormal(loc, scale_tril=lower, validate_args=False))
    assert kl_divergence(p, MultivariateNormal(loc, scale_tril=dirty, validate_args=False)).item() == clean.item()


@pytest.mark.parametrize("step", [0.3, 1e-2, 1e-9])
def test_low_rank_in_many_dimensions_forms_no_square_matrix(step: float) -> None:
    """A covariance scaled by 1 + ε: ½n·(ε − log(1 + ε)); the n × n matrices would take 3 GB each."""
    n, generator = 20_000, torch.Generator().manual_seed(0)
    factor = torch.randn(n, 5, generator=generator, dtype=torch.float64)
    diagonal, loc = torch.rand(n, generator=generator, dtype=torch.float64) + 0.5, torch.zeros(n).double()
    p = LowRankMultivariateNormal(loc, factor * math.sqrt(1 + step), diagonal * (1 + step))  # noqa: F405
    value = kl_divergence(p, LowRankMultivariateNormal(loc, factor, diagonal)).item()
    e = torch.tensor((1 + step) - 1, dtype=torch.float64)
    # Scaled numbers are rounded; over 1e-9 that is a relative 1e-7 each.
    wanted = -n / 2 * log1pmx(e).item()
    assert value == pytest.approx(wanted, rel=1e-11 + 1e-16 / step)


@pytest.mark.parametrize("kinds", [(0, 0), (0, 1), (1, 0), (1, 1)], ids=str)
def test_unequal_batch_shapes_broadcast(kinds):
    """Each element is what it is alone: batches of means, of matrices, of both, on either side."""
    generator = torch.Generator().manual_seed(2)
    loc = torch.randn(4, 1, 3, dtype=torch.float64, generator=generator)
    factor = torch.randn(2, 3, 3, dtype=torch.float64, generator=generator)
    diagonal = torch.rand(2, 3, dtype=torch.float64, generator=generator) + 0.5

    def distribution(kind, mean, columns, variances):
        if kind:
            return LowRankMultivariateNormal(mean, columns, variances)
        return MultivariateNormal(mean, columns @ columns.mT + torch.diag_embed(variances))

    p, q = distribution(kinds[0], loc, factor, diagonal), distribution(kinds[1], loc[2, 0], factor[0], diagonal[1])
    value = kl_divergence(p, q)
    assert value.shape == (4, 2)
    assert kl_divergence(q, p).shape == (4, 2)
    for i in range(4):
        for j in range(2):
            one = distribution(kinds[0], loc[i, 0], factor[j], diagonal[j])
            torch.testing.assert_close(value[i, j], kl_divergence(one, q), rtol=1e-12, atol=0)
            torch.testing.assert_close(kl_divergence(q, p)[i, j], kl_divergence(q, one), rtol=1e-12, atol=0)
