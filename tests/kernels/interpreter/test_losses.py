"""Distillation losses with the Triton kernels inside: temperature in the kernel, chunks of an LM head."""

from __future__ import annotations

import pytest
import torch

from kullback.losses import distillation, linear_distillation


def gradients(loss, *tensors):
    leaves = [t.clone().requires_grad_() for t in tensors]
    value = loss(*leaves)
    return value, torch.autograd.grad(value, leaves, allow_unused=True)


@pytest.mark.parametrize("divergence", ["forward", "reverse", "js"])
@pytest.mark.sample(2)
def test_temperature_is_divided_by_in_the_kernel(divergence):
    generator = torch.Generator().manual_seed(0)
    student, teacher = torch.randn(2, 3, 50, generator=generator)
    mask = torch.tensor([True, False, True])

    def loss(x):
        return distillation(x, teacher.to(x.dtype), divergence=divergence, temperature=3.0, t_squared=True, mask=mask)

    value, (found,) = gradients(loss, student)
    want, (wanted,) = gradients(loss, student.double())
    torch.testing.assert_close(value.double(), want, rtol=5e-7, atol=0)
    assert (found - wanted).abs().amax() < 1e-6 * wanted.abs().amax()


def test_linear_distillation_uses_the_kernels_on_every_chunk(monkeypatch):
    from kullback.kernels.device_rows import launch

    launches = []
    values = launch.values
    monkeypatch.setattr(launch, "values", lambda *a, **k: launches.append(1) or values(*a, **k))
    generator = torch.Generator().manual_seed(0)
    hidden, other, weight, fixed = (torch.randn(n, 8, generator=generator) for n in (4, 4, 30, 30))

    def loss(x, w):
        return linear_distillation(x, w, other.to(x.dtype), fixed.to(x.dtype), temperature=2.0)

    value, found = gradients(loss, hidden, weight)
    want, wanted = gradients(loss, hidden.double(), weight.double())
    assert launches
    torch.testing.assert_close(value.double(), want, rtol=1e-5, atol=0)
    for got, expected in zip(found, wanted, strict=True):
        assert (got - expected).abs().amax() < 1e-5 * expected.abs().amax()
