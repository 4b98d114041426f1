"""One trial with two outcomes: its divergence per trial and per success, from probabilities or log-odds.

Bernoulli, Binomial, Geometric and NegativeBinomial all reduce to these. With outcome probabilities p₁, p₀ and q₁, q₀,
λᵢ = log(qᵢ/pᵢ) and φ(x) = eˣ − 1 − x,

    KL = p₁ φ(λ₁) + p₀ φ(λ₀),

a sum of non-negative terms. The λᵢ are as accurate as the parameters allow: from probabilities through the exact
difference, λ₁ = log1p((q − p)/p) and λ₀ = log1p((p − q)/(1 − p)); from log-odds a, b through δ = b − a,
λ₀ = −log1p(p₁ expm1 δ) and λ₁ = −log1p(p₀ expm1(−δ)). Values and derivatives are formulas at the detached point.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor
from torch.distributions import Distribution

from kullback._core.special._derivatives import attach, split_point
from kullback.pairs.parameters import gives_logits, read
from kullback.special import expm1mx

# Beyond this log-ratio eˣ is near overflow; there a log-sum-exp takes its place.
_LARGE = 700.0
# Probabilities below this are, or are close to being, subnormal.
_FAINT = 1e-290


class Chance(NamedTuple):
    """The chance of success as its maker gave it.

    Attributes:
        given: The parameter, in working precision.
        logits: Whether it is a log-odds, not a probability.
        flipped: Whether what the parameter describes is the failure.
    """

    given: Tensor
    logits: bool
    flipped: bool = False

    @property
    def sign(self) -> float:
        """Of the derivative of the success probability in the parameter."""
        return -1.0 if self.flipped else 1.0

    def outcomes(self) -> tuple[Tensor, Tensor]:
        """Probabilities of success and failure at the detached point, each with full relative accuracy."""
        x = self.given.detach()
        pair = (torch.sigmoid(x), torch.sigmoid(-x)) if self.logits else (x, 1 - x)
        return (pair[1], pair[0]) if self.flipped else pair

    def certain(self) -> tuple[Tensor, Tensor]:
        """Where success is impossible and where it is certain: by parameter, not by underflow."""
        x = self.given.detach()
        pair = (x == -math.inf, x == math.inf) if self.logits else (x == 0, x == 1)
        return (pair[1], pair[0]) if self.flipped else pair

    def log_odds(self) -> Tensor:
        """The log-odds log(p₁/p₀) at the detached point; ±inf where the outcome is certain."""
        x = self.given.detach()
        odds = x if self.logits else _log_odds(x)
        return -odds if self.flipped else odds

    def success(self) -> Tensor:
        """p₁, differentiable; the slope p₁p₀ in the log-odds is a product, where torch's σ(1 − σ) underflows early."""
        p1, p0 = self.outcomes()
        first, second = (p1 * p0, p1 * p0 * (p0 - p1)) if self.logits else (torch.ones_like(p1), torch.zeros_like(p1))
        return attach(p1, [split_point(self.given)[1] * self.sign], [first], [second])

    def both(self) -> tuple[Tensor, Tensor]:
        """p₁ and p₀ by torch's own operations, differentiable."""
        x = self.given
        pair = (torch.sigmoid(x), torch.sigmoid(-x)) if self.logits else (x, 1 - x)
        return (pair[1], pair[0]) if self.flipped else pair

    @property
    def never(self) -> float:
        """The parameter at which what it describes is impossible."""
        return -math.inf if self.logits else 0.0

    def as_logits(self) -> Chance:
        """The same chance by its log-odds, differentiable; only where the outcome is not certain."""
        return self if self.logits else self._replace(given=_log_odds(self.given), logits=True)

    def inner(self) -> Chance:
        """The same chance where it is not certain, an even one where it is, which then carries no gradient."""
        never, always = self.certain()
        even = torch.full_like(self.given, 0.0 if self.logits else 0.5)
        return self._replace(given=torch.where(never | always, even, self.given))

    def log_success(self) -> Tensor:
        """The logarithm of p₁, differentiable."""
        if self.logits:
            return torch.nn.functional.logsigmoid(self.sign * self.given)
        return torch.log1p(-self.given) if self.flipped else torch.log(self.given)

    def flip(self) -> Chance:
        """The same trial with the names of the outcomes exchanged."""
        return self._replace(flipped=not self.flipped)


