"""Checks under the program transformations: vmap, grad, jvp, hessian and compile."""

from __future__ import annotations

import importlib
import warnings
from collections.abc import Iterator
from functools import lru_cache
from typing import Any

import torch
from torch import Tensor
from torch.distributions import Distribution

from kullback.testing import oracle
from kullback.testing.cases import compare_values, ordinary, ordinary_logits
from kullback.testing.checks_derivative import mismatch
from kullback.testing.convention import Subject
from kullback.testing.exact import significant
from kullback.testing.runner import Battery, NotApplicable, Problem

TRANSFORMS: Battery[Subject] = Battery()


@TRANSFORMS.check
def vmap(s: Subject) -> Iterator[Problem]:
    """torch.func.vmap over the rows gives the same values."""
    p, q = ordinary(s)
    yield from compare_values(s, torch.func.vmap(s.one_row)(p, q), p, q, " under vmap")


@TRANSFORMS.check
def func_grad(s: Subject) -> Iterator[Problem]:
    """torch.func.grad gives the exact gradient to each side."""
    for side, p, q in _rows(s):
        got = torch.func.grad(_of_logits(s, p, q, side))((p, q)[side])
        expected = oracle.gradient(s.divergence, tuple(p.tolist()), tuple(q.tolist()), side)
        what = f"torch.func.grad to {'pq'[side]}"
        yield from mismatch(what, got.tolist(), expected, _show(p, q), s.gradient_rtol)


@TRANSFORMS.check
def jvp(s: Subject) -> Iterator[Problem]:
    """torch.func.jvp gives the exact directional derivative."""
    load_transforms(s.compile_backend)
    for side, p, q in _rows(s):
        direction = torch.tensor([1.0, -0.5, 0.25, 0.75], dtype=torch.float64)
        value, slope = torch.func.jvp(_of_logits(s, p, q, side), ((p, q)[side],), (direction,))[:2]
        gradient = oracle.gradient(s.divergence, tuple(p.tolist()), tuple(q.tolist()), side)
        expected = sum(a * b for a, b in zip(gradient, direction.tolist(), strict=True))
        if not value.isfinite():
            yield Problem(f"the value under jvp is {significant(value)}", _show(p, q))
        # A result of lower precision, which the check of dtypes reports, has a slope of lower precision.
        rtol = max(10 * s.gradient_rtol, 16 * torch.finfo(slope.dtype).eps)
        yield from mismatch(f"jvp in {'pq'[side]}", [slope.item()], [expected], _show(p, q), rtol)


@TRANSFORMS.check
def hessian(s: Subject) -> Iterator[Problem]:
    """torch.func.hessian gives the exact Hessian."""
    load_transforms(s.compile_backend)
    for side, p, q in _rows(s):
        got = torch.func.hessian(_of_logits(s, p, q, side))((p, q)[side])
        for column in range(p.numel()):
            unit = tuple(float(column == i) for i in range(p.numel()))
            expected = oracle.hessian_vector(s.divergence, tuple(p.tolist()), tuple(q.tolist()), side, unit)
            what = f"column {column} of the Hessian in {'pq'[side]}"
            yield from mismatch(what, got[:, column].tolist(), expected, _show(p, q), 10 * s.gradient_rtol)


def _of_logits(s: Subject, p: Tensor, q: Tensor, side: int) -> Any:
    def scalar(logits: Tensor) -> Tensor:
        a, b = (logits, q) if side == 0 else (p, logits)
        return s.one_row(s.place(a, 0), s.place(b, 1))

    return scalar


def _rows(s: Subject) -> list[tuple[int, Tensor, Tensor]]:
    if not s.gradients:
        raise NotApplicable("gradients= names no side")
    p, q = ordinary_logits()
    return [("pq".index(side), p[0], q[0]) for side in s.gradients]


def _show(p: Tensor, q: Tensor) -> str:
    return f"logits p = {p.tolist()}, q = {q.tolist()}"


@TRANSFORMS.check
def compile(s: Subject) -> Iterator[Problem]:  # noqa: A001 - the name the user selects it by
    """torch.compile(fullgraph=True) traces it and gives the same value and gradients."""
    p, q = ordinary(s)
    fn, order = s.fn, s.order

    def call(a: Tensor, b: Tensor) -> Tensor:
        result: Tensor = fn(a, b) if order == "pq" else fn(b, a)
        return result

    eager, compiled = _value_and_gradients(call, p, q), _value_and_gradients(compiled_by(call, s.compile_backend), p, q)
    for what, a, b in zip(("value", "gradient to p", "gradient to q"), eager, compiled, strict=True):
        if (a is None) != (b is None) or (
            a is not None and b is not None and not torch.allclose(a, b, rtol=1e-10, atol=1e-12, equal_nan=True)
        ):
            yield Problem(f"the {what} differs from the eager one", s.show(p[:1], q[:1]), b, a)


def compiled_by(function: Any, backend: str) -> Any:
    """Compile a function and give the process back as it was.

    Each battery compiles anew, so the limit on recompilations is lifted for the call; and torch.compile switches the
    argument validation of all distributions off, which is undone.
    """
    load_transforms(backend)
    dynamo: Any = importlib.import_module("torch._dynamo")
    names = ("recompile_limit", "accumulated_recompile_limit", "cache_size_limit", "accumulated_cache_size_limit")
    limits = {name: 100_000 for name in names if hasattr(dynamo.config, name)}  # renamed between torch versions
    compiled: Any = torch.compile(function, fullgraph=True, backend=backend)

    def call(*arguments: Any) -> Any:
        validates = Distribution._validate_args
        try:
            with dynamo.config.patch(limits):
                return compiled(*arguments)
        finally:
            Distribution.set_default_validate_args(validates)

    return call


@lru_cache(maxsize=8)
def load_transforms(backend: str) -> None:
    """Load what torch loads on first use: what it warns of meanwhile is not about the function under test."""
    validates = Distribution._validate_args
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        one = torch.ones(1)
        torch.func.jvp(torch.exp, (one,), (one,))
        torch.compile(lambda x: x + 1, backend=backend)(one)
    Distribution.set_default_validate_args(validates)


def _value_and_gradients(call: Any, p: Tensor, q: Tensor) -> tuple[Tensor | None, ...]:
    leaves = (p.clone().requires_grad_(), q.clone().requires_grad_())
    value = call(*leaves)
    if not value.requires_grad:
        return value, None, None
    return value.detach(), *torch.autograd.grad(value.sum(), leaves, allow_unused=True)
