"""KL018: `exp(d) - d - 1` of a log-ratio that nothing bounds.

A log-ratio of 100 in one token makes exp(d) infinite in float32, the loss infinite and every gradient NaN. A clamp
*after* the exponential does not help: the gradient of the infinite value is still NaN. The difference also cancels:
for |d| < 1e-3 it has no correct digit in half precision. This rule is off by default, because a metric that is never
differentiated looks the same.

Wrong:

>>> import torch
>>> d = torch.tensor([0.1, 100.0], requires_grad=True)
>>> loss = (torch.exp(d) - d - 1).clamp(max=10)
>>> loss.sum().backward()
>>> d.grad
tensor([0.1052,    nan])

Right, in torch:

>>> d = torch.tensor([0.1, 100.0], requires_grad=True)
>>> bounded = d.clamp(-20, 20)
>>> (torch.expm1(bounded) - bounded).sum().backward()
>>> d.grad
tensor([0.1052, 0.0000])

Right, in kullback:

>>> from kullback import special
>>> special.expm1mx(torch.tensor([1e-4, 0.1, 20.0]))
tensor([5.0002e-09, 5.1709e-03, 4.8517e+08])
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from kullback.lint.finding import WARNING, Problem, Rule
from kullback.lint.patterns import exponent, signed_terms
from kullback.lint.resolver import Module

_BOUNDS = {"clamp", "clip", "clamp_", "clamp_max", "minimum", "where", "nan_to_num"}


def check(module: Module) -> Iterator[Problem]:
    """Find e^d − d − 1 whose d is a difference of two tensors without a clamp."""
    for node in module.nodes:
        if not isinstance(node, ast.BinOp) or isinstance(module.parent(node), ast.BinOp):
            continue
        terms = signed_terms(node)
        ones = [s for s, t in terms if isinstance(t, ast.Constant) and t.value == 1]
        exponents = [e for s, t in terms if s == 1 and (e := exponent(module, t)) is not None]
        if not 3 <= len(terms) <= 5 or ones != [-1] or len(exponents) != 1:
            continue
        # (a − b).exp() − (a − b) − 1 has the terms −a and +b.
        linear = sorted(
            (-s, ast.dump(t)) for s, t in terms if not isinstance(t, ast.Constant) and not exponent(module, t)
        )
        expected = sorted((s, ast.dump(t)) for s, t in signed_terms(exponents[0]))
        if linear == expected and _is_unbounded(module, exponents[0]) and not module.without_gradient(node):
            yield (
                node,
                (
                    "exp(d) overflows for a large log-ratio and makes the gradient NaN; "
                    "bound d before exp (d.clamp(-20, 20)) and write torch.expm1(d) - d"
                ),
            )


def _is_unbounded(module: Module, node: ast.expr) -> bool:
    value = module.value(node)
    return isinstance(value, ast.BinOp) and isinstance(value.op, ast.Sub) and not any(
        isinstance(n, ast.Attribute) and n.attr in _BOUNDS for part in _operands(module, value) for n in ast.walk(part)
    )  # fmt: skip


def _operands(module: Module, node: ast.BinOp) -> list[ast.expr]:
    found = [module.value(side) for side in (node.left, node.right)]
    return [node, *(value for value in found if value is not None)]


RULE = Rule(
    "KL018", "exp(d) - d - 1 without a bound", WARNING, check, __doc__, r"exp\([^\n]*-\s*1(?!\d)", on_by_default=False
)
