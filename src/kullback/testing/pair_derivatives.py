r"""Checks of derivatives and transforms of a pair of distributions.

Derivatives are taken along one direction a parameter and compared with central differences of eighth order,

    f'(0) ≈ [4/5 Δ₁ - 1/5 Δ₂ + 4/105 Δ₃ - 1/280 Δ₄] / h,   Δ_k = f(kh) - f(-kh),

which at h = 1/128 of the parameter leave about 1e-12 of truncation and rounding.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor

from kullback.testing.checks_transform import compiled_by, load_transforms
from kullback.testing.exact import expected_got, significant
from kullback.testing.pair_subject import Example, PairSubject, weights, without_validation
from kullback.testing.runner import Battery, NotApplicable, Problem

PAIR_DERIVATIVES: Battery[PairSubject] = Battery()

_WEIGHTS = (4 / 5, -1 / 5, 4 / 105, -1 / 280)
_STEP = 1 / 128


def _direction(x: Tensor) -> Tensor:
    """A direction that keeps the parameter valid: elementwise in a vector, symmetric in a matrix."""
    if x.dim() < 2:
        return torch.where(x.isfinite(), weights(x) * torch.where(x == 0, 1.0, x.abs()), 0.0)
    return x + torch.diag_embed(torch.diagonal(x, dim1=-2, dim2=-1)) if x.shape[-1] == x.shape[-2] else x.clone()


def _along(s: PairSubject, example: Example, index: int) -> Callable[[Tensor], Tensor]:
    """The divergence as a function of a step along one parameter's direction."""
    direction = _direction(example[index])
    # -inf plus 0 times a step stays -inf, so a class outside the support stays outside.
    moving = direction != 0

    def of_step(t: Tensor) -> Tensor:
        moved = torch.where(moving, example[index] + t * direction, example[index])
        return s.of(*(moved if i == index else x for i, x in enumerate(example)))

    return of_step


def _difference(f: Callable[[float], float | None]) -> float:
    def at(t: float) -> float:
        value = f(t)
        return math.nan if value is None else value

    try:
        return sum(w * (at(k * _STEP) - at(-k * _STEP)) for k, w in enumerate(_WEIGHTS, 1)) / _STEP
    except Exception:  # noqa: BLE001 - a step left the parameter's domain: at an edge there is no difference
        return math.nan


def _slope(f: Callable[[Tensor], Tensor], at: float, order: int) -> float | None:
    """The derivative of some order by the backward pass; None where no gradient arrives."""
    t = torch.tensor(at, dtype=torch.float64, requires_grad=True)
    result = f(t)
    for _ in range(order):
        if not result.requires_grad:
            return None
        gradients: tuple[Tensor | None, ...] = torch.autograd.grad(result, t, create_graph=True, allow_unused=True)
        if gradients[0] is None:
            return None
        result = gradients[0]
    return result.item()


def _varied(s: PairSubject) -> list[tuple[Example, int]]:
    wide = [s.cast(example, torch.float64) for example in s.examples]
    return [(example, i) for example in wide for i, vary in enumerate(s.varied) if vary]


def _agree(s: PairSubject, got: float, expected: float, scale: float) -> bool:
    return abs(got - expected) <= s.gradient_rtol * max(abs(expected), scale) + 1e-12


@PAIR_DERIVATIVES.check
def gradient(s: PairSubject) -> Iterator[Problem]:
    """The gradient to every parameter of p and q arrives and is the derivative of the value."""
    for example, index in _varied(s):
        leaves = [x.clone() for x in example]
        leaves[index].requires_grad_()
        result = s.of(*leaves)
        case = s.last_inputs()
        known = torch.isfinite(result).item()
        got = torch.autograd.grad(result, leaves[index], allow_unused=True)[0] if result.requires_grad else None
        along = _along(s, example, index)
        expected = _difference(lambda t, f=along: f(torch.tensor(t, dtype=torch.float64)).item())  # type: ignore[misc]
        what = f"gradient to {s.names[index]}"
        if got is None:
            if expected and not math.isnan(expected):
                yield Problem(f"{what}: expected a gradient, none arrived", case, None, expected)
        elif bool(got.isnan().any()):
            yield Problem(f"{what}: expected no NaN, got {got.tolist()}", case, got, expected)
        elif bool((got[~example[index].isfinite()] != 0).any()):
            yield Problem(f"{what}: expected 0 outside the support, got {got.tolist()}", case, got, 0.0)
        elif known and math.isfinite(expected):
            direction = _direction(example[index])
            slope = (got * direction)[direction != 0].sum().item()
            if not _agree(s, slope, expected, abs(result.item())):
                message = f"{what}: expected slope {significant(expected)}, got {significant(slope)}"
                yield Problem(message, case, slope, expected, abs(slope - expected))


