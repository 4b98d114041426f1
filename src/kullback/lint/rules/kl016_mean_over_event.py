"""KL016: the KL of a batch of vectors of Normals is averaged over the vector, too.

`kl_divergence(Normal(mu, std), …)` returns one number per entry. A vector of independent entries has the *sum* of
them as its KL; `.mean()` divides it by the dimension. This rule is off by default, because a batch of plain numbers
looks the same in the source.

Wrong:

>>> import torch
>>> from torch.distributions import Independent, Normal, kl_divergence
>>> mu, std = torch.ones(4, 8), torch.ones(4, 8)
>>> kl_divergence(Normal(mu, std), Normal(torch.zeros(4, 8), torch.ones(4, 8))).mean()
tensor(0.5000)

Right, in torch:

>>> kl_divergence(Normal(mu, std), Normal(torch.zeros(4, 8), torch.ones(4, 8))).sum(-1).mean()
tensor(4.)

Right, in kullback:

>>> from kullback import kl
>>> p, q = Normal(mu, std), Normal(torch.zeros(4, 8), torch.ones(4, 8))
>>> kl(Independent(p, 1), Independent(q, 1), reduction="mean")
tensor(4.)
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from kullback.lint.finding import WARNING, Problem, Rule
from kullback.lint.resolver import Module


def check(module: Module) -> Iterator[Problem]:
    """Find `.mean()` without a dimension directly on the KL of a Normal."""
    for call in module.calls:
        if module.function(call) != "torch.distributions.kl.kl_divergence" or not call.args:
            continue
        made = module.constructor(call.args[0])
        if made is None or module.function(made) != "torch.distributions.normal.Normal":
            continue
        attribute = module.parent(call)
        mean = module.parent(attribute) if isinstance(attribute, ast.Attribute) and attribute.attr == "mean" else None
        if isinstance(mean, ast.Call) and not mean.args and not mean.keywords:
            yield mean, "this mean also divides by the dimension of the vectors; write .sum(-1).mean()"


RULE = Rule(
    "KL016", "mean over the dimensions of a Normal", WARNING, check, __doc__, "kl_divergence", on_by_default=False
)
