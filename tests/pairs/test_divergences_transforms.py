"""Derivatives, vmap and compile of the divergences: one representative per route."""

from __future__ import annotations

import functools
import math

import pytest
import torch
from torch import Tensor
from torch import distributions as d

import kullback as kb


def _two_normals(loc: Tensor, scale: Tensor, **options: bool) -> d.Distribution:
    parts = d.Normal(torch.stack([loc, -loc], -1), torch.stack([scale, 2 * scale], -1), **options)
    return d.MixtureSameFamily(d.Categorical(torch.ones_like(parts.loc), **options), parts, **options)


ROUTES = {
    "integral js": (kb.js, d.Gamma, d.LogNormal, (2.0, 3.0, -0.5, 0.7)),
    "integral js, close": (kb.js, d.Normal, d.Normal, (0.4, 1.3, 0.4004, 1.2996)),
    "corners": (kb.total_variation, d.Normal, d.Normal, (0.0, 1.0, 1.0, 3.0)),
    "integral renyi": (functools.partial(kb.renyi, alpha=0.7), d.Weibull, d.Gamma, (1.1, 1.7, 1.5, 1.2)),
    "integral renyi, far": (functools.partial(kb.renyi, alpha=0.7), d.Laplace, d.Normal, (0.0, 1.0, 9.0, 1.5)),
    "distribution between": (kb.chi2, d.Gamma, d.Gamma, (2.0, 3.0, 2.5, 2.7)),
    "moving ends": (kb.js, d.Uniform, d.Uniform, (0.0, 1.0, 0.3, 1.7)),
    "reaching beyond": (kb.js, d.Laplace, d.InverseGamma, (0.1, 0.7, 2.5, 1.0)),
    "reaching beyond, renyi": (functools.partial(kb.renyi, alpha=0.7), d.LogNormal, d.Cauchy, (-2.0, 1.0, 0.3, 1.2)),
    "outcomes": (kb.hellinger, d.Bernoulli, d.Bernoulli, (0.3, 0.6)),
    "counts": (kb.js, d.Poisson, d.Geometric, (2.0, 0.4)),
    "entropy": (lambda p, q: kb.entropy(p) + 0 * kb.entropy(q), d.StudentT, d.StudentT, (3.0, 0.1, 1.2, 4.0, 0.0, 1.0)),
    "mixture": (kb.kl, _two_normals, d.Cauchy, (0.4, 0.8, 2.2, 1.3)),
    "cross-entropy": (kb.cross_entropy, d.Normal, d.Laplace, (0.0, 1.0, 0.5, 2.0)),
}
routes = pytest.mark.parametrize("route", ROUTES)


def function_of(route: str) -> tuple[torch.types.Any, tuple[Tensor, ...]]:
    divergence, make_p, make_q, values = ROUTES[route]
    half = len(values) // 2

    def f(*parameters: Tensor) -> Tensor:
        p = make_p(*parameters[:half], validate_args=False)
        return divergence(p, make_q(*parameters[half:], validate_args=False))

    return f, tuple(torch.tensor(v, dtype=torch.float64) for v in values)


def slopes(f, at: tuple[Tensor, ...], step: float) -> list[float]:
    """Central differences of fourth order."""
    found = []
    for i in range(len(at)):

        def shifted(h: float, i: int = i) -> float:
            return f(*(x + h * (j == i) for j, x in enumerate(at))).item()

        found.append((8 * (shifted(step) - shifted(-step)) - shifted(2 * step) + shifted(-2 * step)) / (12 * step))
    return found


@routes
@pytest.mark.sample(2)
def test_gradients(route: str) -> None:
    f, at = function_of(route)
    variables = tuple(x.clone().requires_grad_() for x in at)
    got = torch.autograd.grad(f(*variables), variables, allow_unused=True, materialize_grads=True)
    step = 1e-5 if "close" in route else 1e-3
    want = slopes(f, at, step)
    size = max(map(abs, want))
    for g, w in zip(got, want, strict=True):
        assert g.item() == pytest.approx(w, rel=1e-7, abs=1e-7 * size)


@routes
@pytest.mark.sample(2)
def test_second_derivatives(route: str) -> None:
    f, at = function_of(route)
    hessian = torch.autograd.functional.hessian(f, at)

    def gradient(*parameters: Tensor) -> Tensor:
        variables = tuple(x.clone().requires_grad_() for x in parameters)
        return torch.stack(torch.autograd.grad(f(*variables), variables, allow_unused=True, materialize_grads=True))

    step = 1e-4
    for i in range(len(at)):
        up, down = (gradient(*(x + s * step * (j == i) for j, x in enumerate(at))) for s in (1, -1))
        want = (up - down) / (2 * step)
        got = torch.stack([hessian[j][i] for j in range(len(at))])
        assert torch.allclose(got, want, rtol=1e-4, atol=1e-5 * max(1.0, want.abs().max().item())), (got, want)


