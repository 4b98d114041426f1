"""KL011: `reduction="none"` is followed by a mean over the class dimension.

`F.kl_div(…, reduction="none").mean()` is the same as `reduction="mean"`: the sum over the classes is divided by their
number. The classes are summed, and the rest is averaged.

Wrong:

>>> import torch
>>> from torch.nn import functional as tf
>>> log_q = tf.log_softmax(torch.tensor([[1.0, 2.0, 0.5, 0.0]]), dim=-1)
>>> p = tf.softmax(torch.tensor([[0.3, 0.1, 0.9, 0.0]]), dim=-1)
>>> tf.kl_div(log_q, p, reduction="none").mean()
tensor(0.1050)

Right, in torch:

>>> tf.kl_div(log_q, p, reduction="none").sum(-1).mean()
tensor(0.4201)

Right, in kullback:

>>> from kullback import LogProbs, Probs, kl
>>> kl(Probs(p), LogProbs(log_q), reduction="mean")
tensor(0.4201)
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from kullback.lint.finding import WARNING, Problem, Rule
from kullback.lint.kl_calls import KLCall, kl_calls
from kullback.lint.resolver import Module, integer


def check(module: Module) -> Iterator[Problem]:
    """Find means over everything, or over the last dimension, of the elementwise KL."""
    for call in kl_calls(module):
        if call.reduction != "none":
            continue
        for node in _readings(module, call.node):
            mean = _mean(module, node)
            if mean is not None and _over_classes(
                module, call, mean, method=isinstance(module.parent(node), ast.Attribute)
            ):
                yield mean, "this mean divides by the number of classes, too; write .sum(-1).mean()"


def _readings(module: Module, node: ast.AST) -> Iterator[ast.AST]:
    """The call itself and, if it is assigned to a name, the reads of that name until it is assigned again."""
    yield node
    parent = module.parent(node)
    if isinstance(parent, ast.Assign) and len(parent.targets) == 1 and isinstance(parent.targets[0], ast.Name):
        for use in module.uses_after(parent.targets[0].id, parent):
            if module.value(use) is node:
                yield use


def _mean(module: Module, node: ast.AST) -> ast.Call | None:
    parent = module.parent(node)
    if isinstance(parent, ast.Attribute) and parent.attr == "mean":
        call = module.parent(parent)
        return call if isinstance(call, ast.Call) and call.func is parent else None
    if isinstance(parent, ast.Call) and module.function(parent) == "torch.mean" and parent.args[:1] == [node]:
        return parent
    return None


def _over_classes(module: Module, call: KLCall, mean: ast.Call, *, method: bool) -> bool:
    positional = mean.args if method else mean.args[1:]
    dims = [*positional[:1], *(k.value for k in mean.keywords if k.arg in {"dim", "axis"})]
    if not dims:
        return True
    class_dim = module.class_dim(call.input) or module.class_dim(call.target) or -1
    return integer(dims[0]) == class_dim


RULE = Rule("KL011", "mean over the classes after reduction='none'", WARNING, check, __doc__, "kl_div|KLDivLoss")
