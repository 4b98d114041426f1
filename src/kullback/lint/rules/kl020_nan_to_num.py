"""KL020: `nan_to_num` around a KL hides a NaN whose gradient is still NaN.

Wrong:

>>> import torch
>>> from torch.nn import functional as tf
>>> logits = torch.tensor([[0.0, -torch.inf, 1.0]], requires_grad=True)
>>> other = torch.tensor([[0.5, -torch.inf, 0.1]])
>>> loss = torch.nan_to_num(tf.kl_div(other.log_softmax(-1), logits.log_softmax(-1), reduction="sum", log_target=True))
>>> loss.backward()
>>> logits.grad.isfinite().all()
tensor(False)

Right, in kullback (entries outside the support of both sides contribute nothing):

>>> from kullback import Logits, kl
>>> logits = torch.tensor([[0.0, -torch.inf, 1.0]], requires_grad=True)
>>> kl(Logits(logits), Logits(other)).sum().backward()
>>> logits.grad.isfinite().all()
tensor(True)
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from kullback.lint.finding import WARNING, Problem, Rule
from kullback.lint.kl_calls import kl_calls
from kullback.lint.resolver import Module

_MESSAGE = (
    "nan_to_num hides the NaN of the value, not that of the gradient; remove what makes it: zeros or -inf in the input"
)


def check(module: Module) -> Iterator[Problem]:
    """Find `nan_to_num` of a KL call or of a name that holds one."""
    kl_nodes = {id(call.node) for call in kl_calls(module)}
    for call in module.calls:
        is_function = module.function(call) == "torch.nan_to_num"
        is_method = isinstance(call.func, ast.Attribute) and call.func.attr in {"nan_to_num", "nan_to_num_"}
        if not is_function and not is_method:
            continue
        inside = call.args[0] if is_function and call.args else call.func.value if is_method else None  # type: ignore[attr-defined]
        if isinstance(inside, ast.expr) and any(id(value) in kl_nodes for value in module.values(inside)):
            yield call, _MESSAGE


RULE = Rule("KL020", "nan_to_num around a KL", WARNING, check, __doc__, "kl_div|KLDivLoss")
