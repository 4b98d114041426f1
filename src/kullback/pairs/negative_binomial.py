"""KL(NegativeBinomial ‖ q): the number of successes before the r-th failure, r any number ≥ 0.

Between p and q stands the law r with q's count and p's mean m, whose log-ratio to q is linear in the outcome, so that

    KL(p ‖ q) = KL(p ‖ r) + KL(r ‖ q),    KL(r ‖ q) = r_q · KL(Bernoulli ‖ Bernoulli)/s_r

with stopping probabilities s = 1 − probs. Malmsten's integral of log Γ, and Frullani's of the logarithms beside it,
turn the first part into one integral over the generating function G(z) = E zˣ, at a cost that does not depend on m:

    KL(p ‖ r) = ∫₀^∞ (e^(−r_p t) − e^(−r_q t)) H(t) dt/t,    H(t) = (1 − e^(−mt))/t − (1 − G(e^−t))/(1 − e^−t).

At r_q = r_p it vanishes with its slope, ∫ e^(−r_p t) H dt = 0, so that with d = r_q − r_p and φ(x) = eˣ − 1 − x also

    KL(p ‖ r) = −∫₀^∞ e^(−r_p t) φ(−dt) H(t) dt/t,

which is quadratic in d. H changes its sign once and no part of the integral is larger than a few times the whole.

References:
    Cheraghchi, "Expressions for the entropy of basic discrete distributions", ISIT 2018, arXiv 1708.06394.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.distributions import NegativeBinomial
from torch.nn.functional import logsigmoid

from kullback._core.special._derivatives import attach, split_point
from kullback.integrate.log_axis import broadcast, integrate_log_axis
from kullback.kernels.pointwise import Pointwise
from kullback.pairs.outcomes import (
    Chance,
    chance,
    difference_of_log_odds,
    kl_of_tilt,
    kl_per_success,
    log_changes_of_tilt,
    minus_log_failure,
)
from kullback.pairs.parameters import read
from kullback.pairs.ratios import log_ratio
from kullback.pairs.registry import register
from kullback.pairs.visible import surely
from kullback.special import expm1mx, log1pmx

_INTERVALS = 512
# The integrand falls like t towards 0 and like e^(−r t) at the other end: e^−50 and e^−45 are below rounding.
_LEFT, _RIGHT = 50.0, math.log(45.0)
# Above these log-odds the mean is near overflow, and the failures alone are counted.
_LARGEST = 300.0
# Below these KL(p ‖ r), quadratic in the odds, is nothing beside KL(r ‖ q), which is linear in them.
_LEAST = -300.0
# e^700 is the last power of interest before overflow.
_LARGE = 700.0


@register(
    NegativeBinomial,
    NegativeBinomial,
    method="integral",
    source="r KL(Bernoulli ‖ Bernoulli)/(1−p) for equal counts, else Malmsten's integral over the generating function",
    decides_support=True,
)
def kl_negative_binomial_negative_binomial(p: NegativeBinomial, q: NegativeBinomial) -> tuple[Tensor, Tensor]:
    """A count of 0 or a success probability of 0 puts all mass at 0."""
    (count_p,), (count_q,) = read(p, "total_count"), read(q, "total_count")
    chance_p, chance_q = chance(p), chance(q)
    at_zero_p = (count_p == 0) | chance_p.certain()[0]
    at_zero_q = (count_q == 0) | chance_q.certain()[0]
    inner_p, inner_q = chance_p.inner(), chance_q.inner()
    r_p, r_q = torch.where(at_zero_p, 1.0, count_p), torch.where(at_zero_q, 1.0, count_q)
    error = torch.zeros_like(r_p.detach() + r_q.detach())
    # At equal counts KL(p ‖ r) vanishes with its slope, but not with its curvature.
    if surely(r_p == r_q) and not (r_p.requires_grad or r_q.requires_grad):
        value = r_p * kl_per_success(inner_p.flip(), inner_q.flip())
    else:
        shape, error = _of_equal_mean(r_p, r_q, inner_p)
        value = _of_equal_count(r_p, r_q, inner_p, inner_q) + shape
    value = torch.where(at_zero_q, math.inf, value)
    zero = count_q * torch.where(count_q == 0, 0.0, minus_log_failure(chance_q))
    return torch.where(at_zero_p, zero, value), error


def _of_equal_count(r_p: Tensor, r_q: Tensor, p: Chance, q: Chance) -> Tensor:
    """KL(r ‖ q) = m log(a_r/a_q) + r_q log(s_r/s_q), a = 1 − s, with b and c the log-odds of r and of q.

    The logarithms are also its slopes in m and r_q, since what a_r and s_r add cancels exactly; the one in r_q may be
    far below the value. For large b it is r_q (e^b softplus(−c) + softplus(c) − 1 − b).
    """
    rise, log_odds, log_odds_q = log_ratio(r_q, r_p), p.as_logits().given, q.as_logits().given
    b, tilt = (log_odds - rise).detach(), (rise - difference_of_log_odds(p, q)).detach()
    c, r = log_odds_q.detach(), r_q.detach()
    a_r, a_q, s_q = torch.sigmoid(b), torch.sigmoid(c), torch.sigmoid(-c)
    usual = b < _LARGEST
    inner, inner_tilt = torch.where(usual, b, 0.0), torch.where(usual, tilt, 0.0)
    log1, log0 = log_changes_of_tilt(inner, inner_tilt)
    odds = torch.exp(inner)
    value, to_mean, to_count = (1 + odds) * kl_of_tilt(inner, inner_tilt), -odds * log1, -log0
    gap = torch.where(log1 > 1, a_q * (1 + odds) - odds, odds * torch.expm1(log1.clamp_max(1.0)))
    stops = odds * s_q
    if not surely(usual):
        both = c > _LARGEST / 3
        change = torch.where(both, -tilt, 0.0)
        log_stop = logsigmoid(-c)
        failing = torch.where(both, torch.expm1(change), torch.exp(b + torch.log(-logsigmoid(c))) - 1)
        rest = torch.where(both, tilt, -b - log_stop)
        far = torch.where(both, expm1mx(change), failing + rest)
        far_stops = torch.where(both, torch.exp(change), torch.exp(b + log_stop))
        pairs = ((value, far), (to_mean, failing), (to_count, rest), (gap, 1 - far_stops), (stops, far_stops))
        value, to_mean, to_count, gap, stops = (torch.where(usual, near, other) for near, other in pairs)
    steps = [split_point(log_odds + torch.log(r_p))[1], split_point(r_q)[1], split_point(log_odds_q)[1]]
    second = [r * (to_mean + a_r), -a_r, -r * stops, a_r / r, a_q, r * a_q * (s_q + stops)]
    return attach(r * value, steps, [r * to_mean, to_count, r * gap], second)


def _of_equal_mean(r_p: Tensor, r_q: Tensor, p: Chance) -> tuple[Tensor, Tensor]:
    """KL(p ‖ r) of the module's formula."""
    r_p, r_q, log_odds = (x.unsqueeze(-1) for x in broadcast(r_p, r_q, p.as_logits().given))
    seen = log_odds > _LEAST
    log_odds = torch.where(seen, log_odds, 0.0)
    log_mean = log_odds + torch.log(r_p)
    # Where the mean is far above q's count, small t of no interest to e^(−r_q t) would carry the first form.
    plain = (r_q > 4 * r_p) & (log_mean < torch.log(r_q) + 10)
    given = r_p, r_q, log_odds, log_mean, plain.to(r_p.dtype)

    def integrand(t: Tensor) -> Tensor:
        return torch.where(seen, _at(t, *given), 0.0)

    low = -torch.log(torch.maximum(r_p, r_q)) - _LEFT
    high = _RIGHT - torch.log(torch.minimum(r_p, r_q))
    return integrate_log_axis(integrand, low.squeeze(-1), high.squeeze(-1), _INTERVALS)


