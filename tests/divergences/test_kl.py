"""KL of univariate distributions by the engine: cases that were wrong once, batches, derivatives, transforms."""

from __future__ import annotations

import math

import pytest
import torch
from torch import distributions as d
from torch.distributions.relaxed_bernoulli import LogitRelaxedBernoulli

import kullback as kb
from kullback.divergences.kl import integral


def t(*values: float) -> torch.Tensor:
    return torch.tensor(values if len(values) > 1 else values[0], dtype=torch.float64)


WRONG_ONCE = [
    (d.Kumaraswamy(t(54.0), t(0.08)), d.Beta(t(0.57), t(0.056)), 0.264587542397448),
    (d.Chi2(t(0.0021)), d.FisherSnedecor(t(0.00136), t(0.44)), 0.0877471749092485507),
    (
        d.FisherSnedecor(t(26.913326892080608), t(0.3765631018177442)),
        d.TransformedDistribution(
            d.Cauchy(t(-0.506462962760874), t(0.15649911622426285)), d.transforms.SoftplusTransform()
        ),
        4.09344085493149,
    ),
    (d.Pareto(t(1.0158), t(18.73)), LogitRelaxedBernoulli(t(250.0), logits=t(0.3)), 264.312779885309627),
]


@pytest.mark.parametrize(("p", "q", "want"), WRONG_ONCE)
def test_wrong_once(p: d.Distribution, q: d.Distribution, want: float) -> None:
    assert integral(p, q)[0].item() == pytest.approx(want, rel=1e-11)


def test_an_element_does_not_depend_on_its_batch() -> None:
    p = d.Kumaraswamy(t(54.0, 3.6), t(0.08, 1.2))
    q = d.Beta(t(0.57, 0.6), t(0.056, 30.0))
    together = integral(p, q)[0]
    alone = integral(d.Kumaraswamy(t(54.0), t(0.08)), d.Beta(t(0.57), t(0.056)))[0]
    assert together[0].item() == pytest.approx(alone.item(), rel=1e-14)
    assert alone.item() == pytest.approx(0.264587542397448, rel=1e-12)


def pairs() -> list[tuple[type, tuple[float, ...], type, tuple[float, ...]]]:
    return [
        (d.Gamma, (2.0, 1.5), d.LogNormal, (0.1, 0.7)),
        (d.Laplace, (0.3, 0.8), d.StudentT, (3.0, -0.2, 1.1)),
        (d.Beta, (0.4, 2.0), d.Kumaraswamy, (0.7, 1.5)),
        (d.Normal, (0.3, 0.9), d.Laplace, (0.1, 1.3)),
        (d.Poisson, (3.5,), d.NegativeBinomial, (2.5, 0.6)),
        (d.Binomial, (20.0, 0.3), d.Poisson, (6.5,)),
        (d.GeneralizedPareto, (0.1, 1.0, -0.3), d.Exponential, (0.8,)),
    ]


@pytest.mark.parametrize(("p", "of_p", "q", "of_q"), pairs())
def test_eager_vmap_and_derivatives_agree(p: type, of_p: tuple[float, ...], q: type, of_q: tuple[float, ...]) -> None:
    count = len(of_p)

    def value(*parameters: torch.Tensor) -> torch.Tensor:
        return integral(p(*parameters[:count], validate_args=False), q(*parameters[count:], validate_args=False))[0]

    point = [t(x) for x in (*of_p, *of_q)]
    fixed = 1 if p is d.Binomial else 0  # the number of trials
    many = [x.expand(3) if i < fixed else torch.stack([x, 1.01 * x, 0.97 * x]) for i, x in enumerate(point)]
    torch.testing.assert_close(torch.vmap(value)(*many), value(*many), rtol=1e-10, atol=0)
    index = tuple(range(fixed, len(point)))
    first = torch.func.grad(value, argnums=index)(*point)
    leaves = [x.clone().requires_grad_() for x in point]
    eager = torch.autograd.grad(value(*leaves), [leaves[i] for i in index])
    for i, a, b in zip(index, first, eager, strict=True):
        step = 1e-5 * max(abs(point[i].item()), 0.1)
        up, down = ([x + s if j == i else x for j, x in enumerate(point)] for s in (step, -step))
        numeric = (value(*up) - value(*down)) / (2 * step)
        assert a.item() == pytest.approx(b.item(), rel=1e-9, abs=1e-12)
        assert b.item() == pytest.approx(numeric.item(), rel=1e-6, abs=1e-8)


