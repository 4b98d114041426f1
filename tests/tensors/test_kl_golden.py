"""Values, gradients and Hessian-vector products against the mpmath table.

Tolerances, relative to the largest entry: float64 2e-15 for values and gradients and 3e-13 for second derivatives
(2e-6 in float32, whose gradients are rounded in between); an expectation below 1e-60 is the zero of the difference
quotient. Float32 and float16 values 1e-7 (one rounding to float32), gradients one rounding to their own dtype.
"""

import json
from pathlib import Path

import mpmath as mp
import pytest
import torch

import kullback as kb

CASES = json.loads((Path(__file__).parents[1] / "golden" / "tensors_kl.json").read_text())
VALUE = {"float64": 2e-15, "float32": 1e-7, "float16": 1e-7}
GRADIENT = {"float64": 2e-15, "float32": 1e-7, "float16": 6e-4}


def tensor(numbers, dtype):
    return torch.tensor([float.fromhex(v) for v in numbers], dtype=torch.float64).to(getattr(torch, dtype))


def error(got, want):
    want = [mp.mpf(v) for v in want]
    scale = max(abs(v) for v in want)
    worst = max(abs(mp.mpf(g) - v) for g, v in zip(got.double().tolist(), want, strict=True))
    assert mp.isfinite(worst)
    return float(worst / scale) if scale > 1e-60 else float(worst)


@pytest.mark.parametrize("case", CASES, ids=lambda c: c.get("name") or f"{c['p']}-{c['q']}-{c['dtype']}-{c['kl'][:8]}")
def test_golden(case):
    x, y = (tensor(case[k], case["dtype"]).requires_grad_() for k in "xy")
    value = kb.kl(getattr(kb, case["p"])(x), getattr(kb, case["q"])(y))
    assert value.dtype == (torch.float64 if case["dtype"] == "float64" else torch.float32)
    assert error(value.detach().reshape(1), [case["kl"]]) <= VALUE[case["dtype"]]
    grad_p, grad_q = torch.autograd.grad(value, (x, y), create_graph=True)
    tolerance = GRADIENT[case["dtype"]]
    assert error(grad_p.detach(), case["grad_p"]) <= tolerance
    assert error(grad_q.detach(), case["grad_q"]) <= tolerance
    if "direction" not in case or case["dtype"] == "float16":
        return
    direction = tensor(case["direction"], "float64").to(x.dtype)
    (hvp_p,) = torch.autograd.grad(grad_p @ direction, x, retain_graph=True)
    (hvp_q,) = torch.autograd.grad(grad_q @ direction, y)
    tolerance = 3e-13 if case["dtype"] == "float64" else 2e-6
    assert error(hvp_p, case["hvp_p"]) <= tolerance
    assert error(hvp_q, case["hvp_q"]) <= tolerance
