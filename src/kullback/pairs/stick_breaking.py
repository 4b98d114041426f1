"""KL(Dirichlet ‖ LogisticNormal) and back: the stick-breaking fractions of both are independent.

Break a stick of length 1: the i-th piece is the fraction z_i of what the pieces before it left. Under a Dirichlet the
fractions are independent, z_i ~ Beta(α_i, α_{i+1} + … + α_K); under torch's LogisticNormal, too: logit z_i is
Normal(μ_i − log(K − i), σ_i). The pieces and the fractions determine each other, so the divergence is the sum of those
of the fractions, one integral each.
"""

from __future__ import annotations

import torch
from torch.distributions import Beta, Dirichlet, LogisticNormal, Normal, TransformedDistribution
from torch.distributions.transforms import SigmoidTransform

from kullback.pairs.parameters import read, working
from kullback.pairs.registry import Reduced, register

_SOURCE = "Σ KL of the stick-breaking fractions, which are Beta and logit-normal"


@register(Dirichlet, LogisticNormal, method="structure", source=_SOURCE)
def kl_dirichlet_logistic_normal(p: Dirichlet, q: LogisticNormal) -> Reduced:
    """See the head of this file."""
    return Reduced(_betas(p), _logit_normals(q), summed=1)


@register(LogisticNormal, Dirichlet, method="structure", source=_SOURCE)
def kl_logistic_normal_dirichlet(p: LogisticNormal, q: Dirichlet) -> Reduced:
    """See the head of this file."""
    return Reduced(_logit_normals(p), _betas(q), summed=1)


def _betas(p: Dirichlet) -> Beta:
    """The concentrations of every piece but the last and of what is left after it."""
    concentration = working(p.concentration)
    left = concentration.flip(-1).cumsum(-1).flip(-1)
    return Beta(concentration[..., :-1], left[..., 1:], validate_args=False)


def _logit_normals(q: LogisticNormal) -> TransformedDistribution:
    """Torch takes log(K − i) away from the location of logit z, so that equal pieces belong to μ = 0."""
    loc, scale = read(q, "loc", "scale")
    pieces_left = torch.arange(loc.shape[-1], 0, -1, dtype=loc.dtype, device=loc.device)
    logits = Normal(loc - torch.log(pieces_left), scale, validate_args=False)
    return TransformedDistribution(logits, [SigmoidTransform()])
