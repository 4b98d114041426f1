"""KL002: the first argument of `kl_div` is a probability; it must be a log-probability.

`F.kl_div(input, target)` computes Σ target·(log target − input). With probabilities as `input` the result is a
number without a meaning, often negative, and its gradient does not pull the distributions together.

Wrong:

>>> import torch
>>> from torch.nn import functional as tf
>>> student, teacher = torch.tensor([[1.0, 2.0, 0.5]]), torch.tensor([[0.2, 0.5, 0.3]])
>>> tf.kl_div(tf.softmax(student, dim=-1), teacher, reduction="batchmean")
tensor(-1.4322)

Right, in torch:

>>> tf.kl_div(tf.log_softmax(student, dim=-1), teacher, reduction="batchmean")
tensor(0.0847)

Right, in kullback:

>>> from kullback import Logits, Probs, kl
>>> kl(Probs(teacher), Logits(student), reduction="mean")
tensor(0.0847)
"""

from __future__ import annotations

from collections.abc import Iterator

from kullback.lint.finding import ERROR, Problem, Rule
from kullback.lint.kl_calls import kl_calls
from kullback.lint.resolver import PROBABILITY, Module


def check(module: Module) -> Iterator[Problem]:
    """Find KL calls whose input comes from a softmax or sigmoid."""
    for call in kl_calls(module):
        if call.input is not None and module.kind(call.input) == PROBABILITY:
            yield (
                call.input,
                (
                    "the input of kl_div is a probability, it must be a log-probability; "
                    "write log_softmax (or logsigmoid) in place of softmax (sigmoid)"
                ),
            )


RULE = Rule("KL002", "input is a probability", ERROR, check, __doc__, "kl_div|KLDivLoss")
