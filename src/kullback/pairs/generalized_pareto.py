"""KL(GeneralizedPareto ‖ q), any location, scale and concentration.

Let E be p's own exponential variable, x = μ + σ·(e^(ξE) − 1)/ξ, and G(E) that of q at the same x: with
d = (μ_p − μ_q)/σ_q and r = σ_p/σ_q it is G = log1p(ξ_q·z')/ξ_q, z' = d + r·(e^(ξ_pE) − 1)/ξ_p. Then, Δ = ξ_q − ξ_p,

    log q/p = log r − ΔE − (1 + ξ_q)·(G − E),    KL = −E[log q/p].

Near equality the terms cancel; there, with φ(x) = eˣ − 1 − x and the mass of q that p does not reach added exactly,

    KL = E[φ(log q/p)] + (1 − e^(−G(0))) + e^(−G(∞)),

every term non-negative. G is singular at E* ± iπ/ξ_p only, E* = log|κ|/ξ_p, κ = (1 + ξ_q·d)/c − 1, c = ξ_q·r/ξ_p: the
panels of the integral shrink towards E*. A q with an upper end has κ ≥ 0 where it contains p. KL is infinite if q is
exponential (ξ_q = 0) and p has no mean (ξ_p ≥ 1), and where p reaches outside of q.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor, distributions
from torch.distributions import Distribution

from kullback._core.special._double_double import two_difference, two_product
from kullback.integrate.gauss_kronrod import panels
from kullback.kernels.pointwise import Pointwise
from kullback.pairs.parameters import read
from kullback.pairs.products import log_quotient, sum_of_products
from kullback.pairs.programs_first import programs_first
from kullback.pairs.ratios import log_ratio
from kullback.pairs.registry import register
from kullback.pairs.second_order import keeps_digits
from kullback.pairs.visible import surely
from kullback.special import expm1mx, log1pmx

# e^(−75) of p's mass is left out: second order in a relative difference of 1e-14 is still well above it.
_REACH = 75.0
# Concentrations this close to 0 are compared without dividing by them.
_FLAT_P, _FLAT_Q = 0.05, 0.2


class _Pair(NamedTuple):
    """Both laws, with what the integral needs.

    Attributes:
        x: ξ_p.
        y: ξ_q.
        log_r: log(σ_p/σ_q).
        rise: σ_p/σ_q − 1.
        d: (μ_p − μ_q)/σ_q.
        same: Whether ξ_p and ξ_q have the same sign, without which log c and κ are not defined.
        log_c: log(ξ_q·σ_p/(ξ_p·σ_q)).
        kappa: (1 + ξ_q·d)/c − 1, exact where the upper ends of the supports touch.
        over_c: (1 + ξ_q·d)/c.
    """

    x: Tensor
    y: Tensor
    log_r: Tensor
    rise: Tensor
    d: Tensor
    same: Tensor
    log_c: Tensor
    kappa: Tensor
    over_c: Tensor

    def columns(self) -> _Pair:
        """Beside a last dimension of nodes."""
        return _Pair(*(field.unsqueeze(-1) for field in self))

    def numbers(self) -> tuple[Tensor, ...]:
        """All fields, a truth as 1."""
        return tuple(field.to(self.x.dtype) for field in self)


@programs_first
def kl_generalized_pareto_generalized_pareto(p: Distribution, q: Distribution) -> tuple[Tensor, Tensor]:
    """See the head of this file; infinite elements are computed as if q were p."""
    given = [*read(p, "loc", "scale", "concentration"), *read(q, "loc", "scale", "concentration")]
    m, s, x, n, t, y = torch.broadcast_tensors(*given)  # type: ignore[no-untyped-call]
    # σ_q·ξ_p·(1 + ξ_q·z') at p's upper end, exactly; its sign is that of ξ_p where q reaches further.
    upper = _beyond_upper_end(*(value.detach() for value in (m, s, x, n, t, y)))
    finite = (m >= n) & ((y > 0) | ((y < 0) & (x < 0) & (upper <= 0)) | ((y == 0) & (x < 1)))
    n, t, y = (torch.where(finite, own, other.detach()) for own, other in ((n, m), (t, s), (y, x)))
    m, s, x = (torch.where(finite, own, own.detach()) for own in (m, s, x))
    pair = _compare(m, s, x, n, t, y)
    equal = (m == n) & (s == t) & (x == y)
    value, error = _divergence(pair, equal)
    return torch.where(finite, value, math.inf), torch.where(finite, error, 0.0)


if hasattr(distributions, "GeneralizedPareto"):  # newer than the oldest torch supported
    register(
        distributions.GeneralizedPareto,
        distributions.GeneralizedPareto,
        method="integral",
        source="−E log(q/p) over p's exponential variable; near equality E φ(log q/p) and the mass p does not reach",
        decides_support=True,
    )(kl_generalized_pareto_generalized_pareto)


@Pointwise
def _beyond_upper_end(m: Tensor, s: Tensor, x: Tensor, n: Tensor, t: Tensor, y: Tensor) -> Tensor:  # noqa: PLR0917
    """ξ_p·σ_q + ξ_p·ξ_q·(μ_p − μ_q) − ξ_q·σ_p, with the products' rounding errors."""
    (xy, xy_low), (gap, gap_low) = two_product(x, y), two_difference(m, n)
    return sum_of_products((x, t), (-y, s), (xy, gap), (xy, gap_low), (xy_low, gap))


