"""KL(Normal ‖ ·), KL(HalfNormal ‖ ·), KL(LogNormal ‖ ·)."""

from torch.distributions import Gumbel, HalfNormal, Laplace, LogNormal, Normal

from tests.pairs.contract import *  # noqa: F403

CASES = [
    Case(Normal, Normal),  # noqa: F405
    Case(Normal, Gumbel),  # noqa: F405
    Case(Normal, Laplace),  # noqa: F405
    Case(HalfNormal, HalfNormal),  # noqa: F405
    Case(LogNormal, LogNormal),  # noqa: F405
]


def test_reproducers_of_torchs_wrong_answers() -> None:
    f, d = torch.tensor, lambda x: torch.tensor(x, dtype=torch.float64)  # noqa: F405
    assert kl_divergence(Normal(f(0.0), f(1e-25)), Normal(f(0.0), f(1.0))).item() == pytest.approx(57.064627, rel=1e-6)  # noqa: F405
    assert kl_divergence(Normal(f(1e8), f(2.0)), Gumbel(f(1e8), f(2.0))).item() == pytest.approx(0.22978274, rel=1e-6)  # noqa: F405
    assert kl_divergence(Normal(d(0.0), d(1.0)), Normal(d(1e-8), d(1.0))).item() == pytest.approx(5e-17, rel=1e-12)  # noqa: F405
    scale = f(1e-25).requires_grad_()
    kl_divergence(Normal(f(0.0), scale), Normal(f(0.0), f(1.0))).backward()  # noqa: F405
    assert scale.grad.item() == pytest.approx(-9.9999998e24, rel=1e-6)  # noqa: F405
