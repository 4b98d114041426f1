"""KL006: the mixture of a Jensen–Shannon divergence is averaged in log space.

½(log p + log q) is the logarithm of the *geometric* mean, which does not sum to one. The mixture of the
Jensen–Shannon divergence is the arithmetic mean: its logarithm is logaddexp(log p, log q) − log 2.

Wrong:

>>> import math, torch
>>> from torch.nn import functional as tf
>>> log_p, log_q = torch.tensor([[0.9, 0.1]]).log(), torch.tensor([[0.4, 0.6]]).log()
>>> log_m = 0.5 * (log_p + log_q)
>>> sum(0.5 * tf.kl_div(log_m, x, reduction="batchmean", log_target=True) for x in (log_p, log_q))
tensor(0.3253)

Right, in torch:

>>> log_m = torch.logaddexp(log_p, log_q) - math.log(2)
>>> sum(0.5 * tf.kl_div(log_m, x, reduction="batchmean", log_target=True) for x in (log_p, log_q))
tensor(0.1484)

Right, in kullback:

>>> from kullback import LogProbs, js
>>> js(LogProbs(log_p), LogProbs(log_q), reduction="mean")
tensor(0.1484)
"""

from __future__ import annotations

from collections.abc import Iterator

from kullback.lint.finding import ERROR, Problem, Rule
from kullback.lint.kl_calls import kl_calls
from kullback.lint.resolver import LOGARITHM, Module, mixture_of


def check(module: Module) -> Iterator[Problem]:
    """Find arguments of a KL call that are half the sum of two logarithms."""
    for call in kl_calls(module):
        for argument in (call.input, call.target):
            value = None if argument is None else module.value(argument)
            parts = None if value is None else mixture_of(value)
            if argument is not None and parts and all(module.kind(part) == LOGARITHM for part in parts):
                yield (
                    argument,
                    (
                        "half the sum of two logarithms is the geometric mean, not the mixture; "
                        "write torch.logaddexp(log_p, log_q) - math.log(2)"
                    ),
                )


RULE = Rule("KL006", "mixture averaged in log space", ERROR, check, __doc__, "kl_div|KLDivLoss")
