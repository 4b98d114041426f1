"""KL(RelaxedOneHotCategorical ‖ q), any temperatures; see `concrete`. At equal ones it does not depend on them."""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.distributions import Categorical, RelaxedOneHotCategorical
from torch.distributions.relaxed_categorical import ExpRelaxedCategorical

from kullback.pairs.concrete import Change, kl_of_change
from kullback.pairs.parameters import gives_logits, read
from kullback.pairs.ratios import log_ratio
from kullback.pairs.registry import register
from kullback.pairs.visible import surely


@register(
    ExpRelaxedCategorical,
    ExpRelaxedCategorical,
    method="integral",
    source="Frullani: E log Σ e^(v_i)·E_i^c = ∫(exp(−eˢ) − Π E exp(−e^(s+v_i)·E^c))ds, c the ratio of temperatures",
)
def kl_exp_relaxed_categorical_exp_relaxed_categorical(
    p: ExpRelaxedCategorical, q: ExpRelaxedCategorical
) -> tuple[Tensor, Tensor]:
    """v_i = log(q_i/p_i) − (c − 1)·log p_i, each difference exact near equality."""
    (t_p,), (t_q,) = read(p, "temperature"), read(q, "temperature")
    log_change, log_p, outside_p, outside_q = _log_change(p._categorical, q._categorical)
    excess = (t_q - t_p) / t_p + torch.zeros_like(log_change[..., 0])
    log_c = log_ratio(t_q, t_p) + torch.zeros_like(excess)
    lacking = outside_p ^ outside_q
    kept = ~(outside_p | outside_q) | lacking
    v = torch.where(kept & ~lacking, log_change - excess.unsqueeze(-1) * log_p, 0.0)
    equal = surely(t_p == t_q) and not (t_p.requires_grad or t_q.requires_grad)
    value, error = kl_of_change(Change(v, kept, excess, log_c), equal=equal)
    infinite = lacking.any(-1)
    return torch.where(infinite, math.inf, value), torch.where(infinite, 0.0, error)


@register(
    RelaxedOneHotCategorical,
    RelaxedOneHotCategorical,
    method="integral",
    source="that of the logarithms: the exponential is a bijection",
)
def kl_relaxed_one_hot_categorical_relaxed_one_hot_categorical(
    p: RelaxedOneHotCategorical, q: RelaxedOneHotCategorical
) -> tuple[Tensor, Tensor]:
    """See KL(ExpRelaxedCategorical ‖ ExpRelaxedCategorical)."""
    return kl_exp_relaxed_categorical_exp_relaxed_categorical(p.base_dist, q.base_dist)


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
