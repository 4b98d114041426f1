"""Values and gradients of js, skew_kl and scaled_js against mpmath: near equality, zeros, certain rows.

Relative to the largest entry of a row, 1e-13 in float64 and 1e-6 in float32.
"""

import functools

import mpmath as mp
import pytest
import torch

import kullback as kb
from tests.tensors.exact import LINEAR, relative_error, weights

FLOAT64, FLOAT32 = torch.float64, torch.float32
TOLERANCE = {FLOAT64: 1e-13, FLOAT32: 1e-6}
INF = float("inf")
# The function and its share α of p in the mixture m, and the weights of KL(p || m) and KL(q || m).
CASES = {
    "js": (kb.js, (0.5, 0.5, 0.5)),
    "skew 0.1": (functools.partial(kb.skew_kl, alpha=0.1), (0.1, 1, 0)),
    "skew 0.999": (functools.partial(kb.skew_kl, alpha=0.999), (0.999, 1, 0)),
    "skew 0": (functools.partial(kb.skew_kl, alpha=0.0), (0, 1, 0)),
    "scaled 0.3": (functools.partial(kb.scaled_js, beta=0.3), (0.3, 1 / (1 - mp.mpf(0.3)), 1 / mp.mpf(0.3))),
    "scaled 1e-4": (functools.partial(kb.scaled_js, beta=1e-4), (1e-4, 1 / (1 - mp.mpf(1e-4)), 1 / mp.mpf(1e-4))),
    "skew 1e-9": (functools.partial(kb.skew_kl, alpha=1e-9), (1e-9, 1, 0)),
    "scaled 1e-9": (functools.partial(kb.scaled_js, beta=1e-9), (1e-9, 1 / (1 - mp.mpf(1e-9)), 1 / mp.mpf(1e-9))),
    "scaled 1 - 1e-11": (
        functools.partial(kb.scaled_js, beta=1 - 1e-11),
        (1 - 1e-11, 1 / (1 - mp.mpf(1 - 1e-11)), 1 / mp.mpf(1 - 1e-11)),
    ),
    "scaled 0": (functools.partial(kb.scaled_js, beta=0.0), (0, 1, 0)),
    "scaled 1": (functools.partial(kb.scaled_js, beta=1.0), (1, 0, 1)),
}


def exact_mixture(views, tensors, share, of_p, of_q):
    """A KL(p || m) + B KL(q || m) and its gradients, None where the derivative to a weight of zero is not asked for."""
    (view_p, view_q), (x, y) = views, tensors
    with mp.workdps(80):
        alpha = mp.mpf(share)
        beta, a, b = 1 - alpha, weights(x, view_p), weights(y, view_q)
        p, q = [v / mp.fsum(a) for v in a], [v / mp.fsum(b) for v in b]
        m = [alpha * r + beta * s for r, s in zip(p, q, strict=True)]
        value = mp.fsum(
            (of_p * r * mp.log(r / t) if r else 0) + (of_q * s * mp.log(s / t) if s else 0)
            for r, s, t in zip(p, q, m, strict=True)
        )

        def project(own, raw, view, weight, part):
            slopes = [weight * mp.log(r / t) - part * (of_p * u + of_q * s) / t if r else mp.mpf(0)
                      for r, t, u, s in zip(own, m, p, q, strict=True)]  # fmt: skip
            mean = mp.fsum(r * h for r, h in zip(own, slopes, strict=True))
            if view in LINEAR:
                return [(h - mean) / mp.fsum(raw) if r else None for r, h in zip(own, slopes, strict=True)]
            return [r * (h - mean) for r, h in zip(own, slopes, strict=True)]

        return value, project(p, a, view_p, of_p, alpha), project(q, b, view_q, of_q, beta)


def near(classes, distance, seed=0):
    generator = torch.Generator().manual_seed(seed)
    a = torch.randn(classes, generator=generator, dtype=FLOAT64)
    return a, a + distance * torch.randn(classes, generator=generator, dtype=FLOAT64)


def eagerly(function, x, y):
    x, y = x.unsqueeze(0).requires_grad_(), y.unsqueeze(0).requires_grad_()
    value = function(x, y)
    to_p, to_q = torch.autograd.grad(value.sum(), (x, y))
    return value[0].detach(), to_p[0], to_q[0]


def by_vmap_of_grad(function, x, y):
    with_value = torch.func.vmap(torch.func.grad(lambda *row: (function(*row),) * 2, (0, 1), has_aux=True))
    (to_p, to_q), value = with_value(x.unsqueeze(0), y.unsqueeze(0))
    return value[0], to_p[0], to_q[0]


ROUTES = {"eager": eagerly, "vmap of grad": by_vmap_of_grad}


