"""Which calls go to Triton, with the CPU standing in for a GPU, and what happens where Triton does not run."""

from __future__ import annotations

import os
import subprocess
import sys
import warnings

import pytest
import torch

import kullback as kb
from kullback._core.errors import InputValueError, KullbackWarning
from kullback.kernels import device_choice, native_rows
from kullback.kernels.device_rows import launch, op

X, Y = torch.randn(3, 7, generator=torch.Generator().manual_seed(1)), torch.zeros(3, 7)


@pytest.fixture
def calls(monkeypatch):
    """Calls that reach a launch, which answers with ones."""
    found = []

    def values(settings, tensors, request, needs, wrap=None):
        found.append((settings.function, tuple(needs)))
        return torch.ones(request.batch), torch.zeros(3, 9)

    def gradients(settings, grad, statistics, tensors, request, needs, wrap=None):  # noqa: PLR0917
        found.append("backward")
        return [torch.ones_like(t) if need else None for t, need in zip(tensors, needs, strict=True)]

    monkeypatch.setattr(device_choice, "ROUTES", {**device_choice.ROUTES, "cpu": "triton"})
    monkeypatch.setattr(native_rows, "enabled", False)
    monkeypatch.setattr(op, "_failures", {})
    monkeypatch.setattr(launch, "values", values)
    monkeypatch.setattr(launch, "gradients", gradients)
    return found


def test_every_row_function_that_has_a_kernel_reaches_it(calls):
    p, q = kb.Logits(X), kb.Logits(Y)
    for value in (kb.kl(p, q), kb.js(p, q), kb.skew_kl(p, q, 0.1), kb.scaled_js(p, q, 0.5), kb.entropy(p)):
        assert torch.equal(value, torch.ones(3))
    kb.cross_entropy(kb.Probs(X.softmax(-1)), kb.Counts(Y + 1))
    assert [function for function, _ in calls] == [0, 1, 1, 1, 2, 2]


def test_gradients_reach_it_and_only_those_that_are_needed(calls):
    x = X.clone().requires_grad_()
    kb.kl(kb.Logits(x), kb.Logits(Y)).sum().backward()
    assert calls == [(0, (True, False)), "backward"]
    assert torch.equal(x.grad, torch.ones(3, 7))


def test_the_reference_does_the_rest(calls):
    kb.kl(kb.Logits(X.double()), kb.Logits(Y.double()))
    kb.jeffreys(kb.Logits(X), kb.Logits(Y))
    torch.func.grad(lambda x: kb.kl(kb.Logits(x), kb.Logits(Y)).sum())(X)
    torch.func.vmap(lambda x: kb.kl(kb.Logits(x), kb.Logits(Y[0])))(X)
    kb.scaled_js(kb.Logits(X), kb.Logits(Y), 1.0)
    assert calls == []


def test_a_failure_warns_once_and_gives_the_right_answer(calls, monkeypatch):
    def fail(*args):
        raise RuntimeError("no compiler")

    monkeypatch.setattr(launch, "values", fail)
    want = kb.kl(kb.Logits(X.double()), kb.Logits(Y.double()))
    with pytest.warns(KullbackWarning, match="no compiler"):
        first = kb.kl(kb.Logits(X), kb.Logits(Y))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        second = kb.kl(kb.Logits(X), kb.Logits(Y))
    assert torch.equal(first, second)
    torch.testing.assert_close(first.double(), want, rtol=1e-6, atol=0)
    assert "cpu failed (RuntimeError: no compiler)" in kb.kernels.status().devices


@pytest.mark.parametrize(
    ("kind", "route"),
    [("cpu", "native"), ("cuda", "triton"), ("xpu", "triton"), ("mps", "float32"), ("hpu", "float32")],
)
def test_routes_of_devices(kind, route):
    assert device_choice.route_of(torch.device(kind)) == route


def test_the_environment_changes_routes():
    assert device_choice.read_routes({"KULLBACK_DEVICES": "cuda=float32, mps=float32"})["cuda"] == "float32"
    with pytest.raises(InputValueError, match="cuda=triton"):
        device_choice.read_routes({"KULLBACK_DEVICES": "cuda=fast"})


def run(program, **environment):
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, env={**os.environ, **environment}, check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_import_and_use_without_triton():
    program = (
        "import sys; sys.modules['triton'] = None\n"
        "import torch, kullback as kb\n"
        "print(kb.kl(kb.Logits(torch.zeros(2)), kb.Logits(torch.zeros(2))).item(), kb.kernels.status().devices)\n"
    )
    assert run(program).startswith("0.0 PyTorch: triton is not installed")


def test_variables_turn_triton_and_native_code_off():
    program = (
        "import torch; from kullback import kernels, special; s = kernels.status();"
        "print(s.devices, s.implementation, s.reason, special.kl_div(torch.ones(1), torch.ones(1)).item())"
    )
    out = run(program, KULLBACK_TRITON="0", KULLBACK_NATIVE="0")
    assert "KULLBACK_TRITON=0" in out
    assert out.endswith("reference KULLBACK_NATIVE=0 is set in the environment 0.0\n")
