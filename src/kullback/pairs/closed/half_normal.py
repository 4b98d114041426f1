"""KL(HalfNormal ‖ itself); other q are integrals of the engine. Called by `pairs.dispatch`."""

from __future__ import annotations

from torch import Tensor
from torch.distributions import HalfNormal

from kullback.kernels.pair_ops import PairOp
from kullback.pairs.closed.normal import scale_term
from kullback.pairs.registry import register


@register(HalfNormal, HalfNormal, source="½φ(2·log(σ_p/σ_q)), that of the Normals centred at 0", finished=True)
def kl_half_normal_half_normal(p: HalfNormal, q: HalfNormal) -> Tensor:
    """Both Normals are symmetric, and |x| keeps the rest."""
    return half_normal_op(p.scale, q.scale)


half_normal_op = PairOp("half_normal", scale_term, arguments=("scale_p", "scale_q"))
