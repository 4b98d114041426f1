"""KL009: the KL term of a VAE lacks the exponential of the log-variance.

In −½ Σ (1 + log σ² − μ² − σ²) the last term is exp(log σ²). Written with `logvar` itself or its square the sum is not
a KL: it can be negative, and its minimum is not at the prior.

Wrong:

>>> import torch
>>> mu, logvar = torch.tensor([[0.5, -1.0]]), torch.tensor([[0.0, 0.3]])
>>> -0.5 * torch.sum(1 + logvar - mu.pow(2) - logvar.pow(2))
tensor(-0.4800)

Right, in torch:

>>> -0.5 * torch.sum(1 + logvar - mu.pow(2) - logvar.exp())
tensor(0.6499)

Right, in kullback:

>>> from torch.distributions import Normal
>>> from kullback import kl
>>> kl(Normal(mu, (0.5 * logvar).exp()), Normal(0.0, 1.0)).sum()
tensor(0.6499)
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from kullback.lint.finding import ERROR, Problem, Rule
from kullback.lint.patterns import signed_terms, squared
from kullback.lint.resolver import Module
from kullback.lint.vae import WRITTEN_OUT


def check(module: Module) -> Iterator[Problem]:
    """Find 1 + x − y² − x and 1 + x − y² − x² of a plain x."""
    for node in module.nodes:
        if not isinstance(node, ast.BinOp) or isinstance(module.parent(node), ast.BinOp):
            continue
        terms = signed_terms(node)
        ones = [sign for sign, term in terms if isinstance(term, ast.Constant) and term.value == 1]
        if len(terms) != 4 or len(ones) != 1:
            continue
        added = [t for s, t in terms if s == ones[0] and not isinstance(t, ast.Constant)]
        subtracted = [t for s, t in terms if s == -ones[0]]
        if len(added) != 1 or len(subtracted) != 2 or not isinstance(added[0], (ast.Name, ast.Attribute)):
            continue
        log_variance = added[0]
        for term, other in (subtracted, subtracted[::-1]):
            base = squared(module, term) or term
            if squared(module, other) is not None and module.same(base, log_variance):
                name = module.text(log_variance)
                yield term, f"`{name}` is a log-variance in one term and a variance in the other; write `{name}.exp()`"
                break


RULE = Rule("KL009", "KL of a VAE without exp", ERROR, check, __doc__, WRITTEN_OUT)
