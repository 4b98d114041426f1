"""KL(Binomial ‖ q). Unequal counts are answered at a cost that does not depend on them; see `trials`."""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.distributions import Bernoulli, Binomial, Poisson

from kullback._core.special._double_double import two_product
from kullback.pairs.outcomes import chance
from kullback.pairs.parameters import read
from kullback.pairs.registry import register
from kullback.pairs.trials import beyond_mean, kl_of_trials
from kullback.special import kl_div, log1pmx


@register(
    Binomial,
    Binomial,
    method="integral",
    source="n KL(Bernoulli ‖ Bernoulli) for equal counts; n_p < n_q: Malmsten's integral; n_p > n_q: infinite",
    decides_support=True,
)
def kl_binomial_binomial(p: Binomial, q: Binomial) -> tuple[Tensor, Tensor]:
    """More trials than q has are infinitely surprising, unless p never succeeds."""
    (n,), (big,) = read(p, "total_count"), read(q, "total_count")
    return kl_of_trials(n, chance(p), big, chance(q))


@register(Binomial, Bernoulli, method="integral", source="a Bernoulli is a Binomial of one trial", decides_support=True)
def kl_binomial_bernoulli(p: Binomial, q: Bernoulli) -> tuple[Tensor, Tensor]:
    """See KL(Binomial ‖ Binomial)."""
    chance_q, (n,) = chance(q), read(p, "total_count")
    return kl_of_trials(n, chance(p), torch.ones_like(chance_q.given), chance_q)


@register(
    Binomial,
    Poisson,
    method="integral",
    source="[μ log(μ/λ) − μ + λ] + KL(Binomial ‖ Poisson(μ)), the second by Malmsten's integral",
    decides_support=True,
)
def kl_binomial_poisson(p: Binomial, q: Poisson) -> tuple[Tensor, Tensor]:
    """The divergence from the Poisson of equal mean, and that of the two Poissons."""
    (count,), (rate,), chance_p = read(p, "total_count"), read(q, "rate"), chance(p)
    never, always = chance_p.certain()
    idle = (count == 0) | never
    n = torch.where(idle, 1.0, count)
    given = torch.where(always, chance_p.given.detach(), chance_p.inner().given)
    known = chance_p._replace(given=given)
    mean, missing = n * known.success(), n * known.flip().success()
    # μ − λ, from the failures where these are few, else with what the product n·p₁ lost.
    lost = 0.0 if known.logits else two_product(n, known.given)[1].detach()
    gap = torch.where(missing < mean, (n - rate) - missing, (mean - rate) + lost)
    value = _kl_of_rates(torch.where(idle, 0.0, mean), rate, torch.where(idle, -rate, gap))
    value = torch.where((rate == 0) & ~idle, math.inf, value)  # the mean may underflow, the support does not
    extra, error = beyond_mean(n, torch.full_like(n, math.inf), known)
    return value + torch.where(value.isinf() | idle, 0.0, extra), torch.where(idle, 0.0, error)


def _kl_of_rates(mean: Tensor, rate: Tensor, gap: Tensor) -> Tensor:
    """μ log(μ/λ) − μ + λ for a gap μ − λ that is known better than μ."""
    near = gap.abs() < 0.5 * rate
    y = torch.where(near, gap, 0.0) / torch.where(near, rate, 1.0)
    return torch.where(near, rate * ((1 + y) * log1pmx(y) + y * y), kl_div(torch.where(near, rate, mean), rate))
