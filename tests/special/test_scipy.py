"""SciPy's own test points for rel_entr and kl_div: the boundary grid and the regressions of its issue 20710."""

import itertools
import math

import pytest
import torch

from kullback import special

GRID = [s * v for s in (1, -1) for v in (0.0, 0.5, 1.0)]


def rel_entr(x, y):
    if x > 0 and y > 0:
        return x * math.log(x / y)
    return 0.0 if x == 0 and y >= 0 else math.inf


def kl_div(x, y):
    if x < 0 or y < 0 or (y == 0 and x != 0) or math.isinf(x) or math.isinf(y):
        return math.inf
    return y if x == 0 else x * math.log(x / y) - x + y


@pytest.mark.parametrize("oracle", [rel_entr, kl_div], ids=lambda f: f.__name__)
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=str)
def test_boundary_grid(oracle, dtype):
    pairs = list(itertools.product(GRID, GRID))
    x, y = (torch.tensor(column, dtype=dtype) for column in zip(*pairs, strict=True))
    got = getattr(special, oracle.__name__)(x, y)
    want = torch.tensor([oracle(a, b) for a, b in pairs], dtype=dtype)
    torch.testing.assert_close(got, want, rtol=1e-6 if dtype == torch.float32 else 1e-13, atol=0)


def test_kl_div_at_infinity():
    x = torch.tensor([1.0, math.inf, 0.0, math.inf], dtype=torch.float64)
    y = torch.tensor([math.inf, 1.0, math.inf, math.inf], dtype=torch.float64)
    assert special.kl_div(x, y).tolist() == [math.inf] * 4


REGRESSIONS = [
    (0.9456657713430001, 0.9456657713430094, -9.325873406851269e-15),
    (0.48066098564791515, 0.48066098564794774, -3.258504577274724e-14),
    (0.786048657854401, 0.7860486578542367, 1.6431300764454033e-13),
    (4.0, 2.22e-308, 2839.139983229607),
    (1e-200, 1e200, -9.210340371976183e-198),
    (2.22e-308, 1e15, -1.6493212008074475e-305),
]


@pytest.mark.parametrize(("x", "y", "want"), REGRESSIONS)
def test_rel_entr_near_equality_and_at_overflow(x, y, want):
    got = special.rel_entr(torch.tensor(x, dtype=torch.float64), torch.tensor(y, dtype=torch.float64)).item()
    assert got == pytest.approx(want, rel=1e-15, abs=0)


def test_what_scipy_gets_wrong():
    one = torch.tensor(1.0, dtype=torch.float64)
    gap = (1.0 + 1e-10) - 1.0
    assert special.kl_div(one, one + 1e-10).item() == pytest.approx(gap * gap / 2, rel=1e-9, abs=0)
    assert special.kl_div(one * 1e-200, one * 1e200).item() == 1e200
