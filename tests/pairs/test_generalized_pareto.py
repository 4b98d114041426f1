"""KL(GeneralizedPareto ‖ ·)."""

import pytest
import torch
from torch.distributions import Exponential, Pareto, Uniform

from kullback.pairs import kl_divergence, kl_with_error
from tests.pairs.contract import *  # noqa: F403

GeneralizedPareto = getattr(torch.distributions, "GeneralizedPareto", None)
pytestmark = pytest.mark.skipif(GeneralizedPareto is None, reason="newer than this torch")
CASES = [Case(GeneralizedPareto, GeneralizedPareto)] if GeneralizedPareto else []  # noqa: F405


def law(*values: float | list[float]) -> Distribution:  # noqa: F405
    return GeneralizedPareto(*(torch.tensor(v, dtype=torch.float64) for v in values))


def test_zero_at_equality_with_zero_gradient(case: Case) -> None:  # noqa: F405
    """Equal locations touch the edge of infinity: the value is 0, the slopes in them ±1/scale, the others 0."""
    for row in case.table():
        params = [tensors(row["p"], torch.float64, grad=True) for _ in range(2)]  # noqa: F405
        value = kl_divergence(*case.build(*params))
        assert value.item() == 0.0
        value.backward()
        assert [side["loc"].grad.item() * row["p"]["scale"] for side in params] == pytest.approx([1, -1])
        assert all(side[name].grad.item() == 0 for side in params for name in ("scale", "concentration"))


def test_special_cases_are_exponential_pareto_and_uniform() -> None:
    pairs = [
        (law(0.0, 2.0, 0.0), law(0.0, 3.0, 0.0), Exponential(0.5), Exponential(1 / 3)),
        (law(2.0, 1.0, 0.5), law(1.0, 0.25, 0.25), Pareto(2.0, 2.0), Pareto(1.0, 4.0)),
        (law(0.5, 1.0, -1.0), law(0.0, 3.0, -1.0), Uniform(0.5, 1.5), Uniform(0.0, 3.0)),
    ]
    for p, q, known_p, known_q in pairs:
        wanted = kl_divergence(known_p, known_q).item()
        assert kl_divergence(p, q).item() == pytest.approx(wanted, rel=1e-6)


def test_infinite_outside_of_the_support_and_without_a_mean_and_then_without_gradient() -> None:
    p = [
        torch.tensor(v, dtype=torch.float64, requires_grad=True)
        for v in ([0.0] * 5, [1.0] * 5, [0.5, 0.5, -0.5, 1.0, 0.5])
    ]
    q = [
        torch.tensor(v, dtype=torch.float64, requires_grad=True)
        for v in ([0.5, 0, 0, 0, 0], [1.0] * 5, [0.5, -0.5, -0.6, 0.0, 0.25])
    ]
    value = kl_divergence(GeneralizedPareto(*p), GeneralizedPareto(*q))
    assert value.isinf().tolist() == [True] * 4 + [False]
    value.sum().backward()
    for side in (p, q):
        assert all(tensor.grad[:4].tolist() == [0.0] * 4 for tensor in side)
        assert all(tensor.grad.isfinite().all() and tensor.grad[4] != 0 for tensor in side)


def test_touching_upper_ends_are_nested() -> None:
    value = kl_divergence(law(0.0, 1.0, -0.5), law(0.0, 2.0, -1.0))
    assert value.item() == pytest.approx(math.log(2) - 0.5, rel=1e-12)  # noqa: F405


def test_heavy_tails_against_an_exponential() -> None:
    """E z = r/(1 − ξ), up to the edge at ξ = 1."""
    for x in (0.5, 0.95, 1 - 1e-9):
        value = kl_divergence(law(0.0, 1.0, x), law(0.0, 1.0, 0.0)).item()
        assert value == pytest.approx(1 / (1 - x) - 1 - x, rel=1e-12)


def test_error_is_small_and_said_to_be_an_estimate() -> None:
    result = kl_with_error(law(0.0, 1.0, 0.25), law(0.0, 2.0, 0.5))
    assert result.method == "integral"
    assert not result.certified
    assert 0 <= result.error.item() < 1e-10 * result.value.item()


def test_two_exponential_laws_have_slopes_to_their_concentrations() -> None:
    """KL(GP(ξ) ‖ Exp) = r/(1−ξ) − 1 − ξ − log r and ∂/∂ξ_q = r − r² at ξ_p = ξ_q = 0, r the ratio of the scales."""
    for ratio in (1 + 1e-9, 1.01, 2.0, 0.25):
        leaves = [torch.tensor(v, dtype=torch.float64, requires_grad=True) for v in (ratio, 0.0, 0.0)]
        scale, own, other = leaves
        p, q = GeneralizedPareto(0.0, scale, own), GeneralizedPareto(0.0, torch.ones_like(scale), other)
        slopes = torch.autograd.grad(kl_divergence(p, q), [own, other], create_graph=True)
        r = scale.item()
        assert slopes[0].item() == pytest.approx(r - 1, rel=1e-8)
        assert slopes[1].item() == pytest.approx(r * (1 - r), rel=1e-8)
        (second,) = torch.autograd.grad(slopes[0], own)
        assert second.item() == pytest.approx(2 * r, rel=1e-8)
