"""KL of two Concrete distributions (RelaxedOneHotCategorical) of any temperatures; called by `pairs.dispatch`.

It follows from the ratio c = T_q/T_p of their temperatures and v_i = log q_i − c·log p_i; at equal ones it does not
depend on them.

With E_i exponential variables, S = Σ_i e^(v_i)·E_i^c and K classes, the log-density ratio under p is

    log p/q = (K − 1)·log(1/c) − Σ_i [v_i + (c − 1)·log E_i] + K·log S − K·log Σ_i E_i,

whatever is added to all v_i. Its only expectation without a closed form is Frullani's integral of a product (t = eˢ),

    E log S = −γ + ∫ [1/(1+eˢ) − Π_i Φ(s + v_i)] ds,    Φ(s) = E exp(−eˢ·E^c) = 1 − E exp(−(E·e^(−s))^(1/c)),

where the first form of Φ serves c ≤ 1 and the second c > 1. Near equality the terms cancel. There, with g = −log(1+eˢ),
σ = eˢ/(1+eˢ), δ_i = v_i + (c − 1)(g + log E), x_i = σ·E·expm1(δ_i) and φ(x) = eˣ − 1 − x,

    KL = (K − 1)·φ(log c) + K ∫ e^(K·g)·[Σ_i r_i − φ(−D)] ds,    D = Σ_i [ℓ_i + r_i],
    ℓ_i = E[σEδ_i] = σ·[v_i + (c − 1)(1 − γ + g)],    r_i = E[σEφ(δ_i)] − log(1 + E φ(ℓ_i + E[σEφ(δ_i)] − x_i)):

−ℓ_i − r_i is log Φ(s + v_i) − g, and the parts of first order add up to nothing. Every integral is a trapezoid rule on
a logarithmic axis, which converges geometrically.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor
from torch.distributions import Categorical, RelaxedOneHotCategorical
from torch.distributions.relaxed_categorical import ExpRelaxedCategorical
from torch.nn.functional import logsigmoid
from torch.utils.checkpoint import checkpoint

from kullback._core.special.exp_log import log_ratio
from kullback.kernels.levels import is_traced, known_true
from kullback.pairs.moments import EULER
from kullback.pairs.parameters import gives_logits, read
from kullback.pairs.registry import register
from kullback.pairs.success_parameter import kl_by_log_odds
from kullback.special import digamma, expm1mx

# Nodes of log E: e^(−40) is what they leave out on the left, e^(−45) on the right; step 0.2 leaves e^(−33).
_INNER = [0.2 * k for k in range(-200, 20)]
_WEIGHTS = [0.2 * math.exp(y - math.exp(y)) for y in _INNER]
# Intervals of s, and where those far from equality begin to grow.
_INTERVALS, _STRETCH = 256, 8.0
_LEFT, _RIGHT = 42.0, 45.0
# How far v and c may be from equality for the form of second order.
_NEAR_V, _NEAR_C = 0.25, 0.05
# How many numbers one intermediate tensor may hold: 64 MB.
_HELD = 8_000_000


class Change(NamedTuple):
    """Two Concrete distributions; the last dimension holds the classes.

    Attributes:
        v: log q_i − c·log p_i, 0 in classes that neither distribution has.
        kept: The classes that both distributions have.
        excess: c − 1.
        log_c: log c.
    """

    v: Tensor
    kept: Tensor
    excess: Tensor
    log_c: Tensor

    @property
    def classes(self) -> Tensor:
        """K."""
        return self.kept.sum(-1).to(self.v.dtype)

    def centred(self, mean: Tensor) -> Tensor:
        """All v_i with their mean moved there, 0 outside."""
        average = self.v.sum(-1) / self.classes
        return torch.where(self.kept, self.v - (average - mean).unsqueeze(-1), 0.0)


def kl_of_change(change: Change, *, equal: bool) -> tuple[Tensor, Tensor]:
    """Value and error estimate; `equal` says that all temperatures are, and that none needs a derivative.

    Nodes times classes times inner nodes are held at once, for as many batch elements as fit; derivatives of the others
    are found by evaluating them again.
    """
    per_element = (_INTERVALS + 1) * change.v.shape[-1] * (1 if equal else len(_INNER))
    fitting = max(1, _HELD // max(1, per_element))
    if is_traced() or change.excess.numel() <= fitting:
        return _of_piece(*change, equal=equal)
    shape, flat = change.excess.shape, (change.v.flatten(0, -2), change.kept.expand_as(change.v).flatten(0, -2))
    pieces = zip(
        *(torch.split(t, fitting) for t in (*flat, change.excess.flatten(), change.log_c.flatten())), strict=True
    )
    found = [checkpoint(_of_piece, *piece, equal=equal, use_reentrant=False) for piece in pieces]
    value, error = (torch.cat(list(parts)).reshape(shape) for parts in zip(*found, strict=True))
    return value, error


def _of_piece(v: Tensor, kept: Tensor, excess: Tensor, log_c: Tensor, *, equal: bool) -> tuple[Tensor, Tensor]:
    change = Change(v, kept, excess, log_c)
    v = change.centred(torch.zeros_like(excess))
    near = (v.detach().abs().amax(-1) < _NEAR_V) & (excess.detach().abs() < _NEAR_C)
    zero = torch.zeros_like(near, dtype=v.dtype)
    close, far = (zero, zero), (zero, zero)
    if not known_true(~near):
        inner = torch.where(near.unsqueeze(-1), v, 0.0)
        safe = Change(inner, kept, torch.where(near, excess, 0.0), torch.where(near, log_c, 0.0))
        close = _near_at_equal_temperatures(safe) if equal else _near(safe)
    if not known_true(near):
        far = _far(change._replace(v=v), equal=equal)
    single = change.classes < 2
    value, error = (torch.where(single, 0.0, torch.where(near, *both)) for both in zip(close, far, strict=True))
    return value, error


def _trapezoid(low: Tensor, high: Tensor) -> tuple[Tensor, Tensor]:
    """Equidistant nodes along a new last dimension, and their distance."""
    step = (high - low) / _INTERVALS
    index = torch.arange(_INTERVALS + 1, dtype=low.dtype, device=low.device)
    return low.unsqueeze(-1) + step.unsqueeze(-1) * index, step


def _summed(terms: Tensor, step: Tensor) -> tuple[Tensor, Tensor]:
    fine = step * terms.sum(-1)
    return fine, (fine - 2 * step * terms[..., ::2].sum(-1)).detach().abs()


def _near_nodes(count: Tensor) -> tuple[Tensor, Tensor]:
    """Where e^(K·g)·σ is above e^(−42)."""
    low = torch.full_like(count, -_LEFT) - torch.log(count)
    return _trapezoid(low, torch.log(torch.expm1(_RIGHT / count)))


def _near_at_equal_temperatures(change: Change) -> tuple[Tensor, Tensor]:
    """K ∫ e^(K·g)·(1 − e^(−D)) ds; D sums the divergences of trials of log-odds s from the ones tilted by v_i."""
    count = change.classes
    s, step = _near_nodes(count)
    at, moved = s.unsqueeze(-1), change.v.unsqueeze(-2)
    excess = kl_by_log_odds(at, at + moved, moved).sum(-1)
    weight = count.unsqueeze(-1) * torch.exp(count.unsqueeze(-1) * logsigmoid(-s))
    return _summed(weight * -torch.expm1(-excess), step)


def _near(change: Change) -> tuple[Tensor, Tensor]:
    """The form of second order; the inner nodes are the last dimension, then classes, then s."""
    count = change.classes
    # First order vanishes on average over s, not only in total.
    v = change.centred(-change.excess * (1 - EULER - 1 / count))
    s, step = _near_nodes(count)
    log_e, weight = (torch.tensor(t, dtype=s.dtype, device=s.device) for t in (_INNER, _WEIGHTS))
    g, sigma, kept = logsigmoid(-s).unsqueeze(-1), torch.sigmoid(s).unsqueeze(-1), change.kept.unsqueeze(-2)
    excess = change.excess.unsqueeze(-1).unsqueeze(-1)
    first = sigma * (v.unsqueeze(-2) + excess * (1 - EULER + g))
    delta = v.unsqueeze(-2).unsqueeze(-1) + (excess * g).unsqueeze(-1) + excess.unsqueeze(-1) * log_e
    scaled = sigma.unsqueeze(-1) * torch.exp(log_e)
    bend = (weight * scaled * expm1mx(delta)).sum(-1)
    mean = first + bend
    spread = (weight * expm1mx(mean.unsqueeze(-1) - scaled * torch.expm1(delta))).sum(-1)
    second = torch.where(kept, bend - torch.log1p(spread), 0.0).sum(-1)
    total = torch.where(kept, first, 0.0).sum(-1) + second
    outer = count.unsqueeze(-1) * torch.exp(count.unsqueeze(-1) * g.squeeze(-1))
    value, error = _summed(outer * (second - expm1mx(-total)), step)
    return value + (count - 1) * expm1mx(change.log_c), error


def _far(change: Change, *, equal: bool) -> tuple[Tensor, Tensor]:
    """Its terms one by one, E log S with the largest v_i at 0."""
    count, c = change.classes, 1 + change.excess
    top = torch.where(change.kept, change.v.detach(), -math.inf).amax(-1)
    at_c = c.detach()
    low, high = -_LEFT - torch.log(count) - torch.lgamma(1 + at_c), _RIGHT * at_c.clamp_min(1.0)
    # Φ varies on a scale of max(1, c) away from 0.
    u, step = _trapezoid(*(_STRETCH * torch.asinh(end / _STRETCH) for end in (low, high)))
    s = (_STRETCH * torch.sinh(u / _STRETCH)).unsqueeze(-1)
    at = s + (change.v - top.unsqueeze(-1)).unsqueeze(-2)
    log_phi = logsigmoid(-at) if equal else _log_phi(at, c.unsqueeze(-1).unsqueeze(-1))
    product = torch.exp(torch.where(change.kept.unsqueeze(-2), log_phi, 0.0).sum(-1))
    mean_log, error = _summed(torch.cosh(u / _STRETCH) * (torch.sigmoid(-s.squeeze(-1)) - product), step)
    known = (1 - count) * change.log_c + count * ((change.excess - 1) * EULER - digamma(count) + top)
    return known - change.v.sum(-1) + count * mean_log, count * error


def _log_phi(s: Tensor, c: Tensor) -> Tensor:
    """The logarithm of Φ, by whichever of its two forms has a power of E below 1."""
    log_e, weight = (torch.tensor(t, dtype=s.dtype, device=s.device) for t in (_INNER, _WEIGHTS))
    above = c > 1
    slow = torch.where(above, 1 / c, c)
    shift = torch.where(above, -s * slow, s)
    fall = -torch.exp((shift.unsqueeze(-1) + slow.unsqueeze(-1) * log_e).clamp(max=700.0))
    terms = torch.where(above.unsqueeze(-1), -torch.expm1(fall), torch.exp(fall))
    return torch.log((weight * terms).sum(-1).clamp_min(1e-300))


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
