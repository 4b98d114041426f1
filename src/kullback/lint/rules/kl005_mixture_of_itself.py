"""KL005: the mixture of a Jensen–Shannon divergence adds a distribution to itself.

`0.5 * (p + p)` is p: one half of the divergence is zero, and the other is a plain KL.

Wrong:

>>> import torch
>>> from torch.nn import functional as tf
>>> p, q = torch.tensor([[0.9, 0.1]]), torch.tensor([[0.4, 0.6]])
>>> m = 0.5 * (p + p)
>>> 0.5 * (tf.kl_div(m.log(), p, reduction="batchmean") + tf.kl_div(m.log(), q, reduction="batchmean"))
tensor(0.3753)

Right, in torch:

>>> m = 0.5 * (p + q)
>>> 0.5 * (tf.kl_div(m.log(), p, reduction="batchmean") + tf.kl_div(m.log(), q, reduction="batchmean"))
tensor(0.1484)

Right, in kullback:

>>> from kullback import Probs, js
>>> js(Probs(p), Probs(q), reduction="mean")
tensor(0.1484)
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from kullback.lint.finding import ERROR, Problem, Rule
from kullback.lint.kl_calls import kl_calls
from kullback.lint.resolver import Module, mixture_of


def check(module: Module) -> Iterator[Problem]:
    """Find `0.5 * (x + x)` in the functions that compute a KL."""
    functions = {module.enclosing_function(call.node) for call in kl_calls(module)}
    for node in module.nodes:
        parts = mixture_of(node) if isinstance(node, ast.BinOp) else None
        if parts is None or module.parent(node) is None or module.enclosing_function(node) not in functions:
            continue
        if not isinstance(parts[0], ast.Constant) and module.same(*parts):
            name = module.text(parts[0])
            yield node, f"this mixture adds `{name}` to itself; write the other distribution in one of the two places"


RULE = Rule("KL005", "mixture of a distribution with itself", ERROR, check, __doc__, "kl_div|KLDivLoss")