@Pointwise
def _at(t: Tensor, r_p: Tensor, r_q: Tensor, *given: Tensor) -> Tensor:
    """The integrand of the module's formula."""
    log_odds, log_mean, plain = given
    return _weight(t, r_p, r_q, r_q - r_p, plain != 0) * _balance(t, r_p, log_odds, log_mean)


def _weight(t: Tensor, r_p: Tensor, r_q: Tensor, excess: Tensor, plain: Tensor) -> Tensor:
    """e^(−r_p t) − e^(−r_q t), or less what integrates to 0."""
    small = (excess * t).abs() < 1
    own, other, step = torch.exp(-r_p * t), torch.exp(-r_q * t), torch.where(small, -excess * t, 0.0)
    first = torch.where(small, -own * torch.expm1(step), own - other)
    second = torch.where(small, -own * expm1mx(step), own * (1 - excess * t) - other)
    return torch.where(plain, first, second)


def _balance(t: Tensor, r_p: Tensor, log_odds: Tensor, log_mean: Tensor) -> Tensor:
    """H(t), with u = 1 − e^−t, odds o, G = e^−g, g = r_p log(1 + o·u) and δ = mt − g ≥ 0, in non-negative terms.

    For odds below 1, where everything linear in them has to cancel, and for others,

        H = (mu − g)/u · (1 − e^−g)/g − e^−g (δ φ(g)/g + φ(−δ))/t,
        H = (e^−g − e^−mt)/t − (1 − e^−g) (t − u)/(ut).
    """
    u, late = -torch.expm1(-t), expm1mx(-t)
    log_share = log_odds + torch.log(u)
    g = -r_p * logsigmoid(-log_share)
    few = log_share < 0
    mean = torch.exp(log_mean.clamp_max(_LARGE))
    passed = torch.exp((log_mean + torch.log(t)).clamp_max(_LARGE))
    lost = -r_p * log1pmx(torch.exp(torch.where(few, log_share, 0.0)))
    delta = torch.where(few, mean * late + lost, passed - g)
    rest, kept = torch.exp(-g), -torch.expm1(-g)
    thin = log_odds < 0
    inner, step = torch.where(thin, g, 1.0), torch.where(thin, delta, 0.0)
    short = inner < 1
    curve = torch.where(short, torch.exp(-inner) * expm1mx(torch.where(short, inner, 0.0)), 1 - (1 + inner) * rest)
    below = torch.where(thin, lost, 0.0) / u * (kept / inner) - (step * curve / inner + rest * expm1mx(-step)) / t
    small = delta < 1
    gain = torch.where(
        small, torch.exp(-passed) * torch.expm1(torch.where(small, delta, 0.0)), rest - torch.exp(-passed)
    )
    return torch.where(thin, below, (gain - kept * (late / u)) / t)
