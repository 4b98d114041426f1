"""KL(StudentT ‖ q), any degrees of freedom, locations and scales.

With ν, μ, σ of p and of q, Q = ((x − μ_q)/σ_q)² and x under p,

    KL = log(σ_q/σ_p) + f(ν_p) − f(ν_q) − (ν_p+1)/2·E log(1 + (x − μ_p)²/(ν_p·σ_p²)) + (ν_q+1)/2·E log(1 + Q/ν_q).

The first expectation is ψ((ν_p+1)/2) − ψ(ν_p/2). The second has no elementary form, but x = μ_p + σ_p·z/√g with a Gamma
g, so that gY, Y = 1 + Q/ν_q, has an elementary Laplace transform, and Frullani's integral

    E log Y − E log(κ·Y₀) = ∫₀^∞ [E e^(−κ·t·gY₀) − E e^(−t·gY)] dt/t

compares it with a Y₀ whose expectation is known. With t = e^s/E[gY] the integrand is analytic and decays on both sides,
and κ = E gY / E gY₀ keeps everything that happens near s = 0 at any ratio of the scales. For few degrees of freedom
of p see `student_t_heavy`. Near equality the terms
cancel; there the divergence is E[φ(log q/p)], φ(x) = eˣ − 1 − x, whose integrand is non-negative and of second order.
For many degrees of freedom what matters of them is their deviation from the Normal: with z of p, z_q = (x − μ_q)/σ_q,

    KL = KL(N(μ_p, σ_p) ‖ N(μ_q, σ_q)) + ((σ_p/σ_q)² − 1)/(ν_p − 2) + h(ν_p) − h(ν_q) + E c(z_q, ν_q) − E c(z, ν_p),

h and c being (ν+1)/2·log(1 + z²/ν) and the normaliser, each less its limit for ν → ∞.

References:
    Frullani's integral: DLMF 1.4(v). Trapezoidal rule: Trefethen, Weideman, SIAM Review 56 (2014) 385.
"""

from __future__ import annotations

import functools
import math
from typing import NamedTuple

import torch
from torch import Tensor
from torch.distributions import Normal, StudentT

from kullback._core.special._double_double import divided, root, times, two_difference
from kullback._core.special._precision import horner
from kullback.kernels.pointwise import Pointwise
from kullback.pairs.gamma_half_step import SERIES, half_step_difference, half_step_slope, log_half_step
from kullback.pairs.moments import exact, kl_to_normal, known_to
from kullback.pairs.parameters import read
from kullback.pairs.programs_first import programs_first
from kullback.pairs.ratios import log_ratio
from kullback.pairs.registry import register
from kullback.pairs.relative_factor import is_known
from kullback.pairs.student_t_heavy import by_panels, is_heavy, scales_apart
from kullback.special import expm1mx, log1pmx

# Below this the two expectations have cancelled three digits, and the second-order form takes over; its nodes cannot
# follow a q that is centred elsewhere in units of √ν·σ.
_NEAR, _NEAR_SHIFT = 1e-3, 0.1
# From here on the deviation from the Normal is integrated, for a q that is neither centred elsewhere nor narrower in
# units of √ν·σ; its terms are of order 1/ν and cancel later.
_MANY, _MANY_RISE, _MANY_NEAR = 1e5, 1e-2, 1e-8
# Nodes of the two integrals, the second with both signs; e^(−38) is what their ranges leave out.
_FRULLANI_NODES, _DENSITY_NODES = 192, 73
_STRETCH = 8.0
# φ(x)/x² and artanh(r)/r³ − 1/r², their Taylor coefficients; to rounding for |x| ≤ ¼.
_PHI = [1 / math.factorial(k) for k in range(2, 14)]
_ARTANH = [1 / (2 * k + 3) for k in range(10)]


class _Pair(NamedTuple):
    """Both laws, with what the integrals share.

    Attributes:
        df_p: ν_p.
        df_q: ν_q.
        log_scales: log(σ_p/σ_q).
        shift: (μ_p − μ_q)/σ_p.
        offset: (μ_p − μ_q)/σ_q.
    """

    df_p: Tensor
    df_q: Tensor
    log_scales: Tensor
    shift: Tensor
    offset: Tensor