def check(name, views, tensors, tolerance, gradient_tolerance=None, *, route="eager"):
    function, numbers = CASES[name]
    want, *want_gradients = exact_mixture(views, tensors, *numbers)
    value, *gradients = ROUTES[route](lambda x, y: function(views[0](x), views[1](y)), *tensors)
    assert relative_error(value, want) <= tolerance
    for found, expected in zip(gradients, want_gradients, strict=True):
        asked = [i for i, e in enumerate(expected) if e is not None]
        assert found.isfinite().all()
        error = relative_error(found[asked], [expected[i] for i in asked])
        assert error <= (gradient_tolerance or tolerance)


@pytest.mark.parametrize("dtype", [FLOAT64, FLOAT32])
@pytest.mark.parametrize("distance", [10.0, 1e-1, 1e-3, 1e-6, 1e-9, 1e-12])
@pytest.mark.parametrize("name", CASES)
@pytest.mark.sample(5)
def test_near_equality(name, distance, dtype):
    for classes in (5, 70):
        a, b = (v.to(dtype) for v in near(classes, distance))
        if not torch.equal(a, b):
            check(name, (kb.Logits, kb.Logits), (a, b), TOLERANCE[dtype])


def one_class_has_all(a, b):
    a[0] = b[0] = 40.0


def half_agrees(a, b):
    b[1:] = b[1:].flip(0).clone()
    a[0], b[0] = a[1:].logsumexp(-1), b[1:].logsumexp(-1)


def q_excludes_a_faint_class(a, b):
    a[0], b[0] = -30.0, -1e9


@pytest.mark.parametrize("dtype", [FLOAT64, FLOAT32])
@pytest.mark.parametrize("distance", [1.0, 1e-4, 1e-8])
@pytest.mark.parametrize("change", [one_class_has_all, half_agrees, q_excludes_a_faint_class])
@pytest.mark.parametrize("name", ["js", "skew 0.1", "skew 0.999", "scaled 0.3", "scaled 1e-4"])
@pytest.mark.sample(5)
def test_rows_that_agree_where_it_counts(name, change, distance, dtype):
    a, b = near(100, distance)
    change(a, b)
    check(name, (kb.Logits, kb.Logits), (a.to(dtype), b.to(dtype)), TOLERANCE[dtype])


@pytest.mark.parametrize("dtype", [FLOAT64, FLOAT32])
@pytest.mark.parametrize("distance", [1.0, 1e-1])
@pytest.mark.parametrize(("view_p", "view_q"), [(kb.Logits, kb.Logits), (kb.Counts, kb.Logits), (kb.Logits, kb.Counts)])
@pytest.mark.parametrize("name", ["js", "skew 0.1", "scaled 0.3"])
def test_classes_that_one_side_lacks(name, view_p, view_q, distance, dtype):
    a, b = near(60, distance)
    a[3] = b[4] = a[5] = b[5] = -INF
    x, y = (v.to(dtype) if view is kb.Logits else v.exp().to(dtype) for v, view in ((a, view_p), (b, view_q)))
    # The derivatives are nearly constant where supports differ: a digit is lost.
    check(name, (view_p, view_q), (x, y), TOLERANCE[dtype], 10 * TOLERANCE[dtype])


def nearly_certain_of_different_classes(a, b):
    a[0], b[1] = 40.0, 20.0


def q_lacks_what_p_is_nearly_certain_of(a, b):
    a[0], b[0] = 30.0, -INF


def a_finite_number_excludes_classes_of_p(a, b):
    del b
    a[:20] = -1e30


def a_finite_number_excludes_classes_of_q(a, b):
    del a
    b[:20] = -1e30


@pytest.mark.parametrize("route", ROUTES)
@pytest.mark.parametrize("change", [
    one_class_has_all, nearly_certain_of_different_classes, q_lacks_what_p_is_nearly_certain_of,
    a_finite_number_excludes_classes_of_p, a_finite_number_excludes_classes_of_q,
])  # fmt: skip
@pytest.mark.parametrize("name", ["js", "skew 0.1", "skew 1e-9", "scaled 0.3", "scaled 1e-9", "scaled 1 - 1e-11"])
@pytest.mark.sample(5)
def test_every_route_is_accurate(name, change, route):
    for dtype, distance in ((FLOAT64, 1e-1), (FLOAT64, 1e-7), (FLOAT32, 1e-1)):
        a, b = near(80, distance)
        change(a, b)
        tensors = a.to(dtype), b.to(dtype)
        # Of certain rows that exclude each other's class the derivatives are nearly constant: two digits are lost.
        check(name, (kb.Logits, kb.Logits), tensors, TOLERANCE[dtype], 100 * TOLERANCE[dtype], route=route)
