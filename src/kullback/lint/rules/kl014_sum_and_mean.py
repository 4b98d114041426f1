"""KL014: one term of a VAE's loss is summed over everything and the other is averaged.

The evidence lower bound adds the two terms per sample. If the reconstruction is a sum and the KL a mean (or the
reverse), the KL has a hidden weight of one over the number of latent entries (or of pixels), which changes with the
batch size.

Wrong:

>>> import torch
>>> from torch.nn import functional as tf
>>> x, y = torch.zeros(4, 100), torch.full((4, 100), 0.5)
>>> mu, logvar = torch.ones(4, 8), torch.zeros(4, 8)
>>> terms = 1 + logvar - mu.pow(2) - logvar.exp()
>>> tf.mse_loss(y, x, reduction="sum"), -0.5 * torch.mean(terms)
(tensor(100.), tensor(0.5000))

Right, in torch (both per sample):

>>> tf.mse_loss(y, x, reduction="sum") / len(x), -0.5 * torch.sum(terms) / len(x)
(tensor(25.), tensor(4.))

Right, in kullback:

>>> from torch.distributions import Normal
>>> from kullback import kl
>>> kl(Normal(mu, (0.5 * logvar).exp()), Normal(0.0, 1.0)).sum(-1).mean()
tensor(4.)
"""

from __future__ import annotations

from collections.abc import Iterator

from kullback.lint.finding import WARNING, Problem, Rule
from kullback.lint.resolver import Module
from kullback.lint.vae import WRITTEN_OUT, sums


def check(module: Module) -> Iterator[Problem]:
    """Find sums of a reconstruction loss and a Gaussian KL whose reductions differ."""
    for terms in sums(module):
        losses = {term.reduction for term in terms if term.kind == "loss"}
        for term in terms:
            if term.kind == "gaussian" and term.reduction and losses and losses <= {"sum", "mean"} - {term.reduction}:
                yield (
                    term.node,
                    (
                        f"the KL is a {term.reduction} over everything and the reconstruction a {losses.pop()}; "
                        "sum both and divide both by the batch size"
                    ),
                )


RULE = Rule("KL014", "reconstruction and KL reduced differently", WARNING, check, __doc__, WRITTEN_OUT)
