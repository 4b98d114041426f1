"""Cross-family pairs by a moment or a moment-generating function of p."""

from torch import distributions as d

from kullback.pairs.univariate import kl_by_integral
from tests.pairs.contract import *  # noqa: F403

CASES = [Case(d.HalfNormal, d.Gumbel), Case(d.Laplace, d.Gumbel), Case(d.Uniform, d.HalfNormal)]  # noqa: F405
if hasattr(d, "GeneralizedPareto"):
    CASES += [Case(d.GeneralizedPareto, q) for q in (d.Exponential, d.HalfNormal, d.Normal)]  # noqa: F405


def test_agrees_with_the_integral(case: Case) -> None:  # noqa: F405
    row = example(case)  # noqa: F405
    p, q = case.build(tensors(row["p"], torch.float64), tensors(row["q"], torch.float64))  # noqa: F405
    torch.testing.assert_close(kl_divergence(p, q), kl_by_integral(p, q)[0], rtol=1e-11, atol=0)  # noqa: F405