@routes
@pytest.mark.sample(2)
def test_transforms_agree_with_eager(route: str) -> None:
    f, at = function_of(route)
    batch = tuple(torch.stack([x, x * 1.01]) for x in at)
    one_by_one = torch.stack([f(*(x[i] for x in batch)) for i in range(2)])
    assert torch.allclose(torch.func.vmap(f)(*batch), one_by_one, rtol=1e-8, atol=0)
    assert torch.allclose(f(*batch), one_by_one, rtol=1e-12, atol=0)
    arguments = tuple(range(len(at)))
    reverse = torch.stack(torch.func.grad(f, argnums=arguments)(*at))
    tangents = tuple(torch.ones_like(x) for x in at)
    _, forward = torch.func.jvp(f, at, tangents)
    assert forward.item() == pytest.approx(reverse.sum().item(), rel=1e-8, abs=1e-10)


# Dynamo takes a minute to follow the search for crossings, or integrals over both densities, each in its coordinate.
SLOW_TO_TRACE = [pytest.param(route, marks=pytest.mark.slow) for route in ("corners", "integral js", "integral renyi")]


@pytest.mark.parametrize("route", ["outcomes", "distribution between", *SLOW_TO_TRACE])
@pytest.mark.slow
def test_compiles(route: str) -> None:
    f, at = function_of(route)
    torch._dynamo.reset()
    compiled = torch.compile(f, fullgraph=True, backend="aot_eager")
    assert compiled(*at).item() == pytest.approx(f(*at).item(), rel=1e-10)


def test_infinite_elements_have_no_gradient() -> None:
    scale = torch.tensor([1.0, 2.0], dtype=torch.float64, requires_grad=True)
    for divergence in (kb.chi2, functools.partial(kb.renyi, alpha=1.5)):
        value = divergence(d.Laplace(0.0, scale), d.Normal(torch.zeros(2, dtype=torch.float64), 1.0))
        assert value.isinf().all()
        (gradient,) = torch.autograd.grad(value.sum(), scale)
        assert gradient.tolist() == [0.0, 0.0]


def test_infinite_cross_entropies_have_no_gradient() -> None:
    """Not that of the entropy in it; finite elements beside them have theirs."""
    scale = torch.tensor([1.0, 3.0], dtype=torch.float64, requires_grad=True)
    df = torch.tensor([0.5, 1.5], dtype=torch.float64, requires_grad=True)
    value = kb.cross_entropy(d.StudentT(df, 0.0, scale), d.Laplace(torch.zeros(2, dtype=torch.float64), 1.0))
    assert value.isinf().tolist() == [True, False]
    gradients = torch.autograd.grad(value.sum(), (scale, df))
    assert [g[0].item() for g in gradients] == [0.0, 0.0]
    assert all(g[1].item() != 0 and g[1].isfinite() for g in gradients)


def test_distances_have_no_gradient_at_equality() -> None:
    loc = torch.tensor(0.3, dtype=torch.float64, requires_grad=True)
    fixed = d.Normal(torch.tensor(0.3, dtype=torch.float64), 1.0)
    for divergence in (kb.js, functools.partial(kb.js_distance, base=2), kb.hellinger, kb.chi2, kb.total_variation):
        value = divergence(d.Normal(loc, 1.0), fixed)
        assert value.item() == 0.0
        (gradient,) = torch.autograd.grad(value, loc)
        assert math.isfinite(gradient.item())
        assert abs(gradient.item()) < 1e-12


@pytest.mark.skipif(not hasattr(d, "GeneralizedPareto"), reason="newer than this torch")
def test_gradients_against_an_end_at_infinity() -> None:
    """Of Rényi's divergence to the parameters of the other distribution, by differences."""

    def f(*given: Tensor) -> Tensor:
        return kb.renyi(d.GeneralizedPareto(*given[:3]), d.InverseGamma(*given[3:]), alpha=0.7)

    at = tuple(torch.tensor(v, dtype=torch.float64) for v in (0.7, 0.15, 0.34, 29.0, 0.4))
    variables = tuple(x.clone().requires_grad_() for x in at)
    got = torch.autograd.grad(f(*variables), variables)
    assert [g.item() for g in got] == pytest.approx(slopes(f, at, 1e-4), rel=1e-6)
