"""KL(FisherSnedecor ‖ ·)."""

from torch.distributions import Beta, FisherSnedecor

from kullback.pairs import kl_with_error
from tests.pairs.contract import *  # noqa: F403

CASES = [Case(FisherSnedecor, FisherSnedecor)]  # noqa: F405


def law(df1: float, df2: float) -> FisherSnedecor:
    return FisherSnedecor(*(torch.tensor(v, dtype=torch.float64) for v in (df1, df2)))  # noqa: F405


@pytest.mark.parametrize("factor", [2.0, 1 + 1e-9, 1e-3, 1e6])  # noqa: F405
@pytest.mark.parametrize("df", [1e-2, 3.0, 1e3])  # noqa: F405
def test_equal_ratios_are_beta_laws(df: float, factor: float) -> None:
    """At equal df1/df2 both variables are the same function of a Beta."""
    p, q = (torch.tensor([df, 2 * df], dtype=torch.float64) * f / 2 for f in (1, factor))  # noqa: F405
    wanted = kl_divergence(Beta(p[0], p[1]), Beta(q[0], q[1])).item()  # noqa: F405
    got = kl_divergence(law(*(2 * p).tolist()), law(*(2 * q).tolist())).item()  # noqa: F405
    assert got == pytest.approx(wanted, rel=1e-10)  # noqa: F405


def test_reciprocal_has_the_same_divergence() -> None:
    for p, q in [((5.0, 7.0), (4.0, 9.0)), ((1e-3, 1e12), (1e-2, 1e6)), ((1e6, 3.0), (1e7, 2.0))]:
        one, other = kl_divergence(law(*p), law(*q)), kl_divergence(law(*p[::-1]), law(*q[::-1]))  # noqa: F405
        assert one.item() == pytest.approx(other.item(), rel=1e-10)  # noqa: F405


def test_where_the_variance_does_not_change_the_skewness_decides() -> None:
    """More of one and less of the other at large counts: leading orders cancel, what is left is 1/6 ε²/df for ε → 0."""
    step = 2.0**-20
    value = kl_divergence(law(1e9, 1e9), law(1e9 * (1 + step), 1e9 * (1 - step)))  # noqa: F405
    near = kl_divergence(law(1e9, 1e9), law(1e9 * (1 + step / 2), 1e9 * (1 - step / 2)))  # noqa: F405
    assert value.item() == pytest.approx(4 * near.item(), rel=1e-3)  # noqa: F405


def test_error_is_small_and_said_to_be_an_estimate() -> None:
    result = kl_with_error(law(5.0, 7.0), law(4.0, 9.0))
    assert result.method == "integral"
    assert not result.certified
    assert 0 <= result.error.item() < 1e-10 * result.value.item()
