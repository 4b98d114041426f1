"""KL001: a string is passed to `size_average` or `reduce`, and the reduction is "mean".

`KLDivLoss` and `kl_div` keep two arguments of an old interface before `reduction`. `KLDivLoss("batchmean")` sets
`size_average="batchmean"`, which is true, which means `reduction="mean"`: the sum is divided by the number of all
elements, not by the batch size. torch does not complain about the string.

Wrong:

>>> import torch, warnings
>>> from torch.nn import functional as tf
>>> warnings.simplefilter("ignore")
>>> log_q = torch.tensor([[0.1, 0.9], [0.4, 0.6]]).log()
>>> p = torch.tensor([[0.5, 0.5], [0.5, 0.5]])
>>> torch.nn.KLDivLoss("batchmean")(log_q, p)
tensor(0.1328)

Right, in torch:

>>> torch.nn.KLDivLoss(reduction="batchmean")(log_q, p)
tensor(0.2656)

Right, in kullback:

>>> from kullback import LogProbs, Probs, kl
>>> kl(Probs(p), LogProbs(log_q), reduction="mean")
tensor(0.2656)
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from kullback.lint.finding import ERROR, Problem, Rule
from kullback.lint.kl_calls import KLCall, is_kl_div_loss
from kullback.lint.resolver import Module


def check(module: Module) -> Iterator[Problem]:
    """Find strings in the places of the two booleans."""
    for call in module.calls:
        is_function = module.function(call) == "torch.nn.functional.kl_div"
        if not is_function and not is_kl_div_loss(module, call):
            continue
        settings = KLCall(module, call, None if is_function else call).settings
        for name in ("size_average", "reduce"):
            node = settings.get(name)
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                yield (
                    node,
                    (
                        f"{node.value!r} is passed to `{name}`, where any string means reduction='mean'; "
                        f"write reduction={node.value!r}"
                    ),
                )


RULE = Rule("KL001", "reduction in the place of size_average", ERROR, check, __doc__, "kl_div|KLDivLoss")
