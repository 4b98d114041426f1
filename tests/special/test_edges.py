"""The ends of the domain, special floats, shapes and layouts."""

import math

import pytest
import torch

from kullback import special

INF, NAN = math.inf, math.nan
TINY = 5e-324


def wide(*values):
    return torch.tensor(values, dtype=torch.float64)


def at(function, *args):
    return function(*[wide(a) for a in args]).item()


EDGES = [
    ("expm1mx", (0.0,), 0.0),
    ("expm1mx", (-0.0,), 0.0),
    ("expm1mx", (INF,), INF),
    ("expm1mx", (-INF,), INF),
    ("expm1mx", (TINY,), 0.0),
    ("log1pmx", (0.0,), 0.0),
    ("log1pmx", (-1.0,), -INF),
    ("log1pmx", (INF,), -INF),
    ("log1pmx", (-1.1,), NAN),
    ("log1pmx", (-INF,), NAN),
    ("log1mexp", (0.0,), -INF),
    ("log1mexp", (-0.0,), -INF),
    ("log1mexp", (-INF,), 0.0),
    ("log1mexp", (1e-300,), NAN),
    ("log1mexp", (-TINY,), math.log(TINY)),
    ("logdiffexp", (1.0, 1.0), -INF),
    ("logdiffexp", (1.0, -INF), 1.0),
    ("logdiffexp", (-INF, -INF), -INF),
    ("logdiffexp", (INF, 1.0), INF),
    ("logdiffexp", (INF, INF), NAN),
    ("logdiffexp", (1.0, 2.0), NAN),
    ("logdiffexp", (-INF, 0.0), NAN),
    ("rel_entr", (0.0, 0.0), 0.0),
    ("rel_entr", (-0.0, 1.0), 0.0),
    ("rel_entr", (1.0, 0.0), INF),
    ("rel_entr", (1.0, INF), -INF),
    ("rel_entr", (INF, 1.0), INF),
    ("rel_entr", (TINY, TINY), 0.0),
    ("kl_div", (0.0, 0.0), 0.0),
    ("kl_div", (0.0, TINY), TINY),
    ("kl_div", (TINY, 0.0), INF),
    ("kl_div", (1e308, 1e-308), INF),
    ("kl_div", (1e-200, 1e200), 1e200),
    ("kl_div", (-1.0, 1.0), INF),
    ("digamma", (0.0,), -INF),
    ("digamma", (-0.0,), INF),
    ("digamma", (-3.0,), NAN),
    ("digamma", (INF,), INF),
    ("trigamma", (0.0,), INF),
    ("trigamma", (-2.0,), INF),
    ("trigamma", (INF,), 0.0),
    ("trigamma", (1e-200,), INF),
    ("binet", (0.0,), INF),
    ("binet", (INF,), 0.0),
    ("binet", (-1.0,), NAN),
    ("lgamma_bregman", (1.0, 0.0), INF),
    ("lgamma_bregman", (0.0, 1.0), INF),
    ("lgamma_bregman", (0.0, 0.0), NAN),
    ("lgamma_bregman", (1.0, INF), INF),
    ("lgamma_bregman", (INF, 1.0), INF),
    ("lgamma_bregman", (INF, INF), NAN),
    ("lgamma_bregman", (-0.5, 1.0), NAN),
    ("lgamma_bregman", (1e-300, 1e300), INF),
    ("binet_bregman", (1.0, 0.0), INF),
    ("binet_bregman", (0.0, 1.0), INF),
    ("binet_bregman", (-1.0, 1.0), NAN),
    ("binet_bregman", (2.0, 2.0), 0.0),
    ("log_ndtr", (-INF,), -INF),
    ("log_ndtr", (INF,), 0.0),
    ("log_ndtr", (-1e200,), -INF),
    ("log_ndtr", (0.0,), -math.log(2.0)),
    ("log_ndtr_diff", (0.3, 0.3), -INF),
    ("log_ndtr_diff", (-INF, INF), 0.0),
    ("log_ndtr_diff", (-INF, 0.0), -math.log(2.0)),
    ("log_ndtr_diff", (0.0, INF), -math.log(2.0)),
    ("log_ndtr_diff", (1.0, 0.0), NAN),
    ("log_iv", (0.0, 0.0), 0.0),
    ("log_iv", (0.5, 0.0), -INF),
    ("log_iv", (3.0, INF), INF),
    ("log_iv", (1.0, -1.0), NAN),
    ("log_iv", (-1.0, 1.0), NAN),
    ("log_ive", (0.0, 0.0), 0.0),
    ("log_ive", (0.0, INF), -INF),
    ("bessel_ratio", (0.0, 0.0), 0.0),
    ("bessel_ratio", (7.0, INF), 1.0),
    ("bessel_ratio", (7.0, TINY), 0.0),
    ("log_iv", (0.0, 1e308), 1e308),
    ("log_ive", (1.0, 1e308), -355.51704285428775),
    ("log_ive", (1e200, 1e308), -5e91),
    ("binet_bregman", (TINY, 0.5), INF),
]


