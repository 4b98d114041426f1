"""KL(Cauchy ‖ ·) and KL(HalfCauchy ‖ ·)."""

from torch.distributions import Cauchy, HalfCauchy, Normal

from tests.pairs.contract import *  # noqa: F403

CASES = [
    Case(Cauchy, Cauchy),  # noqa: F405
    Case(HalfCauchy, HalfCauchy),  # noqa: F405
]


def test_reproducer_of_torchs_nan() -> None:
    f = torch.tensor  # noqa: F405
    value = kl_divergence(Cauchy(f(0.0), f(1e20)), Cauchy(f(0.0), f(2e20)))  # noqa: F405
    assert value.item() == pytest.approx(0.11778304, rel=1e-6)  # noqa: F405


def test_a_normal_has_no_tails_for_it() -> None:
    loc, scale = (torch.tensor(v, dtype=torch.float64, requires_grad=True) for v in ([0.0, 1.0], 2.0))  # noqa: F405
    p, q = Cauchy(loc, scale), Normal(torch.tensor([[0.0], [1e30]]), scale)  # noqa: F405
    value = kl_divergence(p, q)  # noqa: F405
    assert value.tolist() == [[math.inf] * 2] * 2  # noqa: F405
    value.sum().backward()
    assert loc.grad.tolist() == [0.0, 0.0]
    assert scale.grad.item() == 0.0
    assert kl_method(p, q) == "infinite"  # noqa: F405


def test_equal_tiny_scales() -> None:
    p = HalfCauchy(torch.tensor(1e-25))  # noqa: F405
    assert kl_divergence(p, p).item() == 0.0  # noqa: F405
