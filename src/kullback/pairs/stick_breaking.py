"""KL(Dirichlet ‖ LogisticNormal) and back: the stick-breaking fractions of both are independent.

Break a stick of length 1: the i-th piece is the fraction z_i of what the pieces before it left. Under a Dirichlet the
fractions are independent, z_i ~ Beta(α_i, α_{i+1} + … + α_K); under torch's LogisticNormal, too: logit z_i is
Normal(μ_i − log(K − i), σ_i). The pieces and the fractions determine each other, so the divergence is the sum of those
of the fractions: a closed form in one direction, integrals over a line in the other.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.distributions import Beta, Dirichlet, LogisticNormal, Normal, TransformedDistribution
from torch.distributions.transforms import SigmoidTransform

from kullback.pairs.closed.gamma import entropy_shape
from kullback.pairs.moments import kl_to_normal
from kullback.pairs.parameters import read, working
from kullback.pairs.registry import Reduced, register
from kullback.special import digamma, trigamma


@register(
    Dirichlet, LogisticNormal, source="Σ J(logit z) + KL(Normal of the moments of logit z ‖ Normal), z ~ Beta fractions"
)
def kl_dirichlet_logistic_normal(p: Dirichlet, q: LogisticNormal) -> Tensor:
    """The odds of a Beta(a, b) are those of two Gammas: E logit z = ψ(a) − ψ(b), Var logit z = ψ'(a) + ψ'(b)."""
    a, b = _fractions(p)
    loc, scale = _normals(q)
    variance, total = trigamma(a) + trigamma(b), a + b
    shape = entropy_shape(a) + entropy_shape(b) - entropy_shape(total)
    negentropy = torch.log(variance * (a / total) * b) / 2 + shape
    return kl_to_normal(negentropy, torch.sqrt(variance), digamma(a) - digamma(b), loc, scale).sum(-1)


@register(
    LogisticNormal, Dirichlet, method="structure", source="Σ KL of the stick-breaking fractions: logit-normal ‖ Beta"
)
def kl_logistic_normal_dirichlet(p: LogisticNormal, q: Dirichlet) -> Reduced:
    """One integral a fraction."""
    loc, scale = _normals(p)
    fraction = TransformedDistribution(Normal(loc, scale, validate_args=False), [SigmoidTransform()])
    return Reduced(fraction, Beta(*_fractions(q), validate_args=False), summed=1)


def _fractions(p: Dirichlet) -> tuple[Tensor, Tensor]:
    """The concentrations of every piece but the last and of what is left after it."""
    concentration = working(p.concentration)
    left = concentration.flip(-1).cumsum(-1).flip(-1)
    return concentration[..., :-1], left[..., 1:]


def _normals(q: LogisticNormal) -> tuple[Tensor, Tensor]:
    """Location and scale of logit z; torch takes log(K − i) away, so that equal pieces belong to μ = 0."""
    loc, scale = read(q, "loc", "scale")
    pieces_left = torch.arange(loc.shape[-1], 0, -1, dtype=loc.dtype, device=loc.device)
    return loc - torch.log(pieces_left), scale
