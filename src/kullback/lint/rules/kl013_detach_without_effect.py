"""KL013: the result of `x.detach()` is thrown away, and x is later the target.

`detach()` returns a new tensor and leaves x as it is. The gradient still flows into the teacher.

Wrong:

>>> import torch
>>> from torch.nn import functional as tf
>>> teacher = torch.tensor([[0.3, 0.1, 0.9]], requires_grad=True)
>>> target = tf.softmax(teacher, dim=-1)
>>> _ = target.detach()
>>> target.requires_grad
True

Right, in torch:

>>> target = tf.softmax(teacher, dim=-1).detach()
>>> target.requires_grad
False

Right, in kullback:

>>> from kullback import Logits, kl
>>> student = torch.tensor([[1.0, 2.0, 0.5]], requires_grad=True)
>>> kl(Logits(teacher.detach()), Logits(student), reduction="mean").backward()
>>> teacher.grad is None
True
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from kullback.lint.finding import WARNING, Problem, Rule
from kullback.lint.kl_calls import kl_calls
from kullback.lint.resolver import Module


def check(module: Module) -> Iterator[Problem]:
    """Find the statement `x.detach()` before a KL call whose target is x."""
    in_targets = {id(n) for call in kl_calls(module) if call.target is not None for n in ast.walk(call.target)}
    for node in module.nodes:
        call = node.value if isinstance(node, ast.Expr) else None
        if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Attribute) or call.func.attr != "detach":
            continue
        owner = call.func.value
        if isinstance(owner, ast.Name) and any(id(use) in in_targets for use in module.uses_after(owner.id, node)):
            yield call, f"detach() returns a new tensor and this one is dropped; write {owner.id} = {owner.id}.detach()"


RULE = Rule("KL013", "detach without effect", WARNING, check, __doc__, "kl_div|KLDivLoss")
