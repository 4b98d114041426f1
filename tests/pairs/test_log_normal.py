"""KL(LogNormal ‖ ·)."""

from torch.distributions import LogNormal

from tests.pairs.contract import *  # noqa: F403

CASES = [Case(LogNormal, LogNormal)]  # noqa: F405


def test_method_is_named(case: Case) -> None:  # noqa: F405
    p = LogNormal(torch.tensor(0.0), torch.tensor(0.5))  # noqa: F405
    assert registry.find(LogNormal, LogNormal).method == "structure"  # noqa: F405
    assert kl_method(p, p) == "closed form"  # noqa: F405
