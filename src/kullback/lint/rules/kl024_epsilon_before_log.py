"""KL024: an epsilon is added to a probability before its logarithm.

The sum is no longer a distribution, the value has a bias, and in float16 the usual 1e-8 is 0, so that the logarithm is
−inf all the same. Logits need no epsilon.

Wrong:

>>> import torch
>>> p = torch.softmax(torch.tensor([0.0, 30.0]), dim=-1)
>>> torch.log(p + 1e-8)
tensor([-18.4207,   0.0000])

Right, in torch:

>>> torch.log_softmax(torch.tensor([0.0, 30.0]), dim=-1)
tensor([-30.,   0.])

Right, in kullback:

>>> from kullback import Logits, kl
>>> kl(Logits(torch.zeros(2)), Logits(torch.tensor([0.0, 30.0])))
tensor(14.3069)
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from kullback.lint.finding import INFO, Problem, Rule
from kullback.lint.patterns import log_argument
from kullback.lint.resolver import PROBABILITY, Module, is_number

_ADDED = r"\+\s*(?:\d[\d.]*e-\d|0\.0|[\w.]*[eE][pP][sS])"


def check(module: Module) -> Iterator[Problem]:
    """Find log(p + small number) where p comes from a softmax or sigmoid."""
    for call in module.calls:
        inside = log_argument(module, call)
        value = None if inside is None else module.value(inside)
        if not isinstance(value, ast.BinOp) or not isinstance(value.op, ast.Add):
            continue
        for p, epsilon in ((value.left, value.right), (value.right, value.left)):
            number = module.value(epsilon)
            small = number is not None and is_number(number) and 0 < abs(ast.literal_eval(number)) < 1e-2
            if small and module.kind(p) == PROBABILITY:
                yield call, "an epsilon biases the value and vanishes in half precision; use log_softmax of the logits"
                break


RULE = Rule(
    "KL024",
    "epsilon before a logarithm",
    INFO,
    check,
    __doc__,
    _ADDED,
)