def test_second_derivative_at_a_kink() -> None:
    """KL(Laplace(0, 1) ‖ Laplace(m, 1)) = |m| + e^(−|m|) − 1, whose second derivative is e^(−|m|)."""

    def value(m: torch.Tensor) -> torch.Tensor:
        return integral(d.Laplace(t(0.0), t(1.0)), d.Laplace(m, t(1.0), validate_args=False))[0]

    found = torch.func.hessian(value)(t(0.7))
    assert found.item() == pytest.approx(math.exp(-0.7), rel=1e-9)


def test_large_batches_go_in_chunks() -> None:
    a = torch.linspace(0.3, 5.0, 600, dtype=torch.float64).requires_grad_()
    value = integral(d.Gamma(a, t(1.5)), d.LogNormal(t(0.1), t(0.7)))[0]
    (gradient,) = torch.autograd.grad(value.sum(), a)
    few = a.detach()[590:].requires_grad_()
    part = integral(d.Gamma(few, t(1.5)), d.LogNormal(t(0.1), t(0.7)))[0]
    torch.testing.assert_close(part, value[590:], rtol=1e-14, atol=0)
    torch.testing.assert_close(torch.autograd.grad(part.sum(), few)[0], gradient[590:], rtol=1e-12, atol=0)


def test_derivatives_beyond_an_end_inside_the_other_support() -> None:
    """e^Gamma starts at 1, where a FisherSnedecor density goes on; its derivatives there were 0 once."""
    leaves = [t(x).requires_grad_() for x in (1.5, 2.5, 3.0, 4.0)]

    def kl(*x: torch.Tensor) -> torch.Tensor:
        p = d.TransformedDistribution(d.Gamma(*x[:2]), d.transforms.ExpTransform())
        return integral(p, d.FisherSnedecor(*x[2:]))[0]

    found = torch.autograd.grad(kl(*leaves), leaves)
    for i, gradient in enumerate(found):
        step = torch.zeros(4, dtype=torch.float64)
        step[i] = 1e-5
        moved = [kl(*(leaf.detach() + sign * h for leaf, h in zip(leaves, step, strict=True))) for sign in (1, -1)]
        assert gradient.item() == pytest.approx(((moved[0] - moved[1]) / 2e-5).item(), rel=1e-7)


def test_derivatives_of_a_tail_that_reaches_beyond_all_numbers() -> None:
    """They were NaN once: a series for small ξt was evaluated at large ones, too."""
    leaves = [t(x).requires_grad_() for x in (2e-6, 1057.0, 0.424, 5.68, 7.5e-5, 165589.0)]
    value = integral(d.GeneralizedPareto(*leaves[:3], validate_args=False), d.StudentT(*leaves[3:]))[0]
    assert all(bool(g.isfinite()) and g != 0 for g in torch.autograd.grad(value, leaves))


def test_an_element_beyond_all_numbers_leaves_the_derivatives_of_the_others() -> None:
    leaves = [t(*x).requires_grad_() for x in ((1e-6, 2.0), (800.0, 0.3), (3.0, 3.0), (310.0, -0.2))]
    parts = (d.NegativeBinomial(n, logits=logits) for n, logits in (leaves[:2], leaves[2:]))
    value = integral(*parts)[0]
    found = torch.autograd.grad(value.sum(), leaves)
    assert all(bool(gradient.isfinite().all()) and gradient[1] != 0 for gradient in found)


def test_derivatives_of_total_variation_at_a_pole_inside_the_other_support() -> None:
    """From mpmath: the difference of the densities where they cross."""
    leaves = [t(x).requires_grad_() for x in (1.4340177077615803e-05, 6.010858546664227e-06, 397.5578633670619)]
    p, q = d.Cauchy(*leaves[:2]), d.Weibull(leaves[2], t(0.48883498054874275))
    found = torch.autograd.grad(kb.total_variation(p, q), leaves[:2])
    assert [g.item() for g in found] == pytest.approx([-0.66576148973865, -190.285416924167], rel=1e-8)


@pytest.mark.parametrize("divergence", [kb.js, kb.total_variation, kb.hellinger], ids=lambda f: f.__name__)
def test_derivatives_where_the_other_density_has_no_logarithm(divergence) -> None:
    """Points beyond 1 are asked for Kumaraswamy's density."""
    leaves = [t(x).requires_grad_() for x in (0.3, 0.7, 2.0, 3.0)]
    value = divergence(d.LogNormal(*leaves[:2]), d.Kumaraswamy(*leaves[2:]))
    assert all(bool(g.isfinite()) and g != 0 for g in torch.autograd.grad(value, leaves))
