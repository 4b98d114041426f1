"""KL(Cauchy ‖ q)."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.distributions import Cauchy, Normal

from kullback._core.special._double_double import two_difference
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
    """Symmetric in p and q; roots before the product, so that it neither over- nor underflows.

    With γ and γ' the larger and the smaller scale, the slope in γ is (γ² − γ'² − Δμ²)/(γ·((γ+γ')² + Δμ²)). Where
    |Δμ| is about γ its two large terms cancel, unless the divergence is written with their difference, as

        log(|Δμ|/(2γ')) + log(1 + ((γ − |Δμ|)² + γ'² + 2γγ')/(2γ|Δμ|)).
    """
    unit = 2 * scale_p.sqrt() * scale_q.sqrt()
    value = torch.log1p(((scale_p - scale_q) / unit) ** 2 + ((loc_p - loc_q) / unit) ** 2)
    difference, rest = two_difference(loc_p, loc_q)
    wide = torch.where(scale_p >= scale_q, scale_p, scale_q)
    alike = (difference.abs() > 0.5 * wide) & (difference.abs() < 2 * wide)
    sign = torch.where(difference < 0, -1.0, 1.0)
    distance = torch.where(alike, sign * difference, 1.0)
    large = torch.where(alike, wide, 1.0)
    small = torch.where(alike, torch.where(scale_p >= scale_q, scale_q, scale_p), 1.0)
    gap = (large - distance) - torch.where(alike, sign * rest, 0.0).detach()
    share = gap / large * (gap / distance) / 2 + small / distance * (1 + small / large / 2)
    return torch.where(alike, torch.log1p(share) + torch.log(distance / small / 2), value)
