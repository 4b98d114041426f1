"""Every transform sees the derivative formulas."""

import pytest
import torch
from torch.autograd import forward_ad
from torch.func import grad, hessian, jacfwd, jacrev, jvp, vmap

from kullback import special

# Forward mode makes torch import its own scripted decompositions, which it warns about itself.
pytestmark = [
    pytest.mark.filterwarnings("ignore:`torch.jit.script:FutureWarning"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
]


def _bessel(name):
    return lambda x: getattr(special, name)(1.5, x)


FUNCTIONS = {
    "expm1mx": (special.expm1mx, [0.3]),
    "log1pmx": (special.log1pmx, [0.3]),
    "log1mexp": (special.log1mexp, [-0.3]),
    "logdiffexp": (special.logdiffexp, [1.3, 0.4]),
    "rel_entr": (special.rel_entr, [0.3, 0.4]),
    "kl_div": (special.kl_div, [0.3, 0.4]),
    "digamma": (special.digamma, [1.7]),
    "trigamma": (special.trigamma, [1.7]),
    "binet": (special.binet, [1.7]),
    "lgamma_bregman": (special.lgamma_bregman, [1.7, 2.9]),
    "multivariate": (lambda a, b: special.multivariate_lgamma_bregman(a, b, 2), [1.7, 2.9]),
    "binet_bregman": (special.binet_bregman, [1.7, 2.9]),
    "log_ndtr": (special.log_ndtr, [-1.2]),
    "log_ndtr_diff": (special.log_ndtr_diff, [-1.2, 0.7]),
    "log_iv": (_bessel("log_iv"), [2.2]),
    "log_ive": (_bessel("log_ive"), [2.2]),
    "bessel_ratio": (_bessel("bessel_ratio"), [2.2]),
}
EACH = pytest.mark.parametrize("name", FUNCTIONS)


def packed(name):
    """The function of one vector of its arguments, and a point."""
    function, point = FUNCTIONS[name]
    return lambda v: function(*v.unbind(-1)), torch.tensor(point, dtype=torch.float64)


def truth(name):
    """Gradient and Hessian by plain double backward, which the accuracy tests compare with mpmath."""
    function, point = packed(name)
    point = point.requires_grad_()
    (slope,) = torch.autograd.grad(function(point), point, create_graph=True)
    rows = [torch.autograd.grad(s, point, retain_graph=True)[0] for s in slope]
    return slope.detach(), torch.stack(rows)


@EACH
@pytest.mark.sample(3)
def test_functional_derivatives(name):
    function, point = packed(name)
    slope, curvature = truth(name)
    direction = torch.linspace(0.5, 1.0, len(point), dtype=torch.float64)
    close = lambda got, want: torch.testing.assert_close(got, want, rtol=1e-14, atol=1e-15)  # noqa: E731
    close(grad(function)(point), slope)
    close(jacfwd(function)(point), slope)
    close(jvp(function, (point,), (direction,))[1], slope @ direction)
    close(hessian(function)(point), curvature)
    close(jacfwd(jacrev(function))(point), curvature)
    close(jacrev(jacfwd(function))(point), curvature)
    close(jacrev(jacrev(function))(point), curvature)
    close(jvp(grad(function), (point,), (direction,))[1], curvature @ direction)
    batch = torch.stack([point, point * 1.01, point * 0.99])
    close(vmap(function)(batch), torch.stack([function(v) for v in batch]))
    close(vmap(grad(function))(batch)[0], slope)
    close(vmap(hessian(function))(batch)[0], curvature)
    with torch.no_grad():
        close(grad(function)(point), slope)


@EACH
def test_forward_mode_over_reverse_mode(name):
    function, point = packed(name)
    _, curvature = truth(name)
    tangent = torch.ones_like(point)
    with forward_ad.dual_level():
        dual = forward_ad.make_dual(point.clone().requires_grad_(), tangent)
        (slope,) = torch.autograd.grad(function(dual), dual, create_graph=True)
        torch.testing.assert_close(forward_ad.unpack_dual(slope).tangent, curvature @ tangent, rtol=1e-14, atol=1e-15)


@EACH
@pytest.mark.sample(4)
def test_compiles_without_breaks(name):
    torch._dynamo.reset()
    function, point = packed(name)
    compiled = torch.compile(function, fullgraph=True, backend="eager")
    torch.testing.assert_close(compiled(point), function(point), rtol=1e-15, atol=0)


@pytest.mark.parametrize("name", ["log1mexp", "kl_div", "log_ndtr_diff"])
def test_compiled_gradients(name):
    torch._dynamo.reset()
    function, point = packed(name)
    compiled = torch.compile(function, fullgraph=True, backend="aot_eager")
    eager_point, point = point.clone().requires_grad_(), point.requires_grad_()
    (slope,) = torch.autograd.grad(compiled(point), point)
    (eager_slope,) = torch.autograd.grad(function(eager_point), eager_point)
    torch.testing.assert_close(slope, eager_slope, rtol=1e-14, atol=1e-15)


def test_inductor():
    x = torch.tensor([-1e-12, -0.5, -3.0], dtype=torch.float64)
    compiled = torch.compile(special.log1mexp, fullgraph=True)
    torch.testing.assert_close(compiled(x), special.log1mexp(x), rtol=1e-15, atol=0)


@EACH
def test_gradcheck(name):
    """Finite differences agree, so value and derivative belong to the same function."""
    function, point = packed(name)
    assert torch.autograd.gradcheck(function, point.requires_grad_(), eps=1e-6, atol=1e-7)


def test_derivative_to_the_order_is_infinite_in_forward_mode():
    x, nu = torch.tensor(2.0, dtype=torch.float64), torch.tensor(1.5, dtype=torch.float64)
    assert torch.isinf(jvp(lambda n: special.log_iv(n, x), (nu,), (torch.ones_like(nu),))[1])
