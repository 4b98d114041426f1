"""KL023: `softmax` without `dim` chooses the dimension by the number of dimensions.

torch takes dimension 0 for tensors of 0, 1 and 3 dimensions and dimension 1 for the others, and warns. For a batch of
sequences, (batch, time, classes), that is a softmax over the *batch*.

Wrong:

>>> import torch, warnings
>>> from torch.nn import functional as tf
>>> warnings.simplefilter("ignore")
>>> tf.softmax(torch.zeros(4, 2, 3))[0, 0]
tensor([0.2500, 0.2500, 0.2500])

Right, in torch:

>>> tf.softmax(torch.zeros(4, 2, 3), dim=-1)[0, 0]
tensor([0.3333, 0.3333, 0.3333])

Right, in kullback (the last dimension, unless `dim=` says otherwise):

>>> from kullback import Logits, kl
>>> kl(Logits(torch.zeros(4, 2, 3)), Logits(torch.zeros(4, 2, 3))).shape
torch.Size([4, 2])
"""

from __future__ import annotations

from collections.abc import Iterator

from kullback.lint.finding import INFO, Problem, Rule
from kullback.lint.resolver import Module

_FUNCTIONS = {"torch.nn.functional.softmax", "torch.nn.functional.log_softmax"}
_MODULES = {"torch.nn.Softmax", "torch.nn.LogSoftmax"}


def check(module: Module) -> Iterator[Problem]:
    """Find softmax calls and modules without a dimension."""
    for call in module.calls:
        name = module.function(call)
        hidden = any(k.arg in {"dim", None} for k in call.keywords)
        if hidden or not (name in _FUNCTIONS or name in _MODULES):
            continue
        if len(call.args) < (2 if name in _FUNCTIONS else 1):
            yield call, "softmax without dim takes dimension 0 for 1-D and 3-D tensors, 1 otherwise; write dim=-1"


RULE = Rule("KL023", "softmax without dim", INFO, check, __doc__, r"[sS]oftmax\((?:[^(),=]|\([^()]*\))*\)")