@PAIR_DERIVATIVES.check
def double_backward(s: PairSubject) -> Iterator[Problem]:
    """Differentiating twice gives the derivative of the gradient."""
    for example, index in _varied(s):
        along = _along(s, example, index)
        first = _slope(along, 0.0, 1)
        if first is None or not math.isfinite(first):
            continue
        expected = _difference(lambda t, f=along: _slope(f, t, 1))  # type: ignore[misc]
        if not math.isfinite(expected):
            continue
        # A gradient that is constant has no graph of its own: nothing to differentiate is a derivative of 0.
        got = _slope(along, 0.0, 2) or 0.0
        if not _agree(s, got, expected, abs(first)):
            what = f"second derivative in {s.names[index]}"
            message = f"{what}: {expected_got(expected, got)}"
            yield Problem(message, s.last_inputs(), got, expected, abs(got - expected))


@PAIR_DERIVATIVES.check
def vmap(s: PairSubject) -> Iterator[Problem]:
    """torch.func.vmap over the parameters gives the same values."""
    example = s.cast(s.examples[0], torch.float64)
    factors = (1.0, 0.96875)
    expected = torch.stack([s.of(*s.scaled(example, factor)) for factor in factors])
    dims = tuple(0 if vary else None for vary in s.varied)
    many = s.stacked(example, factors, (2,))
    arguments = tuple(m if vary else x for m, x, vary in zip(many, example, s.varied, strict=True))
    with without_validation():
        got = torch.func.vmap(s.of, in_dims=dims)(*arguments)
    yield from _same(s, "under vmap", got, expected)


@PAIR_DERIVATIVES.check
def jvp(s: PairSubject) -> Iterator[Problem]:
    """torch.func.jvp gives the same slope as the backward pass."""
    load_transforms(s.compile_backend)
    one, zero = torch.ones((), dtype=torch.float64), torch.zeros((), dtype=torch.float64)
    for example, index in _varied(s):
        along = _along(s, example, index)
        expected = _slope(along, 0.0, 1)
        if expected is None:
            continue
        with without_validation():
            got = torch.func.jvp(along, (zero,), (one,))[1]
        if math.isfinite(expected) and not _agree(s, got.item(), expected, 0.0):
            message = f"jvp in {s.names[index]}: {expected_got(expected, got)}"
            yield Problem(message, s.last_inputs(), got, expected)


@PAIR_DERIVATIVES.check
def compile(s: PairSubject) -> Iterator[Problem]:  # noqa: A001 - the name the user selects it by
    """torch.compile(fullgraph=True) traces it and gives the same value and gradients."""
    example = tuple(x[None] for x in s.cast(s.examples[0], torch.float64))
    kl, make = s.kl, s.make

    def call(*values: Tensor) -> Tensor:
        return kl(*make(*values))

    with without_validation():
        eager = _value_and_gradients(s, call, example)
        compiled = _value_and_gradients(s, compiled_by(call, s.compile_backend), example)
    varied = [name for name, vary in zip(s.names, s.varied, strict=True) if vary]
    for i, (a, b) in enumerate(zip(eager, compiled, strict=True)):
        what = "compiled" if i == 0 else f"compiled, in the gradient to {varied[i - 1]},"
        if (a is None) != (b is None):
            yield Problem(f"{what} a gradient is missing", s.last_inputs())
        elif a is not None and b is not None:
            yield from _same(s, what, b, a)


def _value_and_gradients(s: PairSubject, call: Callable[..., Any], example: Example) -> tuple[Tensor | None, ...]:
    leaves = [x.clone().requires_grad_(vary) for x, vary in zip(example, s.varied, strict=True)]
    result = call(*leaves)
    wanted = [leaf for leaf in leaves if leaf.requires_grad]
    if not wanted:
        raise NotApplicable("the pair has no real parameter")
    if not result.requires_grad:
        return result, *(None for _ in wanted)
    return result.detach(), *torch.autograd.grad(result.sum(), wanted, allow_unused=True)


def _same(s: PairSubject, what: str, got: Tensor, expected: Tensor) -> Iterator[Problem]:
    if got.shape != expected.shape or not torch.allclose(got, expected, rtol=1e-9, atol=1e-12, equal_nan=True):
        message = f"expected {expected.flatten().tolist()}, {what} got {got.flatten().tolist()}"
        yield Problem(message, s.last_inputs(), got, expected)