def _compare(m: Tensor, s: Tensor, x: Tensor, n: Tensor, t: Tensor, y: Tensor) -> _Pair:  # noqa: PLR0917
    same = x * y > 0
    x_, y_ = torch.where(same, x, 1.0), torch.where(same, y, 1.0)
    exact = _beyond_upper_end(*(value.detach() for value in (m, s, x_, n, t, y_)))
    plain = x_ * t + x_ * y_ * (m - n) - y_ * s
    correction = (exact - plain).detach()
    beyond = plain + torch.where(correction.isfinite(), correction, 0.0)
    d = (m - n) / t
    log_c = log_quotient(y_.abs(), s, x_.abs(), t)
    over_c = (1 + torch.where(same, y_ * d, 0.0)) * torch.exp(-log_c)
    return _Pair(x, y, log_ratio(s, t), (s - t) / t, d, same, log_c, beyond / (y_ * s), over_c)


def _divergence(pair: _Pair, equal: Tensor) -> tuple[Tensor, Tensor]:
    at, kronrod, gauss, last = _nodes(pair)
    tilt, fall = _tilt_at(at, *pair.columns().numbers()), torch.exp(-at)
    weighted = fall * tilt
    far, coarse = ((weight * weighted).sum(-1) - pair.log_r for weight in (kronrod, gauss))
    apart = keeps_digits(far, (kronrod * weighted.detach().abs()).sum(-1) + pair.log_r.abs())
    # q is exponential and p close to having no mean: the integral runs far out, and is elementary.
    heavy = (pair.y == 0) & (pair.x > 0.9)
    thin = torch.where(heavy, pair.x, 0.0)
    elementary = pair.d - pair.log_r - (1 + thin) + (1 + pair.rise) / (1 - thin)
    if surely(apart | heavy):
        return torch.where(heavy, elementary, far), torch.where(heavy, 0.0, (far - coarse).detach().abs())
    log_q_over_p = torch.where(apart.unsqueeze(-1), 0.0, pair.log_r.unsqueeze(-1) - tilt)
    second = fall * expm1mx(log_q_over_p)
    below = -torch.expm1(-_exponent(pair.y, pair.d))
    excess = _excess_at(last, *pair.numbers())
    above = torch.exp(-last) * torch.expm1(-torch.where(equal | apart, 0.0, excess))
    # The last term may be negative by rounding where nothing else is left; a clamp would lose the slopes at equality.
    near = (kronrod * second).sum(-1) + below + above
    near = torch.where(near < 0, -near, near)
    value = torch.where(heavy, elementary, torch.where(apart, far, near))
    error = torch.where(apart, far - coarse, ((kronrod - gauss) * second).sum(-1)).detach().abs()
    return value, torch.where(heavy, 0.0, error)


