"""KL(Cauchy ‖ q)."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.distributions import Cauchy, Normal

from kullback.pairs.parameters import read
from kullback.pairs.registry import register


@register(Cauchy, Cauchy, source="log(1 + (Δγ² + Δμ²)/(4γ_pγ_q)), Chyzak & Nielsen, arXiv 1905.10965")
def kl_cauchy_cauchy(p: Cauchy, q: Cauchy) -> Tensor:
    """See `cauchy_cauchy`."""
    return cauchy_cauchy(*read(p, "loc", "scale"), *read(q, "loc", "scale"))


@register(Cauchy, Normal, method="infinite", source="a Cauchy has no variance")
def kl_cauchy_normal(p: Cauchy, q: Normal) -> Tensor:
    """Infinite everywhere, with a zero gradient."""
    same = cauchy_cauchy(*read(p, "loc", "scale"), *read(q, "loc", "scale"))
    return torch.where(torch.ones_like(same, dtype=torch.bool), torch.inf, same)


def cauchy_cauchy(loc_p: Tensor, scale_p: Tensor, loc_q: Tensor, scale_q: Tensor) -> Tensor:
    """Symmetric in p and q; roots before the product, so that it neither over- nor underflows."""
    unit = 2 * scale_p.sqrt() * scale_q.sqrt()
    return torch.log1p(((scale_p - scale_q) / unit) ** 2 + ((loc_p - loc_q) / unit) ** 2)
