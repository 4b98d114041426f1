"""Value and slopes of many elements in one pass: the same as one after the other, whatever gradient comes in."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor
from torch.distributions import Bernoulli as TorchBernoulli
from torch.distributions import Beta, Distribution, Gamma, Normal, Poisson

from kullback import kl_divergence
from kullback.kernels import status

pytestmark = pytest.mark.skipif(status().implementation != "native", reason="the pass is native")
COUNT = 5000
Make = Callable[..., Distribution]


def bernoulli(name: str) -> Make:
    return lambda t: TorchBernoulli(**{name: t}, validate_args=False)


MAKERS: dict[str, tuple[Make, int]] = {
    "normal": (Normal, 2),
    "gamma": (Gamma, 2),
    "beta": (Beta, 2),
    "poisson": (Poisson, 1),
    "probs": (bernoulli("probs"), 1),
    "logits": (bernoulli("logits"), 1),
}
INCOMING: dict[str, Callable[[Tensor], Tensor]] = {
    "sum": lambda v: v.sum(),
    "mean": lambda v: v.mean(),
    "dense": lambda v: (v * torch.linspace(-1, 1, v.numel()).to(v.dtype)).sum(),
}


def parameters(count: int, arity: int, dtype: torch.dtype, *, seed: int = 0) -> list[Tensor]:
    generator = torch.Generator().manual_seed(seed)
    # Below 1 for probabilities, below 0.22 now and then: the rare case of Gamma and Beta.
    return [
        (0.05 + 0.9 * torch.rand(count, generator=generator, dtype=torch.float64)).to(dtype).requires_grad_()
        for _ in range(2 * arity)
    ]


def gradients(make: Make, arity: int, given: list[Tensor], reduce: Callable[[Tensor], Tensor]) -> tuple[Tensor, ...]:
    value = kl_divergence(make(*given[:arity]), make(*given[arity:]))
    return torch.autograd.grad(reduce(value), given)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("incoming", INCOMING)
@pytest.mark.parametrize("name", MAKERS)
def test_gradients_are_those_of_the_reference(name: str, incoming: str, dtype: torch.dtype) -> None:
    make, arity = MAKERS[name]
    given = parameters(COUNT, arity, dtype)
    reduce = INCOMING[incoming]
    found = gradients(make, arity, given, reduce)

    def of_wide(*wide: Tensor) -> Tensor:
        return reduce(kl_divergence(make(*wide[:arity]), make(*wide[arity:])))

    exact = torch.func.grad(of_wide, argnums=tuple(range(2 * arity)))(*(t.detach().double() for t in given))
    tolerance = 1e-6 if dtype is torch.float32 else 1e-10
    for one, other in zip(found, exact, strict=True):
        torch.testing.assert_close(one.double(), other, rtol=tolerance, atol=1e-12 / COUNT)


def test_values_do_not_depend_on_a_gradient_being_wanted() -> None:
    for make, arity in MAKERS.values():
        given = parameters(COUNT, arity, torch.float32)
        with torch.no_grad():
            plain = kl_divergence(make(*given[:arity]), make(*given[arity:]))
        recorded = kl_divergence(make(*given[:arity]), make(*given[arity:]))
        torch.testing.assert_close(recorded.detach(), plain, rtol=2e-7, atol=0.0)


def test_a_second_pass_through_the_graph_does_not_see_what_became_of_the_first() -> None:
    rates = parameters(COUNT, 1, torch.float32)
    value = kl_divergence(Poisson(rates[0]), Poisson(rates[1]))
    first = torch.autograd.grad(value.sum(), rates, retain_graph=True)
    copies = [g.clone() for g in first]
    for g in first:
        g.mul_(0)
    second = torch.autograd.grad(value.sum(), rates)
    for one, other in zip(second, copies, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-6, atol=0.0)


def test_a_slope_out_of_range_is_scaled_before_it_is_rounded() -> None:
    """(μ_p − μ_q)/σ² is 4e39, out of the range of float32, and KL is 2e38; a gradient of 1e-20 brings it back."""
    loc = torch.full((COUNT,), 0.1, requires_grad=True)
    scale = torch.full((COUNT,), 5e-21)
    value = kl_divergence(Normal(loc, scale), Normal(torch.zeros(COUNT), scale))
    assert value.isfinite().all()
    (found,) = torch.autograd.grad(value, loc, torch.full((COUNT,), 1e-20))
    torch.testing.assert_close(found.double(), torch.full((COUNT,), 4e19, dtype=torch.float64), rtol=1e-6, atol=0.0)


def test_a_parameter_that_is_broadcast_receives_the_sum() -> None:
    rates = parameters(COUNT, 1, torch.float64)
    one = torch.tensor(0.7, dtype=torch.float64, requires_grad=True)
    (found,) = torch.autograd.grad(kl_divergence(Poisson(rates[0]), Poisson(one)).sum(), one)
    torch.testing.assert_close(found, (1 - rates[0] / one).sum().detach())


def test_second_derivatives() -> None:
    rates = parameters(COUNT, 1, torch.float64)
    value = kl_divergence(Poisson(rates[0]), Poisson(rates[1]))
    (slope,) = torch.autograd.grad(value.sum(), rates[1], create_graph=True)
    (curvature,) = torch.autograd.grad(slope.sum(), rates[1])
    torch.testing.assert_close(curvature, (rates[0] / rates[1] ** 2).detach())
