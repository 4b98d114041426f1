"""KL(Wishart ‖ ·)."""

import pytest
import torch
from torch.distributions import Wishart

from kullback.pairs.dispatch import kl_divergence
from tests.pairs.contract import *  # noqa: F403
from tests.pairs.contract import close, read_table, tensors

pytestmark = pytest.mark.filterwarnings("ignore:Low df values")
# torch's constructor branches on values: a Wishart can be made neither under vmap nor while compiling.
del test_vmap_agrees_with_batching, test_compiles_in_one_graph  # noqa: F821
CASES = [Case(Wishart, Wishart, gradient_floor=1e-6)]  # noqa: F405


def double(value):
    return torch.tensor(value, dtype=torch.float64)


def test_batches():
    eye = torch.eye(2, dtype=torch.float64)
    value = kl_divergence(Wishart(double([3.0, 4.0, 5.0]), eye), Wishart(double([6.0, 5.0, 4.0]), eye))
    torch.testing.assert_close(value, double([1.9097008, 0.17582795, 0.15750538]), rtol=1e-7, atol=0)
    copies = kl_divergence(Wishart(double(3.0), eye).expand([3]), Wishart(double(6.0), eye).expand([3]))
    torch.testing.assert_close(copies, double([1.9097008] * 3), rtol=1e-7, atol=0)


def test_gradient_reaches_the_degrees_of_freedom():
    df = double(4.0).requires_grad_()
    eye = torch.eye(2, dtype=torch.float64)
    kl_divergence(Wishart(df, eye), Wishart(double(6.0), eye)).backward()
    torch.testing.assert_close(df.grad, double(-0.78986813), rtol=1e-7, atol=0)


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float64, 1e-12), (torch.float32, 1e-6)])
def test_covariances_as_given(dtype, tolerance):
    for row in read_table("Wishart", "Wishart_covariance_matrix"):
        if dtype == torch.float64 or row["float32"]:
            value = kl_divergence(*(Wishart(**tensors(row[side], dtype)) for side in "pq"))
            assert close(value.item(), float(row["kl"]), tolerance, dtype), row
