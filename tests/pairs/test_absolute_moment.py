"""KL(p ‖ Laplace) from E|x − μ|."""

from kullback.pairs import registry
from kullback.pairs.absolute_moment import kl_to_laplace
from kullback.pairs.univariate import kl_by_integral
from tests.pairs.contract import *  # noqa: F403

CASES = [Case(rule.p, rule.q) for rule in registry.rules() if rule.formula is kl_to_laplace]  # noqa: F405


def test_agrees_with_the_integral(case: Case) -> None:  # noqa: F405
    row = example(case)  # noqa: F405
    p, q = case.build(tensors(row["p"], torch.float64), tensors(row["q"], torch.float64))  # noqa: F405
    torch.testing.assert_close(kl_divergence(p, q), kl_by_integral(p, q)[0], rtol=1e-11, atol=0)  # noqa: F405
