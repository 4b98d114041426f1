"""KL025: both sides are divided by a temperature, and the loss is not multiplied by its square.

The gradient of the tempered KL is about 1/T² of the others. If a cross-entropy with labels is added, T² keeps the
balance of the two when T changes. This rule is off by default: without a second loss the factor is a matter of taste,
and it is often applied by the caller.

Without T²:

>>> import torch
>>> from torch.nn import functional as tf
>>> student, teacher, T = torch.tensor([[1.0, 2.0, 0.5]]), torch.tensor([[0.3, 0.1, 0.9]]), 4.0
>>> tf.kl_div(tf.log_softmax(student / T, -1), tf.softmax(teacher / T, -1), reduction="batchmean")
tensor(0.0280)

With T²:

>>> tf.kl_div(tf.log_softmax(student / T, -1), tf.softmax(teacher / T, -1), reduction="batchmean") * T**2
tensor(0.4479)

In kullback:

>>> from kullback import Logits, kl
>>> kl(Logits(teacher / T), Logits(student / T), reduction="mean") * T**2
tensor(0.4479)
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from kullback.lint.finding import INFO, Problem, Rule
from kullback.lint.kl_calls import kl_calls
from kullback.lint.resolver import Module


def check(module: Module) -> Iterator[Problem]:
    """Find KL calls with one divisor inside both softmaxes and no square of it in the function."""
    for call in kl_calls(module):
        divisors = [_temperature(module, side) for side in (call.input, call.target)]
        if divisors[0] is None or divisors[1] is None or not module.same(divisors[0], divisors[1]):
            continue
        function = module.enclosing_function(call.node)
        if not any(_is_square(n, divisors[0], module) for n in ast.walk(function)):
            yield call.node, f"both sides are divided by {module.text(divisors[0])}; multiply the loss by its square"


def _temperature(module: Module, node: ast.expr | None) -> ast.expr | None:
    value = None if node is None else module.value(node)
    if not isinstance(value, ast.Call):
        return None
    if isinstance(value.func, ast.Attribute) and value.func.attr in {"detach", "float"} and not value.args:
        return _temperature(module, value.func.value)
    inside = value.args[0] if value.args else None
    if isinstance(inside, ast.Name):
        inside = module.value(inside)
    is_quotient = isinstance(inside, ast.BinOp) and isinstance(inside.op, ast.Div)
    return inside.right if is_quotient and isinstance(inside, ast.BinOp) else None


def _is_square(node: ast.AST, divisor: ast.expr, module: Module) -> bool:
    if not isinstance(node, ast.BinOp):
        return False
    if isinstance(node.op, ast.Pow):
        return module.same(node.left, divisor) or isinstance(node.left, ast.Constant)
    return isinstance(node.op, ast.Mult) and module.same(node.left, divisor) and module.same(node.right, divisor)


RULE = Rule("KL025", "temperature without its square", INFO, check, __doc__, "kl_div|KLDivLoss", on_by_default=False)
