"""KL(Cauchy ‖ q)."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.distributions import Cauchy

from kullback.pairs.parameters import read
from kullback.pairs.registry import register


@register(Cauchy, Cauchy, source="log(1 + (Δγ² + Δμ²)/(4γ_pγ_q)), Chyzak & Nielsen, arXiv 1905.10965")
def kl_cauchy_cauchy(p: Cauchy, q: Cauchy) -> Tensor:
    """See `cauchy_cauchy`."""
    return cauchy_cauchy(*read(p, "loc", "scale"), *read(q, "loc", "scale"))


def cauchy_cauchy(loc_p: Tensor, scale_p: Tensor, loc_q: Tensor, scale_q: Tensor) -> Tensor:
    """Symmetric in p and q; roots before the product, so that it neither over- nor underflows."""
    unit = 2 * scale_p.sqrt() * scale_q.sqrt()
    return torch.log1p(((scale_p - scale_q) / unit) ** 2 + ((loc_p - loc_q) / unit) ** 2)
