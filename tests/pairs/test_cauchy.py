"""KL(Cauchy ‖ ·) and KL(HalfCauchy ‖ ·)."""

from torch.distributions import Cauchy, HalfCauchy, Normal

from tests.pairs.contract import *  # noqa: F403

CASES = [
    Case(Cauchy, Cauchy),  # noqa: F405
    Case(HalfCauchy, HalfCauchy),  # noqa: F405
]


def test_a_normal_has_no_tails_for_it() -> None:
    loc, scale = (torch.tensor(v, dtype=torch.float64, requires_grad=True) for v in ([0.0, 1.0], 2.0))  # noqa: F405
    p, q = Cauchy(loc, scale), Normal(torch.tensor([[0.0], [1e30]]), scale)  # noqa: F405
    value = kl_divergence(p, q)  # noqa: F405
    assert value.tolist() == [[math.inf] * 2] * 2  # noqa: F405
    value.sum().backward()
    assert loc.grad.tolist() == [0.0, 0.0]
    assert scale.grad.item() == 0.0
    assert kl_method(p, q) == "infinite"  # noqa: F405
