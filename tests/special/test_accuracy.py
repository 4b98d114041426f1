"""Every public special function keeps its promised accuracy against mpmath, in value and two derivatives."""

import pytest
import torch

from kullback import special
from tests.special.accuracy import columns, error_in_ulp, load, worst_errors
from tests.special.promises import PROMISES

BY_NAME = pytest.mark.parametrize("promise", PROMISES, ids=lambda promise: promise.name)


@BY_NAME
def test_float64_within_promised_ulps(promise):
    for part, (error, where), bound in zip(
        ("value", "first", "second"), worst_errors(promise), promise.ulps, strict=True
    ):
        assert error <= bound, f"{part} derivative of {promise.name} is {error} ulp off at {where}"


@BY_NAME
@pytest.mark.parametrize(("dtype", "bound"), [(torch.float32, 1), (torch.bfloat16, 1), (torch.float16, 1)], ids=str)
def test_narrow_dtypes_round_the_float64_answer(promise, dtype, bound):
    rows = []
    for args, value, *_ in load(promise.group)[promise.name]:
        narrow = [torch.tensor(a, dtype=torch.float64).to(dtype).item() for a in args]
        if narrow == args and abs(value) < torch.finfo(dtype).max / 2:
            rows.append([args, value])
    if not rows:
        pytest.skip(f"no point of the table is a {dtype}")
    got = promise.function(*columns(rows, dtype))
    assert got.dtype == dtype
    for i, (args, value) in enumerate(rows):
        want = torch.tensor(value, dtype=torch.float64).to(dtype).item()
        assert error_in_ulp(got[i].item(), want, promise.floors(*args)[0], dtype) <= bound, args


@BY_NAME
def test_float32_gradient_is_the_float64_one_rounded(promise):
    points = [row[0] for row in load(promise.group)[promise.name] if all(1e-3 < abs(a) < 30 for a in row[0])][:20]
    narrow = [torch.tensor(c, dtype=torch.float32) for c in zip(*points, strict=True)]
    wide = [a.double() for a in narrow]
    grads = []
    for arguments in (narrow, wide):
        free = [a.requires_grad_() for a in arguments[promise.constants :]]
        value = promise.function(*arguments)
        grads.append(torch.autograd.grad(value.nan_to_num(neginf=0.0).sum(), free))
    for got, want in zip(*grads, strict=True):
        torch.testing.assert_close(got, want.float(), rtol=2e-7, atol=0, equal_nan=True)


NON_NEGATIVE = ["expm1mx", "kl_div", "lgamma_bregman", "binet_bregman"]


@pytest.mark.parametrize("name", NON_NEGATIVE)
def test_divergences_are_never_negative_and_zero_at_equality(name):
    function = getattr(special, name)
    generator = torch.Generator().manual_seed(0)
    a = torch.exp(20 * torch.randn(2000, generator=generator, dtype=torch.float64))
    if name == "expm1mx":
        assert (function(a.log() / 20) > 0).all()
        return
    for eps in (0.0, 1e-15, 1e-12, 1e-7, 1e-3, 0.3):
        value = function(a, a * (1 + eps * torch.randn(2000, generator=generator, dtype=torch.float64)).abs())
        assert (value >= 0).all()
    assert (function(a, a) == 0).all()


def test_neighbouring_floats():
    """One ulp apart the divergence is ½f''(a)·ulp², to the last digits."""
    a = torch.logspace(-3, 14, 35, dtype=torch.float64)
    b = torch.nextafter(a, torch.full_like(a, torch.inf))
    gap = b - a
    torch.testing.assert_close(special.kl_div(a, b), gap * gap / (2 * a), rtol=2e-15, atol=0)
    torch.testing.assert_close(special.lgamma_bregman(a, b), gap * gap * special.trigamma(a) / 2, rtol=2e-15, atol=0)
    want = gap * gap * special.binet(a, 2) / 2
    torch.testing.assert_close(special.binet_bregman(a, b), want, rtol=2e-15, atol=0)
