"""KL(RelaxedBernoulli ‖ q). On the logit scale a logistic law with location a/T and scale 1/T.

With c = T_q/T_p, m = c a_p − a_q and L a standard logistic variable,

    KL = [c − 1 − log c] + 2 E[ KL(Bernoulli(L) ‖ Bernoulli(L + d)) ],    d = (c − 1) L + m,

log-odds inside; every part is non-negative. The expectation is a trapezoid rule on the real line, whose integrand is
analytic in the strip |Im L| < π/max(1, c); for c > 1 the divergence is expressed by that of 1/c and −m/c, which follows
from integrating by parts twice. At equal temperatures it is δ coth(δ/2) − 2, δ = a_p − a_q.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.distributions import RelaxedBernoulli
from torch.distributions.relaxed_bernoulli import LogitRelaxedBernoulli

from kullback._core.special._derivatives import attach, split_point
from kullback.kernels.pointwise import Pointwise
from kullback.pairs.outcomes import chance, difference_of_log_odds, kl_of_tilt
from kullback.pairs.parameters import read
from kullback.pairs.ratios import log_ratio
from kullback.pairs.registry import register
from kullback.pairs.visible import hidden, surely
from kullback.special import expm1mx, log1pmx

# With step 0.4 the trapezoid rule errs by e^(−2π²/0.4) < 1e-21; e^−48 is below rounding at any growth of the integrand.
_STEP, _REACH = 0.4, 120
# Below |x| = 1.5 by series of positive terms: 2(x cosh x − sinh x) = x³ Σ aₖ x²ᵏ, (sinh 2x − 2x)/2 = x³ Σ bₖ x²ᵏ.
_VALUE = [2 * (1 / math.factorial(2 * k + 2) - 1 / math.factorial(2 * k + 3)) for k in range(14)]
_SLOPE = [2.0 ** (2 * k + 2) / math.factorial(2 * k + 3) for k in range(18)]


@register(
    LogitRelaxedBernoulli,
    LogitRelaxedBernoulli,
    method="integral",
    source="δ coth(δ/2) − 2 at equal temperatures; else c − 1 − log c + 2 E KL(Bernoulli(L) ‖ Bernoulli(cL + m))",
)
def kl_logit_relaxed_bernoulli_logit_relaxed_bernoulli(
    p: LogitRelaxedBernoulli, q: LogitRelaxedBernoulli
) -> tuple[Tensor, Tensor]:
    """See the module's formula."""
    (t_p,), (t_q,) = read(p, "temperature"), read(q, "temperature")
    chance_p, chance_q = chance(p), chance(q)
    sure = chance_p.certain()[0] | chance_p.certain()[1] | chance_q.certain()[0] | chance_q.certain()[1]
    a, b = (side.inner().as_logits().given for side in (chance_p, chance_q))
    delta = difference_of_log_odds(chance_p.inner(), chance_q.inner())
    # The closed form knows nothing of the slope in the temperatures.
    if surely(t_p == t_q) and not (t_p.requires_grad or t_q.requires_grad):
        value = _equal_temperatures(delta) + torch.zeros_like(t_p + t_q)
        error = torch.zeros_like(value.detach())
    else:
        value, error = _any_temperatures((t_p, t_q), (a, b), delta)
    same = (chance_p.certain()[0] & chance_q.certain()[0]) | (chance_p.certain()[1] & chance_q.certain()[1])
    return torch.where(sure, torch.where(same, 0.0, math.inf), value), error


@register(
    RelaxedBernoulli,
    RelaxedBernoulli,
    method="integral",
    source="that of the logits: the sigmoid is a bijection",
)
def kl_relaxed_bernoulli_relaxed_bernoulli(p: RelaxedBernoulli, q: RelaxedBernoulli) -> tuple[Tensor, Tensor]:
    """See the module's formula."""
    return kl_logit_relaxed_bernoulli_logit_relaxed_bernoulli(p.base_dist, q.base_dist)


_tilted = Pointwise(kl_of_tilt)


def _equal_temperatures(delta: Tensor) -> Tensor:
    """δ coth(δ/2) − 2, with x = δ/2: slope (sinh 2x − 2x)/(2 sinh²x), curvature (x coth x − 1)/sinh²x."""
    point, step = split_point(delta)
    x = point / 2
    small = x.abs() < 1.5
    near = torch.where(small, x, 1.0)
    square = near * near
    sinhc = torch.where(near == 0, 1.0, torch.sinh(near) / torch.where(near == 0, 1.0, near))
    value, slope = square * _polynomial(square, _VALUE) / sinhc, near * _polynomial(square, _SLOPE) / sinhc**2
    bend = _polynomial(square, _VALUE) / (2 * sinhc**3)
    far = torch.where(small, 2.0, x.abs())
    csch2 = 4 * torch.exp(-2 * far) / torch.expm1(-2 * far) ** 2
    coth = 1 / torch.tanh(far)
    far_value = 2 * (far * coth - 1)
    return attach(
        torch.where(small, value, far_value),
        [step],
        [torch.where(small, slope, torch.sign(x) * (coth - far * csch2))],
        [torch.where(small, bend, csch2 * far_value / 2)],
    )