def _log_odds(probs: Tensor) -> Tensor:
    """log(p/(1 − p)), about p = ½ from the difference 2p − 1, which is exact there."""
    middle = (probs - 0.5).abs() < 0.25
    inner = torch.where(middle, probs, 0.5)
    near = torch.log1p((2 * inner - 1) / (1 - inner))
    outer = torch.where(middle, 0.25, probs)
    return torch.where(middle, near, torch.log(outer) - torch.log1p(-outer))


def chance(distribution: Distribution) -> Chance:
    """The chance of success of a distribution that has `probs` or `logits`."""
    logits = gives_logits(distribution)
    (given,) = read(distribution, "logits" if logits else "probs")
    return Chance(given, logits)


class _Change(NamedTuple):
    """Everything the formulas need at the detached point."""

    p1: Tensor
    p0: Tensor
    q1: Tensor
    q0: Tensor
    log1: Tensor  # log(q₁/p₁)
    log0: Tensor  # log(q₀/p₀)
    delta: Tensor  # log-odds of q less those of p
    gap: Tensor  # q₁ − p₁
    never: Tensor  # p₁ = 0
    always: Tensor  # p₀ = 0
    infinite: Tensor  # q lacks an outcome that p has


class Known(NamedTuple):
    """What a caller who made p's chance from other numbers knows better than its parameter tells.

    Attributes:
        difference: Log-odds of q less those of p where one is given by them, else q₁ − p₁; detached.
        failure: p₀ where neither is given by log-odds; detached.
    """

    difference: Tensor
    failure: Tensor | None = None


def _change(p: Chance, q: Chance, known: Known | None = None) -> _Change:
    never_p, always_p = p.certain()
    never_q, always_q = q.certain()
    infinite = (never_q & ~never_p) | (always_q & ~always_p)
    inner_p, inner_q = (side._replace(given=side.given.detach()).inner() for side in (p, q))
    (p1, p0), (q1, q0) = inner_p.outcomes(), inner_q.outcomes()
    if p.logits or q.logits:
        delta = inner_q.log_odds() - inner_p.log_odds() if known is None else known.difference
        log1, log0 = -_log_mean(p0, -delta, inner_p.flip()), -_log_mean(p1, delta, inner_p)
        gap = torch.where(log1 > 1, q1 - p1, p1 * torch.expm1(log1.clamp(max=1.0)))
    else:
        gap = p.sign * (inner_q.given - inner_p.given) if known is None else known.difference
        p0 = p0 if known is None or known.failure is None else known.failure
        log1, log0 = _log_ratio(p1, q1, gap), _log_ratio(p0, q0, -gap)
        delta = log1 - log0
    return _Change(p1, p0, q1, q0, log1, log0, delta, gap, never_p, always_p, infinite)


def _log_ratio(x: Tensor, y: Tensor, gap: Tensor) -> Tensor:
    """log(y/x) for a difference y − x that is known better than x and y themselves."""
    near = gap.abs() <= 0.5 * x
    ratio = y / x
    plain = (ratio > 1e-300) & (ratio < 1e300)
    far = torch.where(plain, torch.log(torch.where(plain, ratio, 1.0)), torch.log(y) - torch.log(x))
    return torch.where(near, torch.log1p(torch.where(near, gap, 0.0) / x), far)


def _log_mean(p1: Tensor, delta: Tensor, p: Chance) -> Tensor:
    """The logarithm of p₀ + p₁ e^δ, log1p(p₁ expm1 δ), by a log-sum-exp where that would overflow or cancel."""
    odds = p.log_odds()
    far = torch.logaddexp(torch.nn.functional.logsigmoid(-odds), torch.nn.functional.logsigmoid(odds) + delta)
    is_far = (delta > _LARGE) | ((p1 > 0.5) & (delta < -1))
    delta = torch.where(is_far, 0.0, delta)
    # A p₁ that underflows may still count beside the δ it is tilted by.
    faint = (p1 < _FAINT) & (delta > 1)
    grown = torch.exp(torch.nn.functional.logsigmoid(odds) + torch.where(faint, delta, 0.0))
    return torch.where(is_far, far, torch.log1p(torch.where(faint, grown, p1 * torch.expm1(delta))))