@register(
    StudentT,
    StudentT,
    method="integral",
    source="Frullani: ∫(E e^(−κtgY₀) − E e^(−tgY))dt/t; near equality ∫p·φ(log q/p)",
)
@functools.partial(programs_first, up_to=64)  # of more elements the formula costs less
def kl_student_t_student_t(p: StudentT, q: StudentT) -> tuple[Tensor, Tensor]:
    """Both forms by the trapezoidal rule; the error is the difference from every other node."""
    df_p, loc_p, scale_p = read(p, "df", "loc", "scale")
    df_q, loc_q, scale_q = read(q, "df", "loc", "scale")
    gap = loc_p - loc_q
    together = torch.broadcast_tensors(df_p, df_q, log_ratio(scale_p, scale_q), gap / scale_p, gap / scale_q)  # type: ignore[no-untyped-call]
    pair = _Pair(*together)
    heavy = is_heavy(pair.df_p, pair.df_q)
    far, far_error, many = _far(pair, heavy)
    apart = (far > torch.where(many, _MANY_NEAR, _NEAR)) | (pair.shift.abs() > _NEAR_SHIFT * pair.df_p.sqrt())
    apart = apart | (heavy & scales_apart(pair.df_p, pair.df_q, pair.log_scales))
    if is_known(apart):
        close = ~apart
        if not bool(close.any()):
            return far, far_error.detach()
        near, near_error = _by_density(_Pair(*(part[close] for part in pair)))
        return far.masked_scatter(close, near), far_error.detach().masked_scatter(close, near_error.detach())
    # Where the second form is not asked for it is given two equal laws, so that nothing in it can overflow.
    near, near_error = _by_density(
        _Pair(
            pair.df_p,
            torch.where(apart, pair.df_p, pair.df_q),
            torch.where(apart, 0.0, pair.log_scales),
            torch.where(apart, 0.0, pair.shift),
            torch.where(apart, 0.0, pair.offset),
        )
    )
    return torch.where(apart, far, near), torch.where(apart, far_error, near_error).detach()


@register(StudentT, Normal, source="J(ν) + KL(Normal of the same moments ‖ q); infinite if ν ≤ 2")
def kl_student_t_normal(p: StudentT, q: Normal) -> Tensor:
    """The variance is σ²·ν/(ν−2)."""
    df, loc, scale = read(p, "df", "loc", "scale")
    finite = df > 2
    df = torch.where(finite, df, 3.0)
    at = df.detach()
    widened = root(divided(exact(at), two_difference(at, torch.full_like(at, 2.0))))
    sd = known_to(scale * torch.exp(torch.log1p(2 / (df - 2)) / 2), times(exact(scale.detach()), widened))
    value = kl_to_normal(_negentropy(df), sd, two_difference(loc, read(q, "loc")[0]), q)
    return torch.where(finite, value, torch.inf)


def _negentropy(df: Tensor) -> Tensor:
    """J = ½log(ν/(ν−2)) − 1/(2ν) + f(ν/2) − (ν+1)/2·f'(ν/2), about ¾/ν²; for large ν without the terms in 1/ν."""
    large = df > 50
    y = 1 / torch.where(large, df, 50.0)
    # Term k of f and f' is a_k·(2y)^(2k−1)·[1 + (2k−1)(1+y)]; the linear parts of k = 1 and of the logarithm cancel.
    powers = (2 * y) ** 2
    plain = horner(powers, SERIES[1:])
    weighted = horner(powers, [(2 * k + 3) * c for k, c in enumerate(SERIES[1:])])
    series = -log1pmx(-2 * y) / 2 - y * y / 4 + (2 * y) ** 3 * (plain + (1 + y) * weighted)
    n = torch.where(large, 50.0, df)
    x = n / 2
    direct = torch.log1p(2 / (n - 2)) / 2 - 0.5 / n + log_half_step(x) - (n + 1) / 2 * half_step_slope(x)
    return torch.where(large, series, direct)