def _nodes(pair: _Pair) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Nodes of E with two sets of weights, and where they end; they follow the parameters without a derivative.

    Three pieces: from 0 to half-way to E*, on to E*, and beyond it, each on a scale that is linear near one end and
    logarithmic away from it.
    """
    x, y, rise, d = (value.detach() for value in (pair.x, pair.y, pair.rise, pair.d))
    # κ = −1 + ξ_p·h, h = (1 + ξ_q·d)/(ξ_q·r)
    h = (1 + y * d) / torch.where(y == 0, 1e-300, y) / (1 + rise)
    kappa = torch.where(pair.same, pair.kappa.detach(), x * h - 1)
    small = (x * h).abs() < 0.5
    x_ = torch.where(small | (x == 0), 1.0, x)
    by_log = torch.log(torch.where(small, 1.0, kappa.abs().clamp_min(1e-300))) / x_
    flat = torch.where(small, x * h, 0.0)
    star = torch.where(small, -h * _log1p_ratio(-flat), by_log)
    furthest = _REACH / (1 - 2 * x.clamp_min(0.0)).clamp_min(0.04)
    star = torch.minimum(star, furthest).clamp_min(-50.0)
    unit = torch.where(kappa < 0, torch.minimum(math.pi / x.abs(), star.abs()), math.pi / x.abs()).clamp(1e-22, 1e3)
    middle = star.clamp_min(0.0)
    own = 1 / (1 + x.abs())
    zero = torch.zeros_like(x)
    parts = []
    v, k, g = panels(zero, torch.asinh(middle / 2 / own), 4)
    parts.append((own.unsqueeze(-1) * torch.sinh(v), k, g, own.unsqueeze(-1) * torch.cosh(v)))
    v, k, g = panels(zero, torch.asinh(middle / 2 / unit), 4)
    parts.append((middle.unsqueeze(-1) - unit.unsqueeze(-1) * torch.sinh(v), k, g, unit.unsqueeze(-1) * torch.cosh(v)))
    start = torch.asinh((middle - star) / unit)
    v, k, g = panels(start, torch.asinh((middle - star + _REACH) / unit), 18)
    grown = unit.unsqueeze(-1) * (torch.sinh(v) - torch.sinh(start).unsqueeze(-1))
    parts.append((middle.unsqueeze(-1) + grown, k, g, unit.unsqueeze(-1) * torch.cosh(v)))
    at = torch.cat([part[0] for part in parts], -1)
    kronrod, gauss = (torch.cat([part[i] * part[3] for part in parts], -1) for i in (1, 2))
    return at, kronrod, gauss, middle + _REACH


@Pointwise
def _tilt_at(at: Tensor, *numbers: Tensor) -> Tensor:
    """The first of `_tilt`, of `_Pair.numbers`."""
    pair = _Pair(*numbers)
    return _tilt(pair._replace(same=pair.same != 0), at)[0]


@Pointwise
def _excess_at(at: Tensor, *numbers: Tensor) -> Tensor:
    """The second of `_tilt`."""
    pair = _Pair(*numbers)
    return _tilt(pair._replace(same=pair.same != 0), at)[1]


def _tilt(pair: _Pair, at: Tensor) -> tuple[Tensor, Tensor]:
    """Log r − log q/p, that is ΔE + (1 + ξ_q)·(G − E), and G − E itself."""
    x, y = pair.x, pair.y
    delta = y - x
    ordered = (y >= 0) | (y.abs() <= x.abs()) | (delta.abs() < 0.1 * y.abs())
    flat = (x.abs() < _FLAT_P) & (y.abs() < _FLAT_Q) & ordered
    z = pair.d + (1 + pair.rise) * at * _expm1_ratio((x * at).clamp(max=600.0))
    comparable = (y.abs() >= x.abs() / 4) & (pair.log_r.abs() < 1)
    by_ends = pair.same & ~flat & (comparable | ((y * z).abs() > 0.5))
    direct = ~flat & ~by_ends
    exponent = _exponent(torch.where(direct, y, 0.0), torch.where(direct, z, 0.0))
    flat_excess = _flat_excess(pair, at, flat)
    # At large concentrations G − E is close to −ΔE/ξ_q, whose parts would cancel in the tilt.
    log_part, y_ = pair.log_c + _log_gap(pair, at, by_ends), torch.where(by_ends, y, 1.0)
    by_logs = (log_part - delta * at) / y_
    tilt = torch.where(direct, (1 + y) * exponent - (1 + x) * at, delta * at + (1 + y) * flat_excess)
    excess = torch.where(direct, exponent - at, flat_excess)
    return torch.where(by_ends, log_part + by_logs, tilt), torch.where(by_ends, by_logs, excess)


def _log_gap(pair: _Pair, at: Tensor, wanted: Tensor) -> Tensor:
    """log(1 + κ·e^(−ξ_pE)); with log c and ξ_pE it makes up log(1 + ξ_q·z')."""
    x = pair.x
    within = torch.where(pair.same, pair.kappa, 0.0) * torch.exp((-x * at).clamp(max=600.0))
    near = within.abs() < 0.5
    close = torch.log1p(torch.where(near & wanted, within, 0.0))
    outer = wanted & ~near
    up, down = outer & (x > 0), outer & (x < 0)
    rising = torch.where(up, x * at, 1.0)
    opened = torch.log(-torch.expm1(-rising) + torch.where(up, pair.over_c, 1.0) * torch.exp(-rising))
    log_kappa = torch.log(torch.where(down & (pair.kappa > 0), pair.kappa, 1.0))
    grown = log_kappa - torch.where(down, x * at, 0.0)
    closed = torch.logaddexp(grown, torch.zeros_like(grown))
    return torch.where(near, close, torch.where(x > 0, opened, closed))


def _flat_excess(pair: _Pair, at: Tensor, wanted: Tensor) -> Tensor:
    """For concentrations around 0: first from ξ_p to ξ_q at the same z, then from z to z'.

    With w = z/(1 + ξ_p·z), the first step is [Δ(w − E) + log1pmx(Δw)]/ξ_q, or, where that would divide by the smaller
    concentration, its mirror image with the roles exchanged.
    """
    x, y = (torch.where(wanted, value, 0.0) for value in (pair.x, pair.y))
    d, rise = (torch.where(wanted, value, 0.0) for value in (pair.d, pair.rise))
    delta = y - x
    # With |Δ| < |ξ_q|/10, q would end at z only where e^(−42) of p's mass is left: nothing that counts.
    ended = (y < 0) & (1 + delta * at * _expm1_ratio(-x * at) < 1e-3)
    growth = torch.where(wanted & ~ended, at, 0.0)
    w = growth * _expm1_ratio(-x * growth)
    decay = torch.exp(-x * growth)
    bottom = decay + y * w
    from_p = 4 * y.abs() >= x.abs()
    y_ = torch.where(from_p & (y != 0), y, 1.0)
    first = (-delta * growth * growth * x * _phi_ratio(-x * growth) + log1pmx(torch.where(from_p, delta * w, 0.0))) / y_
    z = growth * _expm1_ratio(x * growth)
    yz = torch.where(from_p, 0.0, y * z)
    x_ = torch.where(from_p, 1.0, x)
    own = torch.where(from_p, 0.0, z / (1 + yz))
    swapped = -(delta * z * _log1p_gap_ratio(yz) + log1pmx(-delta * own)) / x_
    # Between two exponential laws the step is 0, but its derivatives to both concentrations are not.
    level = delta * growth * growth * (growth * (2 * y - x) / 6 - 0.5)
    step = torch.where(from_p, torch.where(y == 0, level, first), swapped)
    return step + _exponent(y, (d * decay + rise * w) / bottom)


def _exponent(y: Tensor, z: Tensor) -> Tensor:
    """log1p(ξz)/ξ, z at ξ = 0."""
    return z * _log1p_ratio(y * z)


def _log1p_ratio(x: Tensor) -> Tensor:
    """log1p(x)/x."""
    small = x.abs() < 1e-3
    series = torch.where(small, x, 0.0)
    near = 1 - series * (1 / 2 - series * (1 / 3 - series * (1 / 4 - series * (1 / 5 - series / 6))))
    return torch.where(small, near, torch.log1p(torch.where(small, 1.0, x)) / torch.where(small, 1.0, x))


def _expm1_ratio(x: Tensor) -> Tensor:
    """expm1(x)/x."""
    small = x.abs() < 1e-3
    series = torch.where(small, x, 0.0)
    near = 1 + series * (1 / 2 + series * (1 / 6 + series * (1 / 24 + series * (1 / 120 + series / 720))))
    return torch.where(small, near, torch.expm1(torch.where(small, 1.0, x)) / torch.where(small, 1.0, x))


def _phi_ratio(x: Tensor) -> Tensor:
    """(eˣ − 1 − x)/x²."""
    small = x.abs() < 1e-2
    series = torch.where(small, x, 0.0)
    near = 1 / 2 + series * (1 / 6 + series * (1 / 24 + series * (1 / 120 + series * (1 / 720 + series / 5040))))
    near = near + series**6 / 40320
    square = torch.where(small, 1.0, x * x)
    return torch.where(small, near, expm1mx(torch.where(small, 1.0, x)) / square)


def _log1p_gap_ratio(x: Tensor) -> Tensor:
    """[log1p(x) − x/(1+x)]/x, about x/2."""
    small = x.abs() < 1e-2
    s = torch.where(small, x, 0.0)
    near = s * (1 / 2 - s * (2 / 3 - s * (3 / 4 - s * (4 / 5 - s * (5 / 6 - s * (6 / 7 - s * (7 / 8 - s * 8 / 9)))))))
    far = torch.where(small, 1.0, x)
    return torch.where(small, near, (torch.log1p(far) - far / (1 + far)) / far)
