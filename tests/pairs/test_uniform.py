"""KL(Uniform ‖ ·)."""

from torch.distributions import Beta, ContinuousBernoulli, Exponential, Gamma, Gumbel, Normal, Pareto, Uniform

from tests.pairs.contract import *  # noqa: F403

CASES = [
    Case(Uniform, Uniform),  # noqa: F405
    Case(Uniform, Normal),  # noqa: F405
    Case(Uniform, Gumbel),  # noqa: F405
    # log B(a, b) and the mean logarithms are of size a + b, up to 2e6, and cancel to a number of size 1.
    Case(Uniform, Beta, value_tolerance=5e-10),  # noqa: F405
    Case(Uniform, ContinuousBernoulli),  # noqa: F405
    Case(Uniform, Exponential),  # noqa: F405
    Case(Uniform, Gamma),  # noqa: F405
    Case(Uniform, Pareto),  # noqa: F405
]


def test_zero_at_equality_with_zero_gradient(case: Case) -> None:  # noqa: F405
    """Equal intervals touch the edge of infinity: the value is 0, the slopes are the one-sided ±1/width."""
    if case.q is not Uniform:
        pytest.skip("only a family against itself can be equal by parameters")  # noqa: F405
    for row in case.table():
        p, q = (tensors(row["p"], torch.float64, grad=True) for _ in range(2))  # noqa: F405
        value = kl_divergence(Uniform(**p), Uniform(**q))  # noqa: F405
        assert value.item() == 0.0
        value.backward()
        slope = pytest.approx(1 / (p["high"] - p["low"]).item(), rel=1e-12)  # noqa: F405
        assert p["low"].grad.item() == -q["low"].grad.item() == slope
        assert q["high"].grad.item() == -p["high"].grad.item() == slope


@pytest.mark.parametrize("q", [Beta(1.0, 1.0), ContinuousBernoulli(0.5)], ids=str)  # noqa: F405
def test_the_flat_distribution_on_the_unit_interval_is_uniform(q: Distribution) -> None:  # noqa: F405
    assert kl_divergence(Uniform(0.0, 1.0), q).item() == 0.0  # noqa: F405


@pytest.mark.parametrize("q", [Beta, ContinuousBernoulli, Exponential, Gamma, Pareto])  # noqa: F405
def test_outside_of_the_support_infinite_without_gradient(q: type) -> None:
    ends = [torch.tensor(v, requires_grad=True) for v in ([-0.5, 0.25], [1.5, 0.75])]  # noqa: F405
    parameters = [torch.tensor(v) for v in (0.2, 0.7)][: 1 if q in (ContinuousBernoulli, Exponential) else 2]  # noqa: F405
    value = kl_divergence(Uniform(*ends), q(*parameters))  # noqa: F405
    assert value.isinf().tolist() == [True, False]
    value.sum().backward()
    assert all(end.grad[0].item() == 0.0 and end.grad.isfinite().all() for end in ends)


def test_continuous_bernoulli_by_probability_and_at_infinite_logits() -> None:
    p = Uniform(torch.tensor(0.25), torch.tensor(0.75))  # noqa: F405
    logits = torch.tensor([-torch.inf, -1.0986123, torch.inf], requires_grad=True)  # noqa: F405
    by_logits = kl_divergence(p, ContinuousBernoulli(logits=logits, validate_args=False))  # noqa: F405
    by_probs = kl_divergence(p, ContinuousBernoulli(torch.tensor(0.25)))  # noqa: F405
    assert by_logits.isinf().tolist() == [True, False, True]
    assert by_probs.item() == pytest.approx(by_logits[1].item(), rel=1e-6)  # noqa: F405
    by_logits.sum().backward()
    assert logits.grad.isfinite().all()
