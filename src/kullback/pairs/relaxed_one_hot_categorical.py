"""KL of two Concrete distributions (RelaxedOneHotCategorical) of any temperatures; called by `pairs.dispatch`.

It follows from the ratio c = T_q/T_p of their temperatures and v_i = log q_i − c·log p_i; at equal ones it does not
depend on them.

With E_i exponential variables, S = Σ_i e^(v_i)·E_i^c and K classes, the log-density ratio under p is

    log p/q = (K − 1)·log(1/c) − Σ_i [v_i + (c − 1)·log E_i] + K·log S − K·log Σ_i E_i,

whatever is added to all v_i. Its only expectation without a closed form is Frullani's integral of a product (t = eˢ),

    E log S = −γ + ∫ [1/(1+eˢ) − Π_i Φ(s + v_i)] ds,    Φ(s) = E exp(−eˢ·E^c) = 1 − E exp(−(E·e^(−s))^(1/c)),

where the first form of Φ serves c ≤ 1 and the second c > 1. Every integral is a trapezoid rule on a logarithmic axis,
which converges geometrically. Near equality the terms cancel; there Taylor's remainder on the way from v = 0 and c = 1
takes their place.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.distributions import Categorical, RelaxedOneHotCategorical
from torch.distributions.relaxed_categorical import ExpRelaxedCategorical
from torch.nn.functional import logsigmoid
from torch.utils.checkpoint import checkpoint

from kullback._core.gauss_legendre import gauss_legendre
from kullback._core.special.exp_log import log_ratio
from kullback.densities.parameters import gives_logits, read
from kullback.kernels.levels import is_traced, known_true
from kullback.pairs.closed.gumbel import EULER
from kullback.pairs.exponential_family import taylor_remainder
from kullback.pairs.registry import register
from kullback.special import digamma

# Nodes of log E: e^(−40) is what they leave out on the left, e^(−45) on the right; step 0.2 leaves e^(−33).
_INNER = [0.2 * k for k in range(-200, 20)]
_WEIGHTS = [0.2 * math.exp(y - math.exp(y)) for y in _INNER]
# Intervals of s, and where those far from equality begin to grow.
_INTERVALS, _STRETCH = 256, 8.0
_LEFT, _RIGHT = 42.0, 45.0
# How far v and log c may be from equality for Taylor's remainder, and its nodes.
_NEAR_V, _NEAR_LOG_C = 0.25, 0.05
_REMAINDER = gauss_legendre(5)
# How many numbers one intermediate tensor may hold: 32 MB.
_HELD = 4_000_000


def _in_pieces(v: Tensor, kept: Tensor, log_c: Tensor, *, equal: bool) -> tuple[Tensor, Tensor]:
    """Value and error estimate; `equal` says that all temperatures are, and that none needs a derivative.

    Nodes times classes times inner nodes are held at once, for as many batch elements as fit; derivatives of the others
    are found by evaluating them again.
    """
    per_element = (_INTERVALS + 1) * v.shape[-1] * (1 if equal else len(_INNER))
    fitting = max(1, _HELD // max(1, per_element))
    if is_traced() or log_c.numel() <= fitting:
        return _of_piece(v, kept, log_c, equal=equal)
    flat = v.flatten(0, -2), kept.expand_as(v).flatten(0, -2), log_c.flatten()
    pieces = zip(*(torch.split(t, fitting) for t in flat), strict=True)
    found = [checkpoint(_of_piece, *piece, equal=equal, use_reentrant=False) for piece in pieces]
    value, error = (torch.cat(list(parts)).reshape(log_c.shape) for parts in zip(*found, strict=True))
    return value, error


def _of_piece(v: Tensor, kept: Tensor, log_c: Tensor, *, equal: bool) -> tuple[Tensor, Tensor]:
    """For v_i = log q_i − c·log p_i, classes along the last dimension, 0 in those that neither distribution has."""
    count = kept.sum(-1).to(v.dtype)
    v = torch.where(kept, v - (v.sum(-1) / count).unsqueeze(-1), 0.0)
    near = (v.detach().abs().amax(-1) < _NEAR_V) & (log_c.detach().abs() < _NEAR_LOG_C)

    def both(v: Tensor, log_c: Tensor) -> Tensor:
        return _by_fine_and_coarse_nodes(v, kept, count, log_c, equal=equal)

    value = torch.zeros_like(log_c).expand(2, *log_c.shape)
    if not known_true(~near):
        change = torch.where(near.unsqueeze(-1), v, 0.0), torch.where(near, log_c, 0.0)
        value = taylor_remainder(both, tuple(map(torch.zeros_like, change)), change, _REMAINDER)
    if not known_true(near):
        value = torch.where(near, value, both(v, log_c))
    fine, coarse = torch.where(count < 2, 0.0, value)
    return fine, (fine - coarse).detach().abs()


def _trapezoid(low: Tensor, high: Tensor) -> tuple[Tensor, Tensor]:
    """Equidistant nodes along a new last dimension, and their distance."""
    step = (high - low) / _INTERVALS
    index = torch.arange(_INTERVALS + 1, dtype=low.dtype, device=low.device)
    return low.unsqueeze(-1) + step.unsqueeze(-1) * index, step


def _by_fine_and_coarse_nodes(v: Tensor, kept: Tensor, count: Tensor, log_c: Tensor, *, equal: bool) -> Tensor:
    """The divergence by all nodes and by every second one; in E log S the largest v_i is at 0."""
    excess, c = torch.expm1(log_c), torch.exp(log_c)
    top = torch.where(kept, v.detach(), -math.inf).amax(-1)
    at_c = c.detach()
    low, high = -_LEFT - torch.log(count) - torch.lgamma(1 + at_c), _RIGHT * at_c.clamp_min(1.0)
    # Φ varies on a scale of max(1, c) away from 0.
    u, step = _trapezoid(*(_STRETCH * torch.asinh(end / _STRETCH) for end in (low, high)))
    s = (_STRETCH * torch.sinh(u / _STRETCH)).unsqueeze(-1)
    at = s + (v - top.unsqueeze(-1)).unsqueeze(-2)
    log_phi = logsigmoid(-at) if equal else _log_phi(at, c.unsqueeze(-1).unsqueeze(-1))
    product = torch.exp(torch.where(kept.unsqueeze(-2), log_phi, 0.0).sum(-1))
    # Weights of all nodes and of every second one. They are applied by a matrix product, because Dynamo refuses the
    # derivative of a product that broadcasts.
    fine = (count * step).unsqueeze(-1) * torch.cosh(u / _STRETCH)
    even = torch.arange(_INTERVALS + 1, device=u.device) % 2 == 0
    weights = torch.stack([fine, torch.where(even, 2 * fine, 0.0)], -1)
    mean_log = ((torch.sigmoid(-s.squeeze(-1)) - product).unsqueeze(-2) @ weights).squeeze(-2)
    known = (1 - count) * log_c + count * ((excess - 1) * EULER - digamma(count) + top) - v.sum(-1)
    return known + mean_log.movedim(-1, 0)


def _log_phi(s: Tensor, c: Tensor) -> Tensor:
    """The logarithm of Φ, by whichever of its two forms has a power of E below 1."""
    log_e = 0.2 * torch.arange(-200, 20, dtype=s.dtype, device=s.device)
    weight = 0.2 * torch.exp(log_e - torch.exp(log_e))
    above = c > 1
    slow = torch.where(above, 1 / c, c)
    shift = torch.where(above, -s * slow, s)
    fall = -torch.exp((shift.unsqueeze(-1) + slow.unsqueeze(-1) @ log_e.unsqueeze(0)).clamp(max=700.0))
    terms = torch.where(above.unsqueeze(-1), -torch.expm1(fall), torch.exp(fall))
    return torch.log((terms @ weight).clamp_min(1e-300))


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
    equal = known_true(t_p == t_q) and not (t_p.requires_grad or t_q.requires_grad)
    value, error = _in_pieces(v, kept, log_c, equal=equal)
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