@pytest.mark.parametrize(("name", "args", "want"), EDGES, ids=str)
def test_value_at_the_edge(name, args, want):
    got = at(getattr(special, name), *args)
    assert (math.isnan(got) and math.isnan(want)) or got == pytest.approx(want, rel=4e-16, abs=0)


UNARY = ["expm1mx", "log1pmx", "log1mexp", "digamma", "trigamma", "binet", "log_ndtr"]
BINARY = ["logdiffexp", "rel_entr", "kl_div", "lgamma_bregman", "binet_bregman", "log_ndtr_diff"]
BESSEL = ["log_iv", "log_ive", "bessel_ratio"]


@pytest.mark.parametrize("name", UNARY)
def test_nan_in_nan_out(name):
    assert math.isnan(at(getattr(special, name), NAN))


@pytest.mark.parametrize("name", BINARY + BESSEL)
def test_nan_in_either_argument(name):
    function = getattr(special, name)
    for args in ((NAN, 1.0), (1.0, NAN), (NAN, 0.0), (NAN, -INF), (INF, NAN)):
        assert math.isnan(at(function, *args)), args


GRADIENTS = [
    ("expm1mx", (0.0,), (0.0,)),
    ("log1pmx", (0.0,), (0.0,)),
    ("log1mexp", (-INF,), (0.0,)),
    ("logdiffexp", (1.0, -INF), (1.0, 0.0)),
    ("rel_entr", (0.0, 0.5), (0.0, 0.0)),
    ("rel_entr", (0.0, 0.0), (0.0, 0.0)),
    ("rel_entr", (1.0, 0.0), (0.0, 0.0)),
    ("rel_entr", (-1.0, 1.0), (0.0, 0.0)),
    ("kl_div", (0.0, 0.5), (0.0, 1.0)),
    ("kl_div", (1.0, 0.0), (0.0, 0.0)),
    ("kl_div", (1.0, 1.0), (0.0, 0.0)),
    ("trigamma", (1e-150,), (-INF,)),
    ("lgamma_bregman", (3.0, 3.0), (0.0, 0.0)),
    ("lgamma_bregman", (1.0, 0.0), (0.0, 0.0)),
    ("binet_bregman", (3.0, 3.0), (0.0, 0.0)),
    ("log1mexp", (0.0,), (-INF,)),
    ("log1mexp", (1.0,), (NAN,)),
    ("logdiffexp", (2.0, 2.0), (INF, -INF)),
    ("logdiffexp", (1.0, 2.0), (NAN, NAN)),
    ("lgamma_bregman", (1e-200, 3e-200), (-2e200, 2e200 / 3)),
    ("lgamma_bregman", (1e-310, 1e-310), (0.0, 0.0)),
    ("binet_bregman", (1e-310, 1e-310), (0.0, 0.0)),
    ("log_ndtr", (-1e308,), (1e308,)),
    ("log_ndtr_diff", (1.0, 0.0), (NAN, NAN)),
    ("log_ndtr", (INF,), (0.0,)),
    ("log_ndtr_diff", (-INF, 0.0), (0.0, 2 / math.sqrt(2 * math.pi))),
    ("log_ndtr_diff", (0.0, INF), (-2 / math.sqrt(2 * math.pi), 0.0)),
]