def kl_per_trial(p: Chance, q: Chance, known: Known | None = None) -> Tensor:
    """KL of one trial. To a probability of p that is exactly 0 or 1 the gradient is 0, where its limit is infinite."""
    c = _change(p, q, known)
    value = _at_edges(c, _sum_of_terms((c.p1, c.q1, c.log1), (c.p0, c.q0, c.log0)), q)
    spread_p, spread_q = c.p1 * c.p0, c.q1 * c.q0
    if p.logits:
        to_p, to_pp, slope_p = -spread_p * c.delta, spread_p * (1 - (c.p0 - c.p1) * c.delta), spread_p
    else:
        to_p, to_pp, slope_p = -c.delta, 1 / spread_p, torch.ones_like(c.p1)
    if q.logits:
        to_q, to_qq, slope_q = c.gap, spread_q, torch.ones_like(c.q1)
    else:
        to_q, to_qq, slope_q = c.gap / c.q1 / c.q0, c.p1 / c.q1**2 + c.p0 / c.q0**2, 1 / spread_q
    return _differentiable((p, q), c, value, (to_p, to_q), (to_pp, -slope_p * slope_q, to_qq))


def kl_per_success(p: Chance, q: Chance) -> Tensor:
    """KL of one trial over p₁: that of repeating trials until the first success, infinite if there is none."""
    c = _change(p, q)
    c = c._replace(infinite=c.infinite | (c.never & ~q.certain()[0]))
    odds = c.p0 / c.p1
    part = expm1mx(c.log0.clamp(max=1.0))
    # The part is quadratic in p₁ for small p₁, so where it underflows it is nothing beside φ(λ₁), whatever the odds.
    some = part != 0
    log_odds = -p._replace(given=p.given.detach()).inner().log_odds()
    product = torch.where(odds.isinf(), torch.exp(torch.log(torch.where(some, part, 1.0)) + log_odds), odds * part)
    other = torch.where(some, torch.where(c.log0 > 1, c.q0 / c.p1 - odds * (1 + c.log0), product), 0.0)
    value = _at_edges(c, expm1mx(c.log1) + other, q)
    # odds·λ₀ → −expm1(δ) for p₁ → 0, where the odds overflow.
    tiny = (c.p1 < 1e-290) & (c.log0.abs() < 1e-10)
    tilted = torch.where(tiny, -torch.expm1(c.delta), odds * c.log0)
    if p.logits:
        to_p, to_pp, slope_p = tilted, c.p0 - tilted, odds
    else:
        to_p, to_pp, slope_p = tilted / c.p0 / c.p1, (1 / c.p0 - 2 * c.log0 / c.p1) / c.p1**2, 1 / c.p1**2
    if q.logits:
        to_q, to_qq, slope_q = torch.expm1(c.log1), torch.exp(c.log1) * c.q0, c.q1
    else:
        to_q, slope_q = c.gap / c.p1 / c.q1 / c.q0, 1 / c.q0
        to_qq = (c.p1 / c.q1**2 + c.p0 / c.q0**2) / c.p1
    return _differentiable((p, q), c, value, (to_p, to_q), (to_pp, -slope_p * slope_q, to_qq))


def kl_of_tilt(log_odds: Tensor, delta: Tensor) -> Tensor:
    """KL of one trial with these log-odds from the one whose log-odds are greater by δ: log(p₀ + p₁ e^δ) − p₁ δ."""
    log_odds, delta = log_odds + torch.zeros_like(delta), delta + torch.zeros_like(log_odds)
    (a, a_step), (d, d_step) = split_point(log_odds), split_point(delta)
    p = Chance(a, logits=True)
    (p1, p0), (q1, q0) = p.outcomes(), Chance(a + d, logits=True).outcomes()
    log1, log0 = -_log_mean(p0, -d, p.flip()), -_log_mean(p1, d, p)
    value = _sum_of_terms((p1, q1, log1), (p0, q0, log0))
    gap = torch.where(log1 > 1, q1 - p1, p1 * torch.expm1(log1.clamp(max=1.0)))
    spread_p, spread_q = p1 * p0, q1 * q0
    # Second-order small for δ → 0, with log q₁/p₁ = p₀δ − KL and log q₁q₀/p₁p₀ = (p₀ − p₁)δ − 2 KL.
    to_a = torch.where(log1.abs() > 1, gap - spread_p * d, p1 * (expm1mx(log1.clamp(-1.0, 1.0)) - value))
    both = (log1 + log0).clamp(-1.0, 1.0)
    to_aa = spread_p * (expm1mx(both) - 2 * value)
    to_aa = torch.where((log1 + log0).abs() > 1, spread_q - spread_p * (1 + (p0 - p1) * d), to_aa)
    return attach(value, [a_step, d_step], [to_a, gap], [to_aa, spread_q - spread_p, spread_q])


