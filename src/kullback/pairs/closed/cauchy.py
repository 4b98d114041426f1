"""KL(Cauchy ‖ q) and KL(HalfCauchy ‖ q). Called by `pairs.dispatch`."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.distributions import Cauchy, HalfCauchy

from kullback.kernels.pair_ops import PairOp
from kullback.pairs.registry import register


@register(Cauchy, Cauchy, source="log(1 + (Δγ² + Δμ²)/(4γ_pγ_q)), Chyzak & Nielsen, arXiv 1905.10965", finished=True)
def kl_cauchy_cauchy(p: Cauchy, q: Cauchy) -> Tensor:
    """Symmetric in p and q."""
    return cauchy_op(p.loc, p.scale, q.loc, q.scale)


def _cauchy_cauchy(loc_p: Tensor, scale_p: Tensor, loc_q: Tensor, scale_q: Tensor) -> Tensor:
    unit = 2 * scale_p.sqrt() * scale_q.sqrt()  # roots before the product, which could overflow
    return torch.log1p(((scale_p - scale_q) / unit) ** 2 + ((loc_p - loc_q) / unit) ** 2)


cauchy_op = PairOp("cauchy", _cauchy_cauchy, arguments=("loc_p", "scale_p", "loc_q", "scale_q"))


@register(
    HalfCauchy, HalfCauchy, source="that of the Cauchys: both are symmetric, and |x| keeps the rest", finished=True
)
def kl_half_cauchy_half_cauchy(p: HalfCauchy, q: HalfCauchy) -> Tensor:
    """The Cauchys centred at 0."""
    return cauchy_op(torch.zeros_like(p.scale), p.scale, torch.zeros_like(q.scale), q.scale)
