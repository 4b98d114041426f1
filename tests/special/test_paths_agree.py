"""The native kernels and the pure-torch references agree at special floats, beside one another too."""

import itertools
import math

import pytest
import torch

from kullback.kernels import special as kernels

INF, NAN = math.inf, math.nan
SPECIAL = [-INF, -1e308, -2.5, -1.0, -5e-324, -0.0, 0.0, 1e-310, 1e-20, 0.5, 1.0, 2.0, 30.0, 1e155, 1e308, INF, NAN]
FUNCTIONS = [
    kernels.expm1mx,
    kernels.log1pmx,
    kernels.log1mexp,
    kernels.logdiffexp,
    kernels.rel_entr,
    kernels.kl_div,
    kernels.digamma,
    kernels.trigamma,
    kernels.lgamma_bregman,
    *kernels.binet,
    kernels.binet_bregman,
    kernels.log_ndtr,
    kernels.log_ndtr_diff,
    kernels.log_iv,
    kernels.log_ive,
    kernels.bessel_ratio,
]


def value_and_gradients(function, arguments, constants):
    leaves = [a.clone().requires_grad_(i >= constants) for i, a in enumerate(arguments)]
    value = function(*leaves)
    return value.detach(), *torch.autograd.grad(value, leaves[constants:], torch.ones_like(value))


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda function: function.name)
def test_native_and_reference_agree_at_special_floats(function):
    points = list(itertools.product(SPECIAL, repeat=len(function.arguments)))
    arguments = [torch.tensor(column, dtype=torch.float64) for column in zip(*points, strict=True)]
    native = value_and_gradients(function, arguments, function.constants)
    reference = value_and_gradients(function.reference, arguments, function.constants)
    for got, want in zip(native, reference, strict=True):
        torch.testing.assert_close(got, want, rtol=1e-14, atol=0, equal_nan=True)


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda function: function.name)
def test_an_infinite_argument_has_no_gradient(function):
    """Whatever stands beside it, a NaN too."""
    points = list(itertools.product(SPECIAL, repeat=len(function.arguments)))
    arguments = [torch.tensor(column, dtype=torch.float64) for column in zip(*points, strict=True)]
    _, *gradients = value_and_gradients(function, arguments, function.constants)
    for argument, gradient in zip(arguments[function.constants :], gradients, strict=True):
        assert (gradient[argument.isinf()] == 0).all()