def log_changes_of_tilt(log_odds: Tensor, delta: Tensor) -> tuple[Tensor, Tensor]:
    """log(q₁/p₁) and log(q₀/p₀) of the trial with these log-odds and the one tilted by δ; without derivatives."""
    p = Chance(log_odds.detach(), logits=True)
    (p1, p0), delta = p.outcomes(), delta.detach()
    return -_log_mean(p0, -delta, p.flip()), -_log_mean(p1, delta, p)


def difference_of_log_odds(p: Chance, q: Chance) -> Tensor:
    """The log-odds of p less those of q, accurate near equality, differentiable; only where no outcome is certain."""
    if p.logits or q.logits:
        return p.as_logits().given - q.as_logits().given
    c = _change(p, q)
    spreads = [c.p1 * c.p0, c.q1 * c.q0]
    first = (p.sign / spreads[0], -q.sign / spreads[1])
    second = ((c.p1 - c.p0) / spreads[0] ** 2, torch.zeros_like(c.gap), (c.q0 - c.q1) / spreads[1] ** 2)
    return attach(-c.delta, [split_point(p.given)[1], split_point(q.given)[1]], first, second)


def log_change_of_success(p: Chance, q: Chance) -> Tensor:
    """The logarithm of q₁/p₁, accurate near equality, differentiable in both; 0 where an outcome of p is certain."""
    c = _change(p, q)
    slopes, curvatures = [], []
    for side, s1, s0 in ((p, c.p1, c.p0), (q, c.q1, c.q0)):
        slopes.append(s0 if side.logits else 1 / s1)
        curvatures.append(-s1 * s0 if side.logits else -1 / s1**2)
    first = (-slopes[0], slopes[1])
    second = (-curvatures[0], torch.zeros_like(c.gap), curvatures[1])
    plain = c._replace(infinite=c.infinite | c.never | c.always)
    return _differentiable((p, q), plain, torch.where(plain.infinite, 0.0, c.log1), first, second)


def _sum_of_terms(*outcomes: tuple[Tensor, Tensor, Tensor]) -> Tensor:
    """Σ p φ(log q/p); where q is much larger than p as q − p(1 + log q/p), which needs no p that underflowed."""
    first, second = (torch.where(log > 1, q - p * (1 + log), p * expm1mx(log.clamp(max=1.0))) for p, q, log in outcomes)
    return first + second


def _at_edges(c: _Change, inside: Tensor, q: Chance) -> Tensor:
    """−log q of the outcome that p is certain of; infinite where q lacks one that p has."""
    q = q._replace(given=q.given.detach())
    sure = torch.where(c.never, q.flip().log_success(), q.log_success())
    return torch.where(c.infinite, math.inf, torch.where(c.never | c.always, 0.0 - sure, inside))


def _differentiable(
    sides: tuple[Chance, Chance],
    c: _Change,
    value: Tensor,
    first: tuple[Tensor, Tensor],
    second: tuple[Tensor, Tensor, Tensor],
) -> Tensor:
    """Hang the derivatives on the value: none where it is infinite; at a certain p only the one to q."""
    p, q = sides
    sure = c.never | c.always
    blank = c.infinite | sure
    to_p, to_pp, to_pq = (torch.where(blank, 0.0, t) for t in (first[0], second[0], second[1]))
    # The chance of the certain outcome alone: −log q₁ or −log q₀ as a function of q's parameter.
    q1, q0 = q.outcomes()
    lost, kept = torch.where(c.never, q1, q0), torch.where(c.never, q0, q1)
    direction = torch.where(c.never, 1.0, -1.0)
    edge = (direction * lost, lost * kept) if q.logits else (direction / kept, 1 / kept**2)
    to_q, to_qq = (
        torch.where(c.infinite, 0.0, torch.where(sure, at_edge, inside))
        for at_edge, inside in zip(edge, (first[1], second[2]), strict=True)
    )
    steps = [split_point(p.given)[1] * p.sign, split_point(q.given)[1] * q.sign]
    return attach(value, steps, [to_p, to_q], [to_pp, to_pq, to_qq])


def minus_log_failure(q: Chance) -> Tensor:
    """−log q₀ ≥ 0, the divergence of a certain failure; infinite, with zero gradient, where success is certain."""
    always = q.certain()[1]
    known = q._replace(given=torch.where(always, q.inner().given, q.given))
    return torch.where(always, math.inf, 0.0 - known.flip().log_success())
