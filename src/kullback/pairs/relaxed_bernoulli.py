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
from kullback.pairs.visible import surely
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
    a, delta = chance_p.inner().as_logits().given, difference_of_log_odds(chance_p.inner(), chance_q.inner())
    # The closed form knows nothing of the slope in the temperatures.
    if surely(t_p == t_q) and not (t_p.requires_grad or t_q.requires_grad):
        value = _equal_temperatures(delta) + torch.zeros_like(t_p + t_q)
        error = torch.zeros_like(value.detach())
    else:
        value, error = _any_temperatures((t_p, t_q), a, delta)
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


def _any_temperatures(temperatures: tuple[Tensor, Tensor], a: Tensor, delta: Tensor) -> tuple[Tensor, Tensor]:
    """The module's formula; `a` are p's log-odds, `delta` what they exceed q's by."""
    t_p, t_q = temperatures
    excess, log_c = (t_q - t_p) / t_p, log_ratio(t_q, t_p)
    shift = excess * a + delta
    up = t_q > t_p
    log_scale = torch.where(up, -log_c, log_c)
    scale_less_one = torch.where(up, (t_p - t_q) / t_q, excess)
    offset = torch.where(up, -shift * (t_p / t_q), shift)
    index = torch.arange(-_REACH, _REACH + 1, dtype=a.dtype, device=a.device)
    logistic = _STEP * index
    weight = _STEP * torch.sigmoid(logistic) * torch.sigmoid(-logistic)
    tilts = scale_less_one.unsqueeze(-1) * logistic + offset.unsqueeze(-1)
    terms = 2 * weight * _tilted(logistic, tilts)
    fine, coarse = terms.sum(-1), 2 * terms[..., ::2].sum(-1)
    core = expm1mx(log_scale) + fine
    # 2(c − 1) − (1 + c) log c, third-order small at c = 1.
    near = excess.abs() < 0.5
    inner = torch.where(near, excess, 0.0)
    swap = torch.where(near, -inner * inner - (2 + inner) * log1pmx(inner), 2 * excess - (2 + excess) * log_c)
    value = torch.where(up, (1 + excess) * core + swap, core)
    return value, (fine - coarse).detach().abs() * torch.where(up, 1 + excess, 1.0).detach()
