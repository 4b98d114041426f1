"""The divergences beside KL by recorded programs: that these answer, and that they say what torch's operations say."""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor
from torch import distributions as d

import kullback as kb
from kullback.kernels import native
from kullback.pairs.densities import programs
from kullback.pairs.sisters import bounded, f_integral, power, power_integral

pytestmark = pytest.mark.skipif(native.library() is None, reason="programs are run by the native library")
# Both ways accept panels whose errors are 1e-11 of the whole.
AGREE, AGREE_SLOPES = 1e-11, 1e-9
# A function has the name of the third module.
INTEGRALS = f_integral, power_integral, importlib.import_module("kullback.pairs.sisters.entropy")
SUMS = bounded, power
Pair = Callable[[Tensor], tuple[d.Distribution, d.Distribution]]

SISTERS: dict[str, Callable[..., Tensor]] = {
    "js": kb.js,
    "total_variation": kb.total_variation,
    "hellinger": kb.hellinger,
    "chi2": kb.chi2,
    "skew_kl": functools.partial(kb.skew_kl, alpha=0.1),
    "renyi 0.3": functools.partial(kb.renyi, alpha=0.3),
}
# Of three parameters around 1, 2 and 3; ends of some laws lie inside others, and move, or a density is singular there.
PAIRS: dict[str, Pair] = {
    "StudentT Laplace": lambda x: (d.StudentT(x[2], x[0], x[1]), d.Laplace(x[1], x[0])),
    "Exponential Beta": lambda x: (d.Exponential(x[0]), d.Beta(x[1], x[2] / 2)),
    "Uniform Normal": lambda x: (d.Uniform(x[0], x[0] + x[1]), d.Normal(x[2], x[1])),
    "Poisson NegativeBinomial": lambda x: (d.Poisson(3 * x[2]), d.NegativeBinomial(4 * x[1], x[0] / (x[0] + 1))),
}
MIXED: dict[str, Pair] = {
    "Mixture Normal": lambda x: (_mixture(x), d.Normal(x[0], x[1])),
    "Mixture Mixture": lambda x: (_mixture(x), _mixture(x.flip(0))),
}


def _mixture(x: Tensor) -> d.MixtureSameFamily:
    parts = d.Normal(torch.stack([x[0] - 2, x[1]], -1), torch.stack([x[1] / 3, x[2] / 3], -1))
    return d.MixtureSameFamily(d.Categorical(torch.stack([x[0], x[1]], -1)), parts)


def parameters(count: int = 5) -> Tensor:
    step = torch.linspace(0, 0.4, count, dtype=torch.float64)
    return torch.stack([1.0 + step, 2.1 - step, 3.0 + step**2])


def only_operations(patch: pytest.MonkeyPatch) -> None:
    """Takes the programs away."""
    for module in INTEGRALS:
        patch.setattr(module, "expected", lambda *_: None)
    for module in SUMS:
        patch.setattr(module, "summed", lambda *_: None)


def only_programs(patch: pytest.MonkeyPatch) -> None:
    """Lets nothing else answer; programs are recorded at first sight."""

    def refuse(*_: Any, **__: Any) -> Any:
        raise AssertionError("torch's operations were asked")

    for module in INTEGRALS:
        patch.setattr(module, "integral_over", refuse)
    for module in SUMS:
        patch.setattr(module, "counts_of", refuse)
    patch.setattr(programs, "_RARE", 0)


@pytest.mark.parametrize("pair", [*PAIRS, *MIXED])
@pytest.mark.parametrize("name", SISTERS)
def test_programs_answer_as_operations_do(name: str, pair: str, monkeypatch: pytest.MonkeyPatch) -> None:
    p, q = {**PAIRS, **MIXED}[pair](parameters())
    with monkeypatch.context() as patch:
        only_programs(patch)
        found = SISTERS[name](p, q)
    only_operations(monkeypatch)
    wanted = SISTERS[name](p, q)
    finite = wanted.isfinite()
    assert torch.equal(found.isfinite(), finite)
    assert (found - wanted)[finite].abs().le(AGREE * wanted[finite]).all()


@pytest.mark.parametrize("pair", PAIRS)
@pytest.mark.parametrize("name", ["js", "total_variation", "hellinger"])
def test_slopes_know_of_moving_ends_and_crossings(name: str, pair: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def slopes() -> Tensor:
        x = parameters(3).requires_grad_()
        return torch.autograd.grad(SISTERS[name](*PAIRS[pair](x)).sum(), x)[0]

    with monkeypatch.context() as patch:
        only_programs(patch)
        found = slopes()
    only_operations(monkeypatch)
    wanted = slopes()
    assert (found - wanted).abs().le(AGREE_SLOPES * wanted.abs().amax()).all()


def test_slopes_of_an_entropy(monkeypatch: pytest.MonkeyPatch) -> None:
    only_programs(monkeypatch)
    x = parameters(2).requires_grad_()
    value = kb.entropy(_mixture(x))
    (found,) = torch.autograd.grad(value.sum(), x)
    step = 1e-5
    for row in range(3):
        aside = torch.zeros(3, 2, dtype=torch.float64)
        aside[row] = step
        with torch.no_grad():
            rise = (kb.entropy(_mixture(x + aside)) - kb.entropy(_mixture(x - aside))) / (2 * step)
        torch.testing.assert_close(found[row], rise, rtol=1e-7, atol=1e-9)


def test_elements_without_program_are_found_among_others() -> None:
    """Far apart in the middle: the logarithm of the power is integrated there, by operations."""
    loc = torch.tensor([0.5, 60.0, 0.25], dtype=torch.float64)
    p, q = d.Normal(torch.zeros(3, dtype=torch.float64), 1.0), d.Laplace(loc, torch.tensor(1.0, dtype=torch.float64))
    whole = kb.renyi(p, q, 0.6)
    for i in range(3):
        one = kb.renyi(d.Normal(p.loc[i], p.scale[i]), d.Laplace(loc[i], q.scale[i]), 0.6)
        torch.testing.assert_close(whole[i], one, rtol=1e-12, atol=0)


def test_second_derivatives_go_by_operations() -> None:
    x = torch.tensor([1.0, 2.0, 3.0], dtype=torch.float64, requires_grad=True)
    for name in ("js", "total_variation", "hellinger"):
        (slope,) = torch.autograd.grad(SISTERS[name](*PAIRS["StudentT Laplace"](x)), x, create_graph=True)
        (curve,) = torch.autograd.grad(slope[0], x)
        step = torch.tensor([1e-5, 0.0, 0.0], dtype=torch.float64)
        sides = [(x.detach() + s * step).requires_grad_() for s in (1, -1)]
        up, down = (torch.autograd.grad(SISTERS[name](*PAIRS["StudentT Laplace"](y)), y)[0] for y in sides)
        torch.testing.assert_close(curve, (up - down) / 2e-5, rtol=1e-6, atol=1e-8)
