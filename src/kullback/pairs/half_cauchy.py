"""KL(HalfCauchy ‖ q)."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.distributions import HalfCauchy

from kullback.pairs.cauchy import cauchy_cauchy
from kullback.pairs.parameters import read
from kullback.pairs.registry import register


@register(
    HalfCauchy, HalfCauchy, source="that of the Cauchys: |x| keeps all there is to know about laws symmetric in 0"
)
def kl_half_cauchy_half_cauchy(p: HalfCauchy, q: HalfCauchy) -> Tensor:
    """The Cauchys centred at 0."""
    (scale_p,), (scale_q,) = read(p, "scale"), read(q, "scale")
    return cauchy_cauchy(torch.zeros_like(scale_p), scale_p, torch.zeros_like(scale_q), scale_q)
