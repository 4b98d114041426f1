"""Mixtures of several families: KL against mpmath, draws against the density, what is refused."""

import math

import pytest
import torch
from torch import distributions as d

from kullback import ShapeError, kl, kl_with_error
from kullback.densities.mixed import Mixture

F64 = torch.float64


def number(value):
    return torch.tensor(value, dtype=F64)


def mixture(*parts):
    return Mixture(torch.tensor([weight for weight, _ in parts], dtype=F64), [part for _, part in parts])


def normal(loc=0.0, scale=1.0):
    return d.Normal(number(loc), number(scale))


# mpmath 1.3, 30 digits: quad of p log(p/q) over panels that end where a density jumps.
GOLDEN = [
    (mixture((0.3, normal()), (0.7, d.StudentT(number(3.0)))), d.StudentT(number(4.0)), 0.0015139332077520329),
    (mixture((0.5, d.Laplace(number(0.0), 1.0)), (0.5, d.Exponential(number(1.0)))), normal(), 0.3566033885858644),
    (normal(), mixture((0.5, d.Laplace(number(0.0), 1.0)), (0.5, d.Exponential(number(1.0)))), 0.2159342443840284),
    (
        mixture((0.5, d.Uniform(number(0.0), 1.0)), (0.5, normal(0.0, 2.0))),
        d.Cauchy(number(0.0), 1.0),
        0.371423393305661,
    ),
    (
        mixture((0.001, d.Cauchy(number(0.0), 1.0)), (0.999, normal(100.0, 0.01))),
        d.Cauchy(number(1.0), 3.0),
        12.40352439905493,
    ),
    (
        d.Uniform(number(0.0), 2.0),
        mixture((0.5, d.Uniform(number(0.0), 1.0)), (0.5, d.Exponential(number(1.0)))),
        0.5080904814896695,
    ),
    (
        mixture((0.5, d.Exponential(number(1.0))), (0.5, d.Uniform(number(0.0), 2.0))),
        d.Exponential(number(0.5)),
        0.2619034109512736,
    ),
]


@pytest.mark.parametrize(("p", "q", "truth"), GOLDEN, ids=range(len(GOLDEN)))
def test_kl_against_mpmath(p, q, truth):
    assert kl(p, q).item() == pytest.approx(truth, rel=1e-11, abs=0)


def test_counts_against_their_sum():
    p = mixture((0.3, d.Poisson(number(2.0))), (0.7, d.Geometric(number(0.4))))
    q = d.Geometric(number(0.35))
    k = torch.arange(400, dtype=F64)
    log_p, log_q = p.log_prob(k), q.log_prob(k)
    result = kl_with_error(p, q)
    assert result.method == "series"
    assert result.value.item() == pytest.approx((log_p.exp() * (log_p - log_q)).sum().item(), rel=1e-10, abs=0)


def test_infinite_and_zero():
    p = mixture((0.5, d.Exponential(number(1.0))), (0.5, normal()))
    assert kl(p, d.Exponential(number(1.0))).item() == math.inf
    assert kl(mixture((0.1, d.Cauchy(number(0.0), 1.0)), (0.9, normal())), normal()).item() == math.inf
    assert kl(p, p).item() == 0


def test_a_batch_and_its_gradient():
    loc = torch.tensor([0.0, 1.0], dtype=F64, requires_grad=True)
    p = mixture((0.5, d.Normal(loc, 1.0)), (0.5, d.Laplace(number(0.0), 1.0)))
    q = d.StudentT(number(5.0))
    value = kl(p, q)
    assert value.shape == (2,)
    (slope,) = torch.autograd.grad(value.sum(), loc)
    step = 1e-5
    for at in range(2):
        ends = [
            kl(mixture((0.5, normal(loc[at].item() + h, 1.0)), (0.5, d.Laplace(number(0.0), 1.0))), q).item()
            for h in (-step, step)
        ]
        assert slope[at].item() == pytest.approx((ends[1] - ends[0]) / (2 * step), rel=1e-6, abs=1e-9)


def test_draws_have_the_density():
    p = mixture((0.25, d.Exponential(number(1.0))), (0.75, normal(-3.0, 1.0)))
    torch.manual_seed(0)
    drawn = p.sample((20_000,))
    assert (drawn > 0).double().mean().item() == pytest.approx(0.25 + 0.75 * 0.00135, abs=0.01)
    assert bool(p.support.check(drawn).all())
    x = torch.linspace(-12, 40, 200_001, dtype=F64)
    assert torch.trapezoid(p.log_prob(x).exp(), x).item() == pytest.approx(1, abs=1e-4)


def test_what_is_refused():
    with pytest.raises(ShapeError, match="univariate"):
        mixture((0.5, normal()), (0.5, d.Dirichlet(torch.ones(3, dtype=F64))))
    with pytest.raises(ValueError, match="mass functions"):
        mixture((0.5, normal()), (0.5, d.Poisson(number(1.0))))
