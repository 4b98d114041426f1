"""KL003: the target of `kl_div` is a log-probability, and `log_target=True` is missing.

Without `log_target=True` torch takes the logarithm of the target, which is negative here: the result is NaN.

Wrong:

>>> import torch
>>> from torch.nn import functional as tf
>>> log_q = tf.log_softmax(torch.tensor([[1.0, 2.0, 0.5]]), dim=-1)
>>> log_p = tf.log_softmax(torch.tensor([[0.3, 0.1, 0.9]]), dim=-1)
>>> tf.kl_div(log_q, log_p, reduction="batchmean")
tensor(nan)

Right, in torch:

>>> tf.kl_div(log_q, log_p, reduction="batchmean", log_target=True)
tensor(0.4528)

Right, in kullback:

>>> from kullback import LogProbs, kl
>>> kl(LogProbs(log_p), LogProbs(log_q), reduction="mean")
tensor(0.4528)
"""

from __future__ import annotations

from collections.abc import Iterator

from kullback.lint.finding import ERROR, Problem, Rule
from kullback.lint.kl_calls import targets
from kullback.lint.resolver import LOGARITHM, Module


def check(module: Module) -> Iterator[Problem]:
    """Find logarithms as targets of calls whose `log_target` is certainly false."""
    problem = "the target of kl_div is a logarithm and log_target is False: the result is NaN or meaningless; "
    for target in targets(module, LOGARITHM, log_target=False):
        yield target, problem + "write log_target=True"


RULE = Rule("KL003", "log-probability as target without log_target", ERROR, check, __doc__, "kl_div|KLDivLoss")
