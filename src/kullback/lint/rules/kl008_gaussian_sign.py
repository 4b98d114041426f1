"""KL008: the KL term of a VAE is subtracted from the loss instead of added.

KL(N(μ, σ²) ‖ N(0, 1)) = −½ Σ (1 + log σ² − μ² − σ²). With +½ the loss *rewards* a posterior far from the prior, and
falls without end.

Wrong:

>>> import torch
>>> mu, logvar = torch.tensor([[0.5, -1.0]]), torch.tensor([[0.0, 0.3]])
>>> 0.5 * torch.sum(1 + logvar - mu.pow(2) - logvar.exp())
tensor(-0.6499)

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

from collections.abc import Iterator

from kullback.lint.finding import ERROR, Problem, Rule
from kullback.lint.resolver import Module
from kullback.lint.vae import WRITTEN_OUT, sums


def check(module: Module) -> Iterator[Problem]:
    """Find sums in which a reconstruction loss and minus the KL have the same sign."""
    for terms in sums(module):
        losses = {term.sign for term in terms if term.kind == "loss"}
        for term in terms:
            if term.kind == "gaussian" and losses == {term.sign}:
                yield (
                    term.node,
                    (
                        "1 + log σ² − μ² − σ² is minus twice the KL: this term rewards distance from the prior; "
                        "write -0.5 * torch.sum(1 + logvar - mu.pow(2) - logvar.exp())"
                    ),
                )


RULE = Rule("KL008", "KL of a VAE with the wrong sign", ERROR, check, __doc__, WRITTEN_OUT)
