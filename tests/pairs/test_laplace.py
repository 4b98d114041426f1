"""KL(Laplace ‖ ·)."""

from torch.distributions import Gumbel, Laplace, Normal

from tests.pairs.contract import *  # noqa: F403

CASES = [
    Case(Laplace, Laplace),  # noqa: F405
    Case(Laplace, Normal),  # noqa: F405
    Case(Laplace, Gumbel),  # noqa: F405
]


def test_curvature_at_equal_locations() -> None:
    def along(loc: Tensor) -> Tensor:  # noqa: F405
        return kl_divergence(Laplace(loc, 2.0, validate_args=False), Laplace(0.0, 2.0))  # noqa: F405

    second = torch.func.grad(torch.func.grad(along))(torch.tensor(0.0, dtype=torch.float64))  # noqa: F405
    assert second.item() == pytest.approx(0.25)  # noqa: F405