def _far(pair: _Pair, heavy: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Value and error away from equality, and where both have many degrees of freedom."""
    value, error = _by_frullani(_only(pair, ~heavy, 1.0))
    if is_known(heavy):
        if bool(heavy.any()):
            found, found_error = by_panels(*(part[heavy] for part in pair[:4]))
            value, error = value.masked_scatter(heavy, found), error.detach().masked_scatter(heavy, found_error)
    else:
        found, found_error = by_panels(*_only(pair, heavy, 0.25)[:4])
        value, error = torch.where(heavy, found, value), torch.where(heavy, found_error, error)
    rise = torch.exp(2 * pair.log_scales) * (1 + pair.shift**2) / pair.df_q
    many = (torch.minimum(pair.df_p, pair.df_q) > _MANY) & (rise < _MANY_RISE)
    if is_known(many) and not bool(many.any()):
        return value, error, many
    by_normal, normal_error = _by_normal(_only(pair, many, _MANY))
    return torch.where(many, by_normal, value), torch.where(many, normal_error, error), many


def _only(pair: _Pair, asked: Tensor, df: float) -> _Pair:
    """The pair where a form is asked for, elsewhere equal laws of `df` degrees of freedom: nothing in it overflows."""
    same = _Pair(*(torch.where(asked, own, 0.0) for own in pair))
    return same._replace(df_p=torch.where(asked, pair.df_p, df), df_q=torch.where(asked, pair.df_q, df))


def _by_normal(pair: _Pair) -> tuple[Tensor, Tensor]:
    """The deviation from the divergence of two Normals; `log_half_step` is h."""
    level, _, tanh, weight = _density_nodes(pair.df_p.detach(), pair.df_p.detach())
    n, m = pair.df_p.unsqueeze(-1), pair.df_q.unsqueeze(-1)
    log_constant = (log_half_step(pair.df_p / 2) + torch.log(pair.df_p / (2 * math.pi)) / 2).unsqueeze(-1)
    density = torch.exp(log_constant - n / 2 * level) * weight
    sinh = tanh * torch.exp(level / 2)
    square = n * sinh * sinh
    z = torch.exp(pair.log_scales).unsqueeze(-1) * torch.sqrt(n) * sinh
    offset = pair.offset.unsqueeze(-1)
    other = (_deviation((z + offset) ** 2, m) + _deviation((z - offset) ** 2, m)) / 2
    terms = 2 * density * (other - _deviation(square, n))
    scaled = torch.expm1(2 * pair.log_scales) / (pair.df_p - 2)
    constant = log_half_step(pair.df_p / 2) - log_half_step(pair.df_q / 2)
    gaussian = (expm1mx(2 * pair.log_scales) + pair.offset**2) / 2
    coarse = 2 * terms[..., ::2].sum(-1) - terms.sum(-1)
    return gaussian + (scaled + constant + terms.sum(-1)), coarse.abs()


def _deviation(square: Tensor, df: Tensor) -> Tensor:
    """(ν+1)/2·log(1 + z²/ν) − z²/2, about (2z² − z⁴)/(4ν)."""
    return (square / df - (df + 1) * _xml1p(square / df)) / 2


def _by_frullani(pair: _Pair) -> tuple[Tensor, Tensor]:
    """The four terms, E log Y against Y₀ = 1: E log κ·g is known."""
    df_p, df_q, log_scales, shift, _ = pair
    ratio = torch.exp(2 * log_scales) / df_q
    rise = ratio * (1 + shift * shift)
    node, weight = _frullani_nodes(df_p.detach(), ratio.detach(), rise.detach())
    terms = _frullani_at(node, weight, *(x.unsqueeze(-1) for x in (df_p, ratio, shift * shift, rise)))
    mean_log = torch.log1p(rise) + terms.sum(-1)
    coarse = 2 * terms[..., ::2].sum(-1) - terms.sum(-1)
    # −(ν+1)/2·(slope + 1/ν) with the half and 1/2ν by themselves: for large ν all that is left is of order 1/ν.
    entropy = -(df_p + 1) / 2 * half_step_slope(df_p / 2) - 0.5 / df_p - 0.5
    normaliser = log_half_step(df_p / 2) - log_half_step(df_q / 2)
    value = normaliser - log_scales + entropy + (df_q + 1) / 2 * mean_log
    return value, (df_q + 1) / 2 * coarse.abs()


@Pointwise
def _frullani_at(node: Tensor, weight: Tensor, *given: Tensor) -> Tensor:
    """What Frullani's integral of log Y has at a node t.

    With the ratio r, c = r·δ²/(1+2tr) and κ = 1 + rise it is

        e^(−[log(1+2tr) + n·log(1+x₁)]/2)·expm1([n·log(1+x₁) − n·log(1+x₂) + log(1+2tr)]/2),

    x₁ = 2t(1+c)/n, x₂ = 2tκ/n. For small x₂ the parts of first order, which agree, are left out: what remains is
    −(2tr − log(1+2tr)) − 2tr·2tc + n·(x₂ − log(1+x₂)) − n·(x₁ − log(1+x₁)), with a slope to n that does not cancel.
    """
    n, r, d2, rise = given
    twice = 2 * node
    ahead, step = twice / n, twice * r
    slow, c = torch.log1p(step), r * d2 / (1 + step)
    first, second = ahead * (1 + c), ahead * (1 + rise)
    small = second < 0.25
    x, y = torch.where(small, first, 0.0), torch.where(small, second, 0.0)
    bend = n * _xml1p(x)
    within = ahead / (1 + ahead)
    apart = n * (torch.log1p(within * c) - torch.log1p(within * rise)) + slow
    close = n * _xml1p(y) - bend - _xml1p(torch.where(small, step, 0.0)) - step * twice * c
    decay = torch.where(small, twice * (1 + c) - bend, n * torch.log1p(first))
    return torch.exp(-(slow + decay) / 2) * torch.expm1(torch.where(small, close, apart) / 2) * weight


def _frullani_nodes(df: Tensor, ratio: Tensor, rise: Tensor) -> tuple[Tensor, Tensor]:
    """Points t = e^s/E[gY] with s = 8·sinh(u/8), u equidistant, and ds.

    They reach from e^(2s) = e^(−40), as both means agree, to where both transforms have vanished.
    """
    reach, log_mean = 76.0, torch.log1p(rise)

    def log_decay(unit: Tensor, rate: Tensor) -> Tensor:
        """The s at which (1 + 2e^s/unit)^(−rate/2) = e^(−38)."""
        exponent = reach / rate
        return torch.log(unit / 2) + exponent + torch.log(-torch.expm1(-exponent))

    by_slow = reach + log_mean - torch.log(ratio)
    alone = log_decay(df, df)
    upper = torch.maximum(alone, torch.minimum(log_mean + alone, by_slow)).clamp(min=5.0)
    low, high = -_STRETCH * math.asinh(20 / _STRETCH), _STRETCH * torch.asinh(upper / _STRETCH)
    step = (high - low) / (_FRULLANI_NODES - 1)
    u = low + step.unsqueeze(-1) * torch.arange(_FRULLANI_NODES, dtype=df.dtype, device=df.device)
    s = _STRETCH * torch.sinh(u / _STRETCH)
    return torch.exp(s - log_mean.unsqueeze(-1)), torch.cosh(u / _STRETCH) * step.unsqueeze(-1)


def _by_density(pair: _Pair) -> tuple[Tensor, Tensor]:
    """E[φ(log q/p)] over w, (x − μ_p)/σ_p = √ν_p·sinh w, where p is proportional to cosh(w)^(−ν_p).

    log q/p is a sum of terms that vanish at equality: with 1 + b = ν_p/ν_q, ℓ = 2·log cosh w and A = tanh² w it is

        f(ν_q) − f(ν_p) + log(σ_p/σ_q) + ν_q/2·[b·φ(−ℓ) + bA − log(1+bA)] − ½log(1+bA) − (ν_q+1)/2·log(1+Y),

    where Y is what scales and locations change of 1 + Q/ν_q, relatively: for ±w it is U ± V, and with r = V/(1+U)

        log(1 + U ± V) = log(1+U) + ½log(1−r²) ± artanh r,  φ(e+o) + φ(e−o) = 2[φ(e) + 2eᵉ·sinh²(o/2)].

    Both signs together, everything is even in the shift: what the locations alone change of the derivatives to the
    other parameters is of second order and is not left over from terms of first order.
    """
    df_p, df_q, log_scales, shift = (x.unsqueeze(-1) for x in pair[:4])
    level, sech, tanh, weight = _density_nodes(pair.df_p.detach(), pair.df_q.detach())
    b, a = (df_p - df_q) / df_q, torch.expm1(2 * log_scales)
    aside = shift / df_p.sqrt() * sech
    square = tanh * tanh
    curved = b * square
    own = (1 + b) / (1 + curved)
    even = own * (a * square + (1 + a) * aside * aside)
    odd = own * (1 + a) * 2 * aside * tanh / (1 + even)
    constant = (half_step_difference(pair.df_p / 2, pair.df_q / 2) + pair.log_scales).unsqueeze(-1)
    bent = df_q / 2 * (b * _phi(-level) + _xml1p(curved)) - torch.log1p(curved) / 2
    mean_log = constant + bent - (df_q + 1) / 2 * (torch.log1p(even) + torch.log1p(-odd * odd) / 2)
    half_gap = torch.sinh((df_q + 1) / 4 * torch.atanh(odd))
    log_constant = (log_half_step(pair.df_p / 2) + torch.log(pair.df_p / (2 * math.pi)) / 2).unsqueeze(-1)
    density = torch.exp(log_constant - df_p / 2 * level) * weight
    terms = 2 * density * (_phi(mean_log) + 2 * torch.exp(mean_log) * half_gap * half_gap)
    value = terms.sum(-1)
    return value, (2 * terms[..., ::2].sum(-1) - value).abs()


def _density_nodes(df_p: Tensor, df_q: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """2·log cosh w, 1/cosh w and tanh w at w = W·sinh(θx)/sinh θ, x equidistant on [0, 1], and dw.

    W leaves e^(−38) of p and of q; θ makes the first step fine enough for the width 1/√ν and the poles at ±iπ/2.
    """

    def reach(df: Tensor) -> Tensor:
        """The W at which cosh(W)^(−ν) = e^(−38)."""
        return 38 / df + torch.log1p(torch.sqrt(-torch.expm1(-76 / df)))

    heavier = df_q.clamp(min=1.0)
    width = torch.maximum(reach(df_p), torch.asinh(torch.sqrt(heavier / df_p) * torch.sinh(reach(heavier))))
    last = _DENSITY_NODES - 1
    stretch = (width / last / (0.2 * torch.clamp(2 / df_p.sqrt(), max=1.0))).clamp(min=1.0)
    theta = torch.asinh(stretch * (1 + torch.log(stretch))).unsqueeze(-1)
    x = torch.arange(_DENSITY_NODES, dtype=df_p.dtype, device=df_p.device) / last
    unit = width.unsqueeze(-1) / torch.sinh(theta)
    w = unit * torch.sinh(theta * x)
    fall = torch.exp(-2 * w)
    tanh = torch.tanh(w)
    small = w < 1
    level = torch.where(
        small,
        -torch.log1p(-torch.where(small, tanh * tanh, 0.0)),
        2 * (w + torch.log1p(fall) - math.log(2)),
    )
    # The node at 0 belongs to both signs.
    shared = torch.where(x == 0, 0.5, 1.0)
    return level, 2 * torch.exp(-w) / (1 + fall), tanh, shared * unit * theta * torch.cosh(theta * x) / last


def _phi(x: Tensor) -> Tensor:
    """The value eˣ − 1 − x; as `special.expm1mx`, but light enough for a whole grid of nodes."""
    small = x.abs() < 0.25
    series = torch.where(small, x, 0.0)
    return torch.where(small, series * series * horner(series, _PHI), torch.expm1(x) - x)


def _xml1p(x: Tensor) -> Tensor:
    """The value x − log(1 + x), likewise, by r = x/(2+x): log(1+x) = 2·artanh(r)."""
    small = x.abs() < 0.25
    series = torch.where(small, x, 0.0)
    r = series / (2 + series)
    square = r * r
    close = r * series - 2 * r * square * horner(square, _ARTANH)
    return torch.where(small, close, x - torch.log1p(torch.where(small, 0.0, x)))