def _polynomial(x: Tensor, coefficients: list[float]) -> Tensor:
    total = torch.zeros_like(x)
    for coefficient in reversed(coefficients):
        total = total * x + coefficient
    return total


def _any_temperatures(
    temperatures: tuple[Tensor, Tensor], log_odds: tuple[Tensor, Tensor], delta: Tensor
) -> tuple[Tensor, Tensor]:
    """The module's formula; `delta` is what p's log-odds exceed q's by."""
    (t_p, t_q), (a, b) = temperatures, log_odds
    excess, log_c = (t_q - t_p) / t_p, log_ratio(t_q, t_p)
    # Far from c = 1 the slope c in a must not be built as (c − 1) + 1.
    near = excess.abs() < 0.5
    shift = torch.where(near, torch.where(near, excess, 0.0) * a + delta, t_q / t_p * a - b)
    up = t_q > t_p
    log_scale = torch.where(up, -log_c, log_c)
    scale_less_one = torch.where(up, (t_p - t_q) / t_q, excess)
    offset = torch.where(up, -shift * (t_p / t_q), shift)
    core, error = _shrunk(log_scale, scale_less_one, offset)
    # 2(c − 1) − (1 + c) log c, third-order small at c = 1.
    inner = torch.where(near, excess, 0.0)
    swap = torch.where(near, -inner * inner - (2 + inner) * log1pmx(inner), 2 * excess - (2 + excess) * log_c)
    value = torch.where(up, (1 + excess) * core + swap, core)
    return value, error * torch.where(up, 1 + excess, 1.0).detach()


def _shrunk(log_scale: Tensor, scale_less_one: Tensor, offset: Tensor) -> tuple[Tensor, Tensor]:
    """The divergence for c ≤ 1. Its slope in m is E sinh m/(cosh m + cosh cL), where no two terms differ in sign."""
    index = torch.arange(-_REACH, _REACH + 1, dtype=offset.dtype, device=offset.device)
    logistic = _STEP * index
    weight = _STEP * torch.sigmoid(logistic) * torch.sigmoid(-logistic)
    m = offset.detach()
    terms = 2 * weight * _tilted(logistic, scale_less_one.unsqueeze(-1) * logistic + m.unsqueeze(-1))
    fine, coarse = terms.sum(-1), 2 * terms[..., ::2].sum(-1)
    core, error = expm1mx(log_scale) + fine, (fine - coarse).detach().abs()
    if not hidden() and not offset.requires_grad:
        return core, error
    half = logistic[_REACH:]
    doubled = torch.where(half == 0, 1.0, 2.0) * weight[_REACH:]
    at = (1 + scale_less_one.detach()).unsqueeze(-1) * half, m.unsqueeze(-1)
    to_m, to_mm = ((doubled * slope(*at)).sum(-1) for slope in (_pull, _stiffness))
    to_mc = (doubled * half * _slack(*at)).sum(-1)
    none = torch.zeros_like(to_m)
    steps = [split_point(offset)[1], split_point(scale_less_one)[1]]
    return attach(core, steps, [to_m, none], [to_mm, to_mc, none]), error


def _parts(y: Tensor, m: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """e^(−|m|), e^y + e^(−y), and 2e^(−|m|)·(cosh m + cosh y)."""
    small, both = torch.exp(-m.abs()), torch.exp(y) + torch.exp(-y)
    return small, both, 1 + small * small + small * both


@Pointwise
def _pull(y: Tensor, m: Tensor) -> Tensor:
    """The quotient sinh m/(cosh m + cosh y)."""
    return torch.sign(m) * -torch.expm1(-2 * m.abs()) / _parts(y, m)[2]


@Pointwise
def _stiffness(y: Tensor, m: Tensor) -> Tensor:
    """Its derivative in m, (1 + cosh m cosh y)/(cosh m + cosh y)²."""
    small, both, total = _parts(y, m)
    return small * (4 * small + (1 + small * small) * both) / total / total


@Pointwise
def _slack(y: Tensor, m: Tensor) -> Tensor:
    """Its derivative in y, −sinh m sinh y/(cosh m + cosh y)²."""
    small, _, total = _parts(y, m)
    return torch.sign(m) * torch.expm1(-2 * m.abs()) * small * (torch.exp(y) - torch.exp(-y)) / total / total
