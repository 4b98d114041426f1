"""KL004: the target of `kl_div` is a probability, and `log_target=True` says that it is a logarithm.

torch then computes Σ exp(target)·(target − input), which is not a divergence; no warning is given.

Wrong:

>>> import torch
>>> from torch.nn import functional as tf
>>> log_q = tf.log_softmax(torch.tensor([[1.0, 2.0, 0.5]]), dim=-1)
>>> p = tf.softmax(torch.tensor([[0.3, 0.1, 0.9]]), dim=-1)
>>> tf.kl_div(log_q, p, reduction="batchmean", log_target=True)
tensor(7.2175)

Right, in torch:

>>> tf.kl_div(log_q, p, reduction="batchmean")
tensor(0.4528)

Right, in kullback:

>>> from kullback import LogProbs, Probs, kl
>>> kl(Probs(p), LogProbs(log_q), reduction="mean")
tensor(0.4528)
"""

from __future__ import annotations

from collections.abc import Iterator

from kullback.lint.finding import ERROR, Problem, Rule
from kullback.lint.kl_calls import targets
from kullback.lint.resolver import PROBABILITY, Module


def check(module: Module) -> Iterator[Problem]:
    """Find probabilities as targets of calls whose `log_target` is certainly true."""
    problem = "the target of kl_div is a probability and log_target is True; "
    for target in targets(module, PROBABILITY, log_target=True):
        yield target, problem + "pass its log_softmax, or remove log_target"


RULE = Rule("KL004", "probability as target with log_target", ERROR, check, __doc__, "kl_div|KLDivLoss")
