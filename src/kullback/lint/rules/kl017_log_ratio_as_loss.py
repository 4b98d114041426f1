"""KL017: the log-ratio of two policies is added to the loss, where its gradient is zero on average.

The mean of log π(a) − log π_ref(a) over samples *estimates* KL(π ‖ π_ref), but differentiating it gives
E[∇ log π] = 0: pure noise. Half its square has the gradient of the KL. This rule is off by default, because it cannot
see whether the loss is weighted by an importance ratio elsewhere.

Wrong (the exact expectation of the gradient over all actions):

>>> import torch
>>> logits = torch.tensor([0.5, -0.3, 0.1], requires_grad=True)
>>> reference = torch.tensor([0.2, 0.5, 0.3]).log()
>>> log_prob = logits.log_softmax(-1)
>>> probability = log_prob.detach().exp()
>>> gradient, = torch.autograd.grad((probability * (log_prob - reference)).sum(), logits, retain_graph=True)
>>> gradient.abs().max() < 1e-6
tensor(True)

Right, in torch:

>>> gradient, = torch.autograd.grad((probability * 0.5 * (log_prob - reference) ** 2).sum(), logits)
>>> gradient
tensor([ 0.2918, -0.2327, -0.0591])

Right, in kullback (exactly, from the logits):

>>> from kullback import Logits, LogProbs, kl
>>> torch.autograd.grad(kl(Logits(logits), LogProbs(reference)), logits)[0]
tensor([ 0.2918, -0.2327, -0.0591])
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from kullback.lint.finding import WARNING, Problem, Rule
from kullback.lint.resolver import Module


def check(module: Module) -> Iterator[Problem]:
    """Find a mean or sum of a difference of two `log_prob` results in a sum that is differentiated or returned."""
    for call in module.calls:
        inside = _reduced(module, call)
        value = None if inside is None else module.value(inside)
        if not isinstance(value, ast.BinOp) or not isinstance(value.op, ast.Sub):
            continue
        if _is_log_prob(module, value.left) and _is_log_prob(module, value.right) and _is_added(module, call):
            yield call, "the gradient of a mean log-ratio is zero on average; write 0.5 * log_ratio ** 2 for the loss"


def _reduced(module: Module, call: ast.Call) -> ast.expr | None:
    if module.function(call) in {"torch.mean", "torch.sum"} and call.args:
        return call.args[0]
    is_method = isinstance(call.func, ast.Attribute) and call.func.attr in {"mean", "sum"}
    return call.func.value if is_method and isinstance(call.func, ast.Attribute) else None


def _is_log_prob(module: Module, node: ast.expr) -> bool:
    value = module.value(node)
    return isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute) and value.func.attr == "log_prob"


def _is_added(module: Module, node: ast.AST) -> bool:
    parent = module.parent(node)
    while isinstance(parent, ast.BinOp) and isinstance(parent.op, ast.Mult):
        node, parent = parent, module.parent(parent)
    if isinstance(parent, ast.Assign) and isinstance(parent.targets[0], ast.Name):
        return any(_is_added(module, use) for use in module.uses_after(parent.targets[0].id, parent))
    is_sum = isinstance(parent, ast.BinOp) and isinstance(parent.op, ast.Add)
    return is_sum or (isinstance(parent, ast.Attribute) and parent.attr == "backward")


RULE = Rule("KL017", "log-ratio of policies as a loss", WARNING, check, __doc__, "log_prob", on_by_default=False)
