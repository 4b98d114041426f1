"""KL(Pareto ‖ ·)."""

from torch.distributions import Exponential, Gamma, Normal, Pareto

from tests.pairs.contract import *  # noqa: F403

CASES = [
    Case(Pareto, Pareto),  # noqa: F405
    Case(Pareto, Exponential),  # noqa: F405
    Case(Pareto, Gamma),  # noqa: F405
    Case(Pareto, Normal),  # noqa: F405
]


def test_zero_at_equality_with_zero_gradient(case: Case) -> None:  # noqa: F405
    """Equal scales touch the edge of infinity: the value is 0, the one-sided slope α/scale, and α's gradient is 0."""
    if case.q is not Pareto:
        pytest.skip("only a family against itself can be equal by parameters")  # noqa: F405
    for row in case.table():
        p, q = (tensors(row["p"], torch.float64, grad=True) for _ in range(2))  # noqa: F405
        value = kl_divergence(Pareto(**p), Pareto(**q))  # noqa: F405
        assert value.item() == 0.0
        value.backward()
        assert p["alpha"].grad.item() == q["alpha"].grad.item() == 0.0
        slope = pytest.approx((q["alpha"] / q["scale"]).item(), rel=1e-12)  # noqa: F405
        assert p["scale"].grad.item() == -q["scale"].grad.item() == slope


@pytest.mark.parametrize("q", [Exponential(1.0), Gamma(2.0, 1.0), Normal(0.0, 1.0)], ids=str)  # noqa: F405
def test_infinite_means_and_variances_have_no_gradient(q: Distribution) -> None:  # noqa: F405
    alpha = torch.tensor([0.5, 1.0, 3.0], requires_grad=True)  # noqa: F405
    value = kl_divergence(Pareto(torch.tensor(1.0), alpha), q)  # noqa: F405
    assert value.isinf().tolist() == [True, True, False]
    value.sum().backward()
    assert (alpha.grad[:2] == 0).all()
    assert alpha.grad.isfinite().all()
