"""KL(Normal ‖ StudentT) and KL(Normal ‖ Cauchy)."""

from torch.distributions import Cauchy, Normal, StudentT

from kullback.pairs import kl_with_error
from tests.pairs.contract import *  # noqa: F403

CASES = [Case(Normal, StudentT), Case(Normal, Cauchy)]  # noqa: F405


def double(*values: float) -> list[Tensor]:  # noqa: F405
    return [torch.tensor(v, dtype=torch.float64) for v in values]  # noqa: F405


@pytest.mark.parametrize("df", [1e9, 1e12])  # noqa: F405
def test_many_degrees_of_freedom_are_the_normal(df: float) -> None:
    df, loc, scale = double(df, 1.0, 2.0)
    value = kl_divergence(Normal(*double(0.0, 1.0)), StudentT(df, loc, scale))  # noqa: F405
    wanted = kl_divergence(Normal(*double(0.0, 1.0)), Normal(loc, scale))  # noqa: F405
    assert value.item() == pytest.approx(wanted.item(), rel=3 / df.item())  # noqa: F405


@pytest.mark.parametrize("df", [1e4, 1e8, 1e12])  # noqa: F405
def test_same_location_and_scale_leave_the_fourth_cumulant(df: float) -> None:
    """KL = 7/(4ν²) + O(1/ν³)."""
    value = kl_divergence(Normal(*double(0.0, 1.0)), StudentT(*double(df, 0.0, 1.0)))  # noqa: F405
    assert value.item() == pytest.approx(1.75 / df**2, rel=20 / df + 1e-12)  # noqa: F405


@pytest.mark.parametrize("scale", [1e-30, 1e30])  # noqa: F405
def test_extreme_scales(scale: float) -> None:
    """A narrow Cauchy sees E log z² = −γ − log 2, a wide one nothing but its own height."""
    value = kl_divergence(Normal(*double(0.0, 1.0)), Cauchy(*double(0.0, scale))).item()  # noqa: F405
    base = math.log(math.pi) - 0.5 * math.log(2 * math.pi * math.e)  # noqa: F405
    narrow = -math.log(scale) - 0.5772156649015329 - math.log(2)  # noqa: F405
    assert value == pytest.approx(base + (narrow if scale < 1 else math.log(scale)), rel=1e-12)  # noqa: F405


def test_published_values_and_an_error_that_is_an_estimate() -> None:
    """Values of the handbook: 0.762 for a Cauchy of location 1 and scale 2."""
    result = kl_with_error(Normal(*double(0.0, 1.0)), Cauchy(*double(1.0, 2.0)))
    assert result.value.item() == pytest.approx(0.76198720213334951, rel=1e-12)  # noqa: F405
    assert result.error.item() < 1e-10
    assert not result.certified