@pytest.mark.parametrize(("name", "args", "want"), GRADIENTS, ids=str)
def test_gradient_at_the_edge(name, args, want):
    leaves = [wide(a).requires_grad_() for a in args]
    getattr(special, name)(*leaves).sum().backward()
    for leaf, expected in zip(leaves, want, strict=True):
        assert leaf.grad.item() == pytest.approx(expected, rel=1e-15, abs=0, nan_ok=True)


def test_bessel_gradients_at_zero():
    x = wide(0.0).requires_grad_()
    assert torch.autograd.grad(special.log_iv(0.0, x).sum(), x)[0].item() == 0.0
    assert torch.autograd.grad(special.log_ive(0.0, x).sum(), x)[0].item() == -1.0
    assert torch.autograd.grad(special.bessel_ratio(0.5, x).sum(), x)[0].item() == pytest.approx(1 / 3)


@pytest.mark.parametrize("order", [3e8, 1e10, 1e140])
@pytest.mark.parametrize("z", [1e-12, 1e-3, 0.5, 3.9])
def test_derivatives_of_the_bessel_ratio_at_large_orders(order, z):
    """r = z/(1 + √(1+z²)) with z = x/ν, to 1/ν."""
    x, root = wide(z * order).requires_grad_(), math.sqrt(1 + z * z)
    (plain,) = torch.autograd.grad(special.bessel_ratio(order, x), x)
    (slope,) = torch.autograd.grad(special.bessel_ratio(order, x), x, create_graph=True)
    (curvature,) = torch.autograd.grad(slope, x)
    for found in (plain, slope):
        assert found.item() * order == pytest.approx(1 / (root * (1 + root)), rel=1e-8)
    wanted = -z * (1 + 2 * root) / (root**3 * (1 + root) ** 2)
    assert curvature.item() * order * order == pytest.approx(wanted, rel=2e-8)


def test_infinite_neighbours_do_not_poison_gradients():
    """A zero upstream gradient stays zero beside an infinite value: no 0·inf."""
    p = wide(1.0, 0.0, 0.5).requires_grad_()
    q = wide(0.0, 1.0, 0.25).requires_grad_()
    value = special.kl_div(p, q)
    torch.where(torch.isfinite(value), value, 0.0).sum().backward()
    assert torch.isfinite(p.grad).all()
    assert torch.isfinite(q.grad).all()


def test_third_derivatives_are_infinite_not_wrong():
    x = wide(0.5).requires_grad_()
    slope = special.expm1mx(x)
    for _ in range(3):
        (slope,) = torch.autograd.grad(slope.sum(), x, create_graph=True)
    assert math.isinf(slope.item())


@pytest.mark.parametrize("name", UNARY + BINARY + BESSEL)
def test_shapes_and_layouts(name):
    function = getattr(special, name)
    count = 1 if name in UNARY else 2
    sign = -1.0 if name == "log1mexp" else 1.0
    base = sign * torch.linspace(0.5, 2.0, 12, dtype=torch.float64).reshape(3, 4)
    args = [base] if count == 1 else [base + 0.25, base] if name == "logdiffexp" else [base, base + 0.25]
    whole = function(*args)
    assert whole.shape == (3, 4)
    assert torch.isfinite(whole).all()
    assert torch.equal(function(*[a.t() for a in args]), whole.t())
    assert torch.equal(function(*[a[:, ::2] for a in args]), whole[:, ::2])
    assert torch.equal(function(*[a[1, 2] for a in args]), whole[1, 2])
    assert function(*[a[:0] for a in args]).shape == (0, 4)
    if count == 2:
        outer = function(args[0][0, :1], args[1][:, :1])
        assert outer.shape == (3, 1)
        scalar = args[1][0, 0].item()
        assert torch.equal(function(args[0][:1, :1], scalar), function(args[0][:1, :1], args[1][:1, :1]))
