"""The written derivatives of Gaussians against autograd through the formula in float64."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor
from torch.distributions import MultivariateNormal, Wishart

from kullback import kl_divergence

MATRICES = ("covariance_matrix", "precision_matrix")


def given(size: int, batch: tuple[int, ...], apart: float) -> list[Tensor]:
    """Means and matrices whose second half differs from the first by about `apart`."""
    generator = torch.Generator().manual_seed(size)
    root, other = (torch.randn(*batch, size, size, generator=generator, dtype=torch.float64) for _ in range(2))
    matrix = root @ root.mT / size + torch.eye(size, dtype=torch.float64)
    moved = matrix + apart * (other @ other.mT / size)
    loc, step = (torch.randn(*batch, size, generator=generator, dtype=torch.float64) for _ in range(2))
    return [loc, matrix, loc + apart * step, moved]


def divergence(name: str, *tensors: Tensor) -> Tensor:
    p = MultivariateNormal(tensors[0], **{name: tensors[1]}, validate_args=False)
    q = MultivariateNormal(tensors[2], **{name: tensors[3]}, validate_args=False)
    return kl_divergence(p, q)


def exact_gradients(name: str, tensors: list[Tensor]) -> list[Tensor]:
    """Under a transform the formula itself is differentiated; along symmetric changes, the only ones there are."""
    found = torch.func.grad(weighted, argnums=(1, 2, 3, 4))(name, *(t.detach().double() for t in tensors))
    return [0.5 * (g + g.mT) if i % 2 else g for i, g in enumerate(found)]


def weighted(name: str, *tensors: Tensor) -> Tensor:
    value = divergence(name, *tensors)
    return (value * torch.arange(1, value.numel() + 1, dtype=value.dtype).view(value.shape)).sum()


@pytest.mark.parametrize(("size", "batch"), [(1, (3,)), (5, ()), (5, (2, 3)), (130, (2,))])
@pytest.mark.parametrize("apart", [1.0, 1e-3, 1e-7])
@pytest.mark.parametrize("name", MATRICES)
def test_gradients_in_float64(name: str, apart: float, size: int, batch: tuple[int, ...]) -> None:
    tensors = [t.requires_grad_() for t in given(size, batch, apart)]
    found = torch.autograd.grad(weighted(name, *tensors), tensors)
    for one, other in zip(found, exact_gradients(name, tensors), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-8, atol=1e-8 * float(other.abs().max()))


@pytest.mark.parametrize("size", [5, 130])
@pytest.mark.parametrize("apart", [3.0, 1e-2])
@pytest.mark.parametrize("name", MATRICES)
def test_gradients_in_float32(name: str, apart: float, size: int) -> None:
    tensors = [t.float().requires_grad_() for t in given(size, (2,), apart)]
    found = torch.autograd.grad(weighted(name, *tensors), tensors)
    for one, other in zip(found, exact_gradients(name, tensors), strict=True):
        assert one.dtype is torch.float32
        torch.testing.assert_close(one.double(), other, rtol=1e-4, atol=2e-6 * float(other.abs().max()))


@pytest.mark.parametrize("name", MATRICES)
def test_second_derivatives(name: str) -> None:
    tensors = [t.requires_grad_() for t in given(3, (), 1.0)]
    assert torch.autograd.gradgradcheck(lambda *t: _symmetric(name, *t), tensors, atol=1e-6)


@pytest.mark.filterwarnings("ignore:Low df values")
@pytest.mark.parametrize("family", [MultivariateNormal, Wishart])
@pytest.mark.parametrize("name", MATRICES)
def test_the_second_derivative_at_equality_is_the_fisher_information(name: str, family: type) -> None:
    """Along V + tB, ½·tr(V⁻¹BV⁻¹B) for a Gaussian, times the degrees of freedom for a Wishart, in p and in q."""
    _, matrix, _, moved = given(4, (), 0.3)
    first = torch.full((), 7.0).double() if family is Wishart else torch.zeros(4).double()
    step = moved - matrix

    def along(t: Tensor, side: int) -> Tensor:
        pair = [family(first, **{name: m}, validate_args=False) for m in (matrix, matrix + t * step)]
        return kl_divergence(pair[1 - side], pair[side])

    ratio = torch.linalg.solve(matrix, step)
    wanted = 0.5 * (ratio @ ratio).trace() * (7.0 if family is Wishart else 1.0)
    for side in (0, 1):
        t = torch.zeros((), dtype=torch.float64, requires_grad=True)
        (slope,) = torch.autograd.grad(along(t, side), t, create_graph=True)
        assert slope.item() == 0.0
        torch.testing.assert_close(torch.autograd.grad(slope, t)[0], wanted, rtol=1e-12, atol=0)


def _symmetric(name: str, loc_p: Tensor, matrix_p: Tensor, loc_q: Tensor, matrix_q: Tensor) -> Tensor:
    return divergence(name, loc_p, 0.5 * (matrix_p + matrix_p.mT), loc_q, 0.5 * (matrix_q + matrix_q.mT))
