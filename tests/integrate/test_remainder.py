"""Expectations next to a critical tail index, against moments that mpmath knows in closed form."""

from __future__ import annotations

from collections.abc import Callable

import mpmath as mp
import pytest
import torch
from torch import distributions as d

from kullback.divergences.kl import integral


def t(value: float) -> torch.Tensor:
    return torch.tensor(value, dtype=torch.float64, requires_grad=True)


def pareto_to_gamma(alpha: mp.mpf) -> mp.mpf:
    s, b, rate = mp.mpf(1.3), mp.mpf(2.5), mp.mpf(0.7)
    log_x = mp.log(s) + 1 / alpha
    log_p = mp.log(alpha) + alpha * mp.log(s) - (alpha + 1) * log_x
    return log_p - (b * mp.log(rate) - mp.loggamma(b) + (b - 1) * log_x - rate * alpha * s / (alpha - 1))


def student_entropy(df: mp.mpf) -> mp.mpf:
    a = (df + 1) / 2
    return a * (mp.digamma(a) - mp.digamma(df / 2)) + mp.log(mp.sqrt(df) * mp.beta(df / 2, mp.mpf(0.5)))


def student_to_normal(df: mp.mpf) -> mp.mpf:
    sigma, offset = mp.mpf(2.5), mp.mpf(0.7)
    squares = (df / (df - 2) + offset**2) / (2 * sigma**2)
    return -student_entropy(df) + mp.log(sigma * mp.sqrt(2 * mp.pi)) + squares


def student_to_laplace(df: mp.mpf) -> mp.mpf:
    mean_size = 2 * mp.sqrt(df) / (df - 1) / mp.beta(df / 2, mp.mpf(0.5))
    return -student_entropy(df) + mp.log(5) + mean_size / mp.mpf(2.5)


def gamma_to_inverse_gamma(a: mp.mpf) -> mp.mpf:
    rate, b, c = mp.mpf(1.7), mp.mpf(2.5), mp.mpf(0.6)
    log_x = mp.digamma(a) - mp.log(rate)
    entropy = a - mp.log(rate) + mp.loggamma(a) + (1 - a) * mp.digamma(a)
    return -entropy - (b * mp.log(c) - mp.loggamma(b) - (b + 1) * log_x - c * rate / (a - 1))


def generalized_pareto_to_exponential(xi: mp.mpf) -> mp.mpf:
    scale, rate = mp.mpf(2), mp.mpf(0.3)
    return -(mp.log(scale) + xi + 1) - mp.log(rate) + rate * scale / (1 - xi)


CASES: dict[str, tuple[Callable, Callable, Callable]] = {
    "Pareto ‖ Gamma": (
        lambda gap: 1 + gap,
        pareto_to_gamma,
        lambda a: (d.Pareto(t(1.3), a), d.Gamma(t(2.5), t(0.7))),
    ),
    "StudentT ‖ Normal": (
        lambda gap: 2 + gap,
        student_to_normal,
        lambda df: (d.StudentT(df, t(1.2), t(1.0)), d.Normal(t(0.5), t(2.5))),
    ),
    "StudentT ‖ Laplace": (
        lambda gap: 1 + gap,
        student_to_laplace,
        lambda df: (d.StudentT(df, t(0.5), t(1.0)), d.Laplace(t(0.5), t(2.5))),
    ),
    "Gamma ‖ InverseGamma": (
        lambda gap: 1 + gap,
        gamma_to_inverse_gamma,
        lambda a: (d.Gamma(a, t(1.7)), d.InverseGamma(t(2.5), t(0.6))),
    ),
    "GeneralizedPareto ‖ Exponential": (
        lambda gap: 1 / (1 + gap),
        generalized_pareto_to_exponential,
        lambda xi: (d.GeneralizedPareto(t(0.0), t(2.0), xi), d.Exponential(t(0.3))),
    ),
}


@pytest.mark.parametrize("gap", [0.1, 0.01, 0.001, 1e-5])
@pytest.mark.parametrize("name", CASES)
def test_value_error_and_slope(name: str, gap: float) -> None:
    of_gap, truth, pair = CASES[name]
    if name.startswith("Generalized") and not hasattr(d, "GeneralizedPareto"):
        pytest.skip("this torch has no GeneralizedPareto")
    index = t(of_gap(gap))
    value, error = integral(*pair(index))
    (slope,) = torch.autograd.grad(value, index)
    with mp.workdps(30):
        at = mp.mpf(index.item())
        want, want_slope = float(truth(at)), float(mp.diff(truth, at))
    assert value.item() == pytest.approx(want, rel=1e-11)
    assert error.item() < 1e-9 * want
    assert slope.item() == pytest.approx(want_slope, rel=1e-10)


def test_under_vmap() -> None:
    def kl(alpha: torch.Tensor) -> torch.Tensor:
        p, q = d.Pareto(t(1.3), alpha, validate_args=False), d.Gamma(t(2.5), t(0.7), validate_args=False)
        return integral(p, q)[0]

    found = torch.vmap(kl)(torch.tensor([1.5, 1.001, 1.0], dtype=torch.float64))
    want = [float(pareto_to_gamma(mp.mpf(1.5))), float(pareto_to_gamma(mp.mpf(1.001))), float("inf")]
    assert found.tolist() == pytest.approx(want, rel=1e-11)


def test_turned_by_a_map() -> None:
    """KL(−X ‖ Laplace(m)) = KL(X ‖ Laplace(−m)), alone and beside an element that is not turned."""
    sign, q = torch.tensor([-1.0, 1.0], dtype=torch.float64), d.Laplace(t(0.3), t(1.2))
    pareto = d.Pareto(t(1.5), t(1.001))
    want = [integral(pareto, d.Laplace(s * 0.3, t(1.2)))[0].item() for s in sign]
    both = d.TransformedDistribution(pareto.expand([2]), [d.AffineTransform(t(0.0), sign)])
    turned = d.TransformedDistribution(pareto, [d.AffineTransform(t(0.0), t(-1.0))])
    assert integral(both, q)[0].tolist() == pytest.approx(want, rel=1e-11)
    assert integral(turned, q)[0].item() == pytest.approx(want[0], rel=1e-11)
