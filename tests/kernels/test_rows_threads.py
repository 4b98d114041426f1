"""Rows do not depend on the number of threads or, beyond rounding, on the instruction set."""

from __future__ import annotations

import functools
import json
import math
import os
import subprocess
import sys

import pytest
import torch

import kullback as kb
from kullback.kernels import native

pytestmark = pytest.mark.skipif(native.library() is None, reason="no native library")

PROGRAM = """
import json, torch, kullback as kb
from kullback.kernels import status
torch.set_num_threads(1)
found = []
for dtype in (torch.float64, torch.float32):
    for classes in (10, 1000):
        for distance in (1.0, 1e-3, 0.0):
            g = torch.Generator().manual_seed(0)
            a = torch.randn(3, classes, generator=g, dtype=torch.float64)
            b = (a + distance * torch.randn(3, classes, generator=g, dtype=torch.float64)).to(dtype).requires_grad_()
            a = a.to(dtype).requires_grad_()
            a.data[0, 3] = b.data[1, 3] = b.data[0, 3] = -float("inf")
            value = kb.kl(kb.Logits(a), kb.Logits(b))
            grads = torch.autograd.grad(value[[0, 2]].sum(), (a, b))
            found.append([value.tolist(), *(g[:, :20].tolist() for g in grads)])
print(json.dumps([status().instruction_set, found]))
"""


def run(instruction_set):
    environment = {**os.environ, "KULLBACK_ISA": instruction_set}
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True, env=environment)
    return json.loads(done.stdout)


@pytest.mark.slow
def test_instruction_sets_agree():
    used, found = run("")
    other_used, other = run("avx2" if used == "avx512" else "baseline")
    assert used != other_used or used == "baseline"
    for here, there in zip(found, other, strict=True):
        (value, *grads), (other_value, *other_grads) = (list(map(torch.tensor, numbers)) for numbers in (here, there))
        torch.testing.assert_close(value, other_value, rtol=1e-6, atol=0)
        for g, other_g in zip(grads, other_grads, strict=True):
            scale = other_g.abs().amax(-1, keepdim=True)
            assert ((g - other_g).abs() <= 1e-6 * scale).all()


@pytest.fixture
def threads():
    before = torch.get_num_threads()
    yield torch.set_num_threads
    torch.set_num_threads(before)


FUNCTIONS = {
    "kl": kb.kl,
    "js": kb.js,
    "skew_kl": functools.partial(kb.skew_kl, alpha=0.1),
    "scaled_js": functools.partial(kb.scaled_js, beta=0.3),
    "cross_entropy": kb.cross_entropy,
    "entropy": lambda p, q: kb.entropy(p) + 0 * kb.entropy(q),
}
HOLD = {"Logits": lambda x: x, "LogProbs": lambda x: x.log_softmax(-1), "Probs": lambda x: x.softmax(-1)}


def rows_of(shape, dtype):
    """From near to far, some with excluded classes."""
    generator = torch.Generator().manual_seed(2)
    a = torch.randn(shape, generator=generator, dtype=torch.float64)
    b = a + torch.randn(shape, generator=generator, dtype=torch.float64) * torch.logspace(-4, 1, shape[0]).unsqueeze(-1)
    a[::5, 1] = b[::5, 1] = a[::7, 2] = -math.inf
    return a, b


def same_for_any_number_of_threads(threads, function, p, q):
    found = []
    for count in (1, 2, 3, 8):
        threads(count)
        x, y = p.tensor.clone().requires_grad_(), q.tensor.clone().requires_grad_()
        value = function(p.with_tensor(x), q.with_tensor(y))
        with torch.no_grad():
            alone = function(p, q)
        found.append((value.detach(), alone, *torch.autograd.grad(value.sum(), (x, y))))
    for other in found[1:]:
        # As bits: NaN is not equal to itself.
        for one, two in zip(found[0], other, strict=True):
            assert torch.equal(one.view(torch.uint8), two.view(torch.uint8))


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("shape", [(3, 70_001), (300, 513), (9000, 7)])
@pytest.mark.parametrize("name", ["kl", "js"])
def test_the_same_bits_for_any_number_of_threads(name, shape, dtype, threads):
    a, b = (x.to(dtype) for x in rows_of(shape, dtype))
    same_for_any_number_of_threads(threads, FUNCTIONS[name], kb.Logits(a), kb.Logits(b))


@pytest.mark.parametrize("name", FUNCTIONS, ids=str)
@pytest.mark.parametrize(("view_p", "view_q"), [("Probs", "Logits"), ("LogProbs", "Probs"), ("Probs", "Probs")])
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
@pytest.mark.sample(3)
def test_the_same_bits_for_every_function_and_view(name, view_p, view_q, dtype, threads):
    a, b = rows_of((70, 999), dtype)
    p, q = (getattr(kb, view)(HOLD[view](x).to(dtype)) for view, x in ((view_p, a), (view_q, b)))
    same_for_any_number_of_threads(threads, FUNCTIONS[name], p, q)
