"""KL007: the mixture of a Jensen–Shannon divergence is the target of `kl_div`, so that the direction is reversed.

`F.kl_div(log_p, m)` is KL(m ‖ p). The Jensen–Shannon divergence is ½KL(p ‖ m) + ½KL(q ‖ m): the logarithm of the
mixture is the input, and p and q are the targets. The reversed sum is unbounded; the Jensen–Shannon divergence is at
most log 2.

Wrong:

>>> import torch
>>> from torch.nn import functional as tf
>>> p, q = torch.tensor([[0.99, 0.01]]), torch.tensor([[0.01, 0.99]])
>>> m = 0.5 * (p + q)
>>> 0.5 * (tf.kl_div(p.log(), m, reduction="batchmean") + tf.kl_div(q.log(), m, reduction="batchmean"))
tensor(1.6145)

Right, in torch:

>>> 0.5 * (tf.kl_div(m.log(), p, reduction="batchmean") + tf.kl_div(m.log(), q, reduction="batchmean"))
tensor(0.6371)

Right, in kullback:

>>> from kullback import Probs, js
>>> js(Probs(p), Probs(q), reduction="mean")
tensor(0.6371)
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from kullback.lint.finding import ERROR, Problem, Rule
from kullback.lint.kl_calls import KLCall, kl_calls
from kullback.lint.resolver import PROBABILITY, Module, mixture_of


def check(module: Module) -> Iterator[Problem]:
    """Find two KL calls of one function with the same mixture of probabilities as their target."""
    by_target: dict[tuple[ast.AST, str], list[KLCall]] = {}
    for call in kl_calls(module):
        value = None if call.target is None else module.value(call.target)
        parts = None if value is None else mixture_of(_without_clamp(value))
        if parts and all(module.kind(part) == PROBABILITY for part in parts) and value is not None:
            by_target.setdefault((module.enclosing_function(call.node), ast.dump(value)), []).append(call)
    for calls in by_target.values():
        if len(calls) < 2:
            continue
        for call in calls:
            assert call.target is not None
            yield (
                call.target,
                (
                    "the mixture is the target, so this is KL(mixture ‖ p); "
                    "write kl_div(mixture.log(), p) for KL(p ‖ mixture)"
                ),
            )


def _without_clamp(node: ast.expr) -> ast.expr:
    while isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in {"clamp", "clip"}:
        node = node.args[0] if isinstance(node.func.value, ast.Name) and len(node.args) > 2 else node.func.value
    return node


RULE = Rule("KL007", "Jensen–Shannon with reversed arguments", ERROR, check, __doc__, "kl_div|KLDivLoss")
