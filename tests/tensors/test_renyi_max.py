"""Rényi's divergence of order ∞, log max p/q, where it is attained by a class with all but a trace of the mass.

The value is of the size of the trace, far below the rounding of a logarithm; so is every entry of the gradient to
logits. Relative to the largest entry, against mpmath.
"""

import itertools
import math

import mpmath as mp
import pytest
import torch

import kullback as kb
from tests.tensors.exact import LINEAR, relative_error, weights


def exact_max(x, view_p, y, view_q):
    """Log max p/q and its gradients; entries of one row, all above zero."""
    with mp.workdps(80):
        a, b = weights(x, view_p), weights(y, view_q)
        p, q = [v / mp.fsum(a) for v in a], [v / mp.fsum(b) for v in b]
        ratio = [mp.log(r / s) for r, s in zip(p, q, strict=True)]
        at = max(range(len(p)), key=lambda i: ratio[i])
        to_p = [int(i == at) - r for i, r in enumerate(p)]
        to_q = [s - int(i == at) for i, s in enumerate(q)]
        if view_p in LINEAR:
            to_p = [g / v for g, v in zip(to_p, a, strict=True)]
        if view_q in LINEAR:
            to_q = [g / v for g, v in zip(to_q, b, strict=True)]
        return ratio[at], to_p, to_q


@pytest.mark.parametrize("distance", [1.0, 1e-6, -1.0])
@pytest.mark.parametrize("top", [5.0, 20.0, 40.0, 55.0])
@pytest.mark.parametrize(("view_p", "view_q"), list(itertools.product((kb.Logits, kb.Counts), repeat=2)))
def test_a_dominant_class(view_p, view_q, top, distance):
    generator = torch.Generator().manual_seed(0)
    a = torch.randn(10, dtype=torch.float64, generator=generator)
    b = a + distance * torch.rand(10, dtype=torch.float64, generator=generator)
    a[3] = b[3] = top
    x = (a if view_p is kb.Logits else a.exp()).requires_grad_()
    y = (b if view_q is kb.Logits else b.exp()).requires_grad_()
    want, want_p, want_q = exact_max(x.detach(), view_p, y.detach(), view_q)
    value = kb.renyi(view_p(x), view_q(y), alpha=math.inf)
    grad_p, grad_q = torch.autograd.grad(value, (x, y))
    assert relative_error(value.detach(), want) <= 1e-13
    assert relative_error(grad_p, want_p) <= 1e-13
    assert relative_error(grad_q, want_q) <= 1e-13
