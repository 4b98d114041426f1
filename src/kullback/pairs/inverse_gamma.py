"""KL(InverseGamma ‖ q)."""

from __future__ import annotations

from torch import Tensor
from torch.distributions import InverseGamma

from kullback.pairs.gamma import gamma_gamma
from kullback.pairs.parameters import read
from kullback.pairs.registry import register


@register(InverseGamma, InverseGamma, source="that of the Gammas: x → 1/x is a bijection")
def kl_inverse_gamma_inverse_gamma(p: InverseGamma, q: InverseGamma) -> Tensor:
    """The Gammas of the reciprocals."""
    return gamma_gamma(*read(p, "concentration", "rate"), *read(q, "concentration", "rate"))
