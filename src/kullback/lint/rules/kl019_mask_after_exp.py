"""KL019: a mask multiplies the result of an exponential or logarithm.

inf · 0 and NaN · 0 are NaN: a masked entry that overflows still makes the loss NaN, and so does its gradient. The mask
belongs before the exponential, by `torch.where` or `masked_fill`. This rule is off by default, because it cannot see
whether the masked entries are finite.

Wrong:

>>> import torch
>>> log_ratio = torch.tensor([0.1, 200.0])
>>> mask = torch.tensor([1.0, 0.0])
>>> (torch.exp(log_ratio) * mask).sum()
tensor(nan)

Right, in torch:

>>> torch.exp(log_ratio.masked_fill(mask == 0, -torch.inf)).sum()
tensor(1.1052)

Right, in kullback:

>>> from kullback import Logits, kl
>>> rows = torch.tensor([[0.1, 0.3], [float("nan"), 0.0]])
>>> kl(Logits(rows), Logits(torch.zeros(2, 2)), mask=torch.tensor([True, False]), reduction="mean")
tensor(0.0050)
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from kullback.lint.finding import WARNING, Problem, Rule
from kullback.lint.resolver import Module


def check(module: Module) -> Iterator[Problem]:
    """Find exp(…) * mask and log(…) * mask, where the mask is a comparison or was cast from one."""
    for node in module.nodes:
        if not isinstance(node, ast.BinOp) or not isinstance(node.op, ast.Mult):
            continue
        for value, mask in ((node.left, node.right), (node.right, node.left)):
            if _is_exp_or_log(module, value) and _is_mask(module, mask):
                yield node, "inf * 0 is NaN: apply the mask before exp or log, with torch.where or masked_fill"
                break


def _is_exp_or_log(module: Module, node: ast.expr) -> bool:
    value = module.value(node)
    if not isinstance(value, ast.Call):
        return False
    is_method = isinstance(value.func, ast.Attribute) and value.func.attr in {"exp", "log"}
    return module.function(value) in {"torch.exp", "torch.log"} or is_method


def _is_mask(module: Module, node: ast.expr) -> bool:
    value = module.value(node)
    while isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute):
        value = value.func.value
    return isinstance(value, ast.Compare)


RULE = Rule("KL019", "mask after exp or log", WARNING, check, __doc__, r"\bexp\(|\blog\(", on_by_default=False)
