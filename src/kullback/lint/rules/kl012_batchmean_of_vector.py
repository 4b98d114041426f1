"""KL012: `reduction="batchmean"` divides by the size of the class dimension.

`batchmean` divides by the size of dimension 0. If the classes are in dimension 0, as in a vector or after
`softmax(x, dim=0)`, the KL is divided by the number of classes.

Wrong:

>>> import torch
>>> from torch.nn import functional as tf
>>> log_q = tf.log_softmax(torch.tensor([1.0, 2.0, 0.5, 0.0]), dim=0)
>>> p = tf.softmax(torch.tensor([0.3, 0.1, 0.9, 0.0]), dim=0)
>>> tf.kl_div(log_q, p, reduction="batchmean")
tensor(0.1050)

Right, in torch:

>>> tf.kl_div(log_q, p, reduction="sum")
tensor(0.4201)

Right, in kullback:

>>> from kullback import LogProbs, Probs, kl
>>> kl(Probs(p), LogProbs(log_q))
tensor(0.4201)
"""

from __future__ import annotations

from collections.abc import Iterator

from kullback.lint.finding import WARNING, Problem, Rule
from kullback.lint.kl_calls import kl_calls
from kullback.lint.resolver import Module


def check(module: Module) -> Iterator[Problem]:
    """Find `batchmean` calls whose arguments were normalised over dimension 0."""
    for call in kl_calls(module):
        if call.reduction == "batchmean" and 0 in (module.class_dim(call.input), module.class_dim(call.target)):
            yield (
                call.node,
                (
                    "the classes are in dimension 0, and 'batchmean' divides by its size; write reduction='sum', "
                    "or put the batch first"
                ),
            )


RULE = Rule("KL012", "batchmean over the classes", WARNING, check, __doc__, "kl_div|KLDivLoss")
