"""KL(RelaxedOneHotCategorical ‖ q) at equal temperatures, on which it does not depend.

With v the log-ratios log(q_i/p_i) less their mean over the K classes, Frullani's integral of the expected logarithm of
a sum of exponential variables (t = eˢ) becomes

    KL = K ∫ (1 + eˢ)^(−K) (1 − e^(−D(s))) ds,    D(s) = Σ_i [log((1 + eˢ⁺ᵛⁱ)/(1 + eˢ)) − v_i σ(s)],

where every term of D is the divergence of one trial with log-odds s from the one tilted by v_i: non-negative and
quadratic in v. The trapezoid rule converges geometrically. At different temperatures no route is known that keeps its
digits near equality, and none is taken; the slope in the temperatures at equality is

    ∂KL/∂log(T_q/T_p) = 1 + Σ_i a_i − K ∫ Π_j (1 + eˢ⁺ᵛʲ)^(−1) Σ_i σ(s + v_i) [a_i + log(1 + eˢ⁺ᵛⁱ)] ds,

a the log-weights of p.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.distributions import Categorical, RelaxedOneHotCategorical
from torch.distributions.relaxed_categorical import ExpRelaxedCategorical

from kullback.pairs.outcomes import kl_of_tilt
from kullback.pairs.parameters import gives_logits, read
from kullback.pairs.ratios import log_ratio
from kullback.pairs.registry import register
from kullback.pairs.visible import hidden, surely

_INTERVALS = 768
# The integrand falls like eˢ on the left and like e^(−Ks) on the right.
_LEFT, _RIGHT = 42.0, 45.0
# Its square is infinite in float64.
_REFUSED = 1e160


@register(
    ExpRelaxedCategorical,
    ExpRelaxedCategorical,
    method="integral",
    source="K ∫ (1+eˢ)^(−K) (1 − e^(−D(s))) ds at equal temperatures (Frullani)",
)
def kl_exp_relaxed_categorical_exp_relaxed_categorical(
    p: ExpRelaxedCategorical, q: ExpRelaxedCategorical
) -> tuple[Tensor, Tensor] | None:
    """None if a temperature differs; NaN for such a pair while compiling or inside a transform, which hide values."""
    (t_p,), (t_q,) = read(p, "temperature"), read(q, "temperature")
    if not surely(t_p == t_q) and not hidden():
        return None
    change, log_p, outside_p, outside_q = _log_change(p._categorical, q._categorical)
    kept = ~(outside_p & outside_q)
    count = kept.sum(-1, keepdim=True).to(change.dtype)
    centred = torch.where(kept, change - change.sum(-1, keepdim=True) / count, 0.0)
    low = -centred.detach().amax(-1) - torch.log(count.squeeze(-1)) - _LEFT
    high = torch.log(torch.expm1(_RIGHT / count.squeeze(-1)))
    step = (high - low) / _INTERVALS
    index = torch.arange(_INTERVALS + 1, dtype=low.dtype, device=low.device)
    s = low.unsqueeze(-1) + step.unsqueeze(-1) * index
    excess = kl_of_tilt(s.unsqueeze(-1), centred.unsqueeze(-2)).sum(-1)
    terms = count * torch.exp(count * torch.nn.functional.logsigmoid(-s)) * -torch.expm1(-excess)
    fine, coarse = step * terms.sum(-1), 2 * step * terms[..., ::2].sum(-1)
    value, error = torch.where((outside_p ^ outside_q).any(-1), math.inf, fine), (fine - coarse).detach().abs()
    if hidden() or t_p.requires_grad or t_q.requires_grad:
        tilted = s.unsqueeze(-1) + centred.unsqueeze(-2)
        slope = _slope_in_temperature(tilted, log_p.unsqueeze(-2), kept.unsqueeze(-2), step)
        ratio = torch.log(t_q) - torch.log(t_p)
        change_of_ratio = ratio - ratio.detach()
        slope = torch.where(value.isinf(), 0.0, slope)
        # The curvature in the temperatures is not provided: it comes out infinite, never as a plausible number.
        value = value + change_of_ratio * slope + (change_of_ratio * _REFUSED) ** 2
    return torch.where(t_p == t_q, value, math.nan), error


@register(
    RelaxedOneHotCategorical,
    RelaxedOneHotCategorical,
    method="integral",
    source="that of the logarithms: the exponential is a bijection",
)
def kl_relaxed_one_hot_categorical_relaxed_one_hot_categorical(
    p: RelaxedOneHotCategorical, q: RelaxedOneHotCategorical
) -> tuple[Tensor, Tensor] | None:
    """See the module's formula."""
    return kl_exp_relaxed_categorical_exp_relaxed_categorical(p.base_dist, q.base_dist)


def _slope_in_temperature(tilted: Tensor, log_p: Tensor, kept: Tensor, step: Tensor) -> Tensor:
    """The module's slope; `tilted` is s + v by node and class."""
    loss = torch.where(kept, -torch.nn.functional.logsigmoid(-tilted), 0.0)
    parts = torch.where(kept, torch.sigmoid(tilted) * (log_p + loss), 0.0)
    expected = step * (torch.exp(-loss.sum(-1)) * parts.sum(-1)).sum(-1)
    return 1 + torch.where(kept, log_p, 0.0).squeeze(-2).sum(-1) - kept.squeeze(-2).sum(-1) * expected


def _log_change(p: Categorical, q: Categorical) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """The logarithms of q/p and of p per class, 0 outside either support, and where each side has no mass."""
    logits_p, logits_q = gives_logits(p), gives_logits(q)
    (x,), (y,) = read(p, "logits" if logits_p else "probs"), read(q, "logits" if logits_q else "probs")
    outside_p, outside_q = (t == (-math.inf if logits else 0.0) for t, logits in ((x, logits_p), (y, logits_q)))
    inside = ~(outside_p | outside_q)
    x, y = (torch.where(inside, t, 1.0) for t in (x, y))
    log_p = x if logits_p else torch.log(x)
    if not logits_p and not logits_q:
        return log_ratio(y, x), log_p, outside_p, outside_q
    return (y if logits_q else torch.log(y)) - log_p, log_p, outside_p, outside_q
