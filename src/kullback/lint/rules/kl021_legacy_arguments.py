"""KL021: `size_average` and `reduce` are deprecated names of `reduction`.

`size_average=False` is `reduction="sum"`, `reduce=False` is `reduction="none"`, everything else is
`reduction="mean"`. `kullback lint --fix` writes the new name; the value stays the same.

Old:

>>> import torch, warnings
>>> from torch.nn import functional as tf
>>> warnings.simplefilter("ignore")
>>> log_q, p = torch.tensor([[0.1, 0.9]]).log(), torch.tensor([[0.5, 0.5]])
>>> tf.kl_div(log_q, p, size_average=False)
tensor(0.5108)

New:

>>> tf.kl_div(log_q, p, reduction="sum")
tensor(0.5108)

In kullback:

>>> from kullback import LogProbs, Probs, kl
>>> kl(Probs(p), LogProbs(log_q), reduction="sum")
tensor(0.5108)
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from kullback.lint.finding import INFO, Problem, Rule, replace
from kullback.lint.kl_calls import KLCall, is_kl_div_loss
from kullback.lint.resolver import Module


def check(module: Module) -> Iterator[Problem]:
    """Find the two old keywords with constant values."""
    for call in module.calls:
        is_function = module.function(call) == "torch.nn.functional.kl_div"
        if not is_function and not is_kl_div_loss(module, call):
            continue
        read = KLCall(module, call, None if is_function else call)
        old = [k for k in call.keywords if k.arg in {"size_average", "reduce"} and isinstance(k.value, ast.Constant)]
        legacy = [k for k in old if isinstance(k.value, ast.Constant) and isinstance(k.value.value, bool)]
        if not legacy or len(legacy) != len(old) or read.reduction is None:
            continue
        message = f"`{legacy[0].arg}` is deprecated; write reduction={read.reduction!r}"
        only_one = len(legacy) == 1 and "reduction" not in read.settings
        edits = (replace(legacy[0], f'reduction="{read.reduction}"'),) if only_one else ()
        yield legacy[0], message, edits


RULE = Rule("KL021", "deprecated size_average or reduce", INFO, check, __doc__, "kl_div|KLDivLoss")
