"""KL010: the reduction is "mean", which divides by the number of classes as well as by the batch size.

A KL is a sum over the classes. `reduction="mean"`, the default, divides that sum by `input.numel()`: the loss is too
small by the number of classes, which is 1,000 on ImageNet and 128,000 in a language model.

Wrong:

>>> import torch, warnings
>>> from torch.nn import functional as tf
>>> warnings.simplefilter("ignore")
>>> log_q = tf.log_softmax(torch.tensor([[1.0, 2.0, 0.5, 0.0]]), dim=-1)
>>> p = tf.softmax(torch.tensor([[0.3, 0.1, 0.9, 0.0]]), dim=-1)
>>> tf.kl_div(log_q, p)
tensor(0.1050)

Right, in torch:

>>> tf.kl_div(log_q, p, reduction="batchmean")
tensor(0.4201)

Right, in kullback:

>>> from kullback import LogProbs, Probs, kl
>>> kl(Probs(p), LogProbs(log_q), reduction="mean")
tensor(0.4201)
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from kullback.lint.finding import WARNING, Problem, Rule
from kullback.lint.kl_calls import KLCall, kl_calls
from kullback.lint.resolver import Module, is_number

# Only silences the rule: a factor with such a name is taken for the number of classes.
_CLASS_COUNT = re.compile(r"class|vocab|categor|label|num_c|n_c|ncls|_dim|dim_|numel|size|^[ckvn]$|^nc$", re.IGNORECASE)
_RANDOM = {"torch.rand", "torch.randn", "torch.rand_like", "torch.randn_like"}


def check(module: Module) -> Iterator[Problem]:
    """Find KL calls with mean reduction that no factor compensates."""
    for call in kl_calls(module):
        if call.reduction != "mean" or _is_string_in_the_wrong_place(call):
            continue
        if not _compensated(module, call.node) and not _is_random(module, call):
            written = "reduction='mean'" if "reduction" in call.settings else "the default reduction 'mean'"
            yield (
                call.node,
                (
                    f"{written} divides by the number of classes, too; write reduction='batchmean' "
                    "(or 'none', then .sum(-1).mean())"
                ),
            )


def _is_string_in_the_wrong_place(call: KLCall) -> bool:
    """KL001 reports these."""
    legacy = (call.settings.get("size_average"), call.settings.get("reduce"))
    return any(isinstance(node, ast.Constant) and isinstance(node.value, str) for node in legacy)


def _compensated(module: Module, node: ast.AST, depth: int = 0) -> bool:
    parent = module.parent(node)
    while isinstance(parent, ast.BinOp) and isinstance(parent.op, (ast.Mult, ast.Div)):
        other = parent.right if parent.left is node else parent.left
        if isinstance(parent.op, ast.Mult) and _is_class_count(other):
            return True
        node, parent = parent, module.parent(parent)
    if isinstance(parent, ast.Assign) and len(parent.targets) == 1 and isinstance(parent.targets[0], ast.Name):
        uses = module.uses_after(parent.targets[0].id, parent)
        return depth == 0 and any(_compensated(module, use, 1) for use in uses)
    return False


def _is_class_count(node: ast.AST) -> bool:
    for part in ast.walk(node):
        if isinstance(part, ast.Name) and _CLASS_COUNT.search(part.id):
            return True
        if isinstance(part, ast.Attribute) and (part.attr == "shape" or _CLASS_COUNT.search(part.attr)):
            return True
        if isinstance(part, ast.Call) and isinstance(part.func, ast.Name) and part.func.id == "len":
            return True
    return is_number(node) and float(ast.literal_eval(node)) >= 10


def _is_random(module: Module, call: KLCall) -> bool:
    """Both sides are made of random numbers in the same function: a test of agreement, not training."""
    sides = [side for side in (call.input, call.target) if side is not None]
    return bool(sides) and all(_rests_on_random_numbers(module, side) for side in sides)


def _rests_on_random_numbers(module: Module, node: ast.expr) -> bool:
    pending, seen = [node], 0
    while pending and seen < 50:
        part, seen = pending.pop(), seen + 1
        for inner in ast.walk(part):
            if isinstance(inner, ast.Call) and module.function(inner) in _RANDOM:
                return True
            if isinstance(inner, ast.Name) and module.qualified(inner) is None:
                value = module.value(inner)
                pending += [value] if value is not None and value is not inner else []
    return False


RULE = Rule("KL010", "mean over the classes", WARNING, check, __doc__, "kl_div|KLDivLoss")
