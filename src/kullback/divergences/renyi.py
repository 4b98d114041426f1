"""Rényi's divergence of univariate distributions, and with it Hellinger's and chi-squared; `pairs` calls `renyi`.

With a = α − 1, r = log p − log q and φ(x) = eˣ − 1 − x,

    S = ∫ p^α q^(1−α) = ∫ p·e^(ar),    S − 1 = a·X,    X = ∫ p·[φ(−r) + φ(ar)/a],    D = log(S)/a.

The bracket is not negative and of second order, and its limit at a = 0 that of KL. Where S is far from 1, its
logarithm is integrated instead. Both are an expectation under p and one under q, p = p·σ(kr) + q·eʳ·σ(−kr) with k > α:
where p has a pole, q's part vanishes.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.nn.functional import softplus

from kullback._core.exponential import expm1mx
from kullback.densities.registry import Reading
from kullback.densities.tails import power, powers_diverge
from kullback.divergences.expectations import over_components
from kullback.divergences.some_elements import at_some, disjoint, ends, snapped, where_not
from kullback.integrate.peaks import largest
from kullback.integrate.problem import Integrand, Sample
from kullback.kernels.f_rows.exponential import expm1
from kullback.kernels.levels import is_traced

# Where S is smaller or larger, its logarithm is integrated.
_SMALL, _LARGE = 0.1, 1e3
# Log-ratios are kept below the first; e to the second is a number whose derivatives are numbers, too.
_LARGEST_RATIO, _LARGEST_EXPONENT = 1e20, 300.0
# From here on powers are multiplied with their weights as logarithms.
_WIDE = 30.0
# A log-ratio below this is one of nothing to something.
_NOTHING = -1e290
# Log-ratios are cut off, so that a larger logarithm of S is an S without bound.
_INFINITE = 1e18


def renyi(p: Reading, q: Reading, alpha: float) -> tuple[Tensor, Tensor]:
    """D_α(p ‖ q) and an estimate of its error, one for each element, for any order but 1."""
    if alpha == 0.0:
        value, error = where_not(disjoint(p, q), math.inf, p, q, _missing_mass)
    elif alpha == math.inf:
        value, error = where_not(_diverges(p, q, alpha), math.inf, p, q, _max_divergence)
    elif alpha < 0.5:
        # 1 − α would be rounded, and the order less 1, which is −α, with it.
        value, error = (alpha / (1 - alpha) * part for part in _of_order(q, p, -alpha))
    else:
        value, error = _of_order(p, q, alpha - 1)
    return snapped(p, q, value), error


def _of_order(p: Reading, q: Reading, a: float) -> tuple[Tensor, Tensor]:
    infinite = _diverges(p, q, 1 + a) if a > 0 else disjoint(p, q)
    return where_not(infinite, math.inf, p, q, lambda p, q: _finite(p, q, a))


def _finite(p: Reading, q: Reading, a: float) -> tuple[Tensor, Tensor]:
    """log1p(aX)/a, or log(S)/a where S is far from 1."""
    over_p = over_components(p, q, _Excess(a, -1.0), ends=True)
    over_q = over_components(q, p, _Excess(a, 1.0), ends=True)
    excess, error = over_p.value + over_q.value, over_p.error + over_q.error
    size = 1 + a * excess.detach()
    far = ~((size > _SMALL) & (size < _LARGE))
    value = torch.log1p(a * torch.where(far, 0.0, excess)) / a
    found = value, error / torch.where(far, 1.0, size)
    if is_traced():
        by_logarithm = _log_power(p, q, a)
        return torch.where(far, by_logarithm[0], found[0]), torch.where(far, by_logarithm[1], found[1])
    return at_some(far, found, p, q, lambda p, q: _log_power(p, q, a))


def _log_power(p: Reading, q: Reading, a: float) -> tuple[Tensor, Tensor]:
    """log(S)/a, each part scaled by its largest value."""
    logs, errors = [], []
    for over, other, sign in ((p, q, -1.0), (q, p, 1.0)):
        found = over_components(over, other, _LogPower(a, sign), ends=True, scaled=True)
        some = found.value > 0
        logs.append(torch.where(some, found.log_scale + torch.log(torch.where(some, found.value, 1.0)), -math.inf))
        errors.append(torch.where(some, found.log_scale + torch.log(found.error.clamp_min(1e-300)), -math.inf))
    nothing = (logs[0].detach() == -math.inf) & (logs[1].detach() == -math.inf)
    log_sum = torch.logaddexp(*(torch.where(nothing, 0.0, log) for log in logs))
    relative = torch.exp((torch.logaddexp(*errors) - log_sum.detach()).clamp_max(_LARGEST_EXPONENT))
    # What is larger than any number of use, and nobody sees how it ends, diverges.
    infinite = nothing | ((a * log_sum.detach() > 0) & (relative.isinf() | ~(log_sum.detach() < _INFINITE)))
    value = torch.where(infinite, math.inf, torch.where(infinite, 0.0, log_sum) / a)
    return value, torch.where(infinite, 0.0, relative / abs(a))


def _diverges(p: Reading, q: Reading, alpha: float) -> Tensor:
    """Where S is infinite for an order above 1, by supports and tails; for α = ∞ where p/q is unbounded."""
    with torch.no_grad():
        first, second = (side.mapped(torch.Tensor.detach).density() for side in (p, q))
        like = p.parameters[0].detach().unsqueeze(-1)
        (low_p, high_p), (low_q, high_q) = ends(first, like), ends(second, like)
        found = (low_p < low_q) | (high_p > high_q)
        flat = power(1.0)
        for i, own, other in ((0, low_p, low_q), (1, high_p, high_q)):
            if first.tails is not None and second.tails is not None:
                found = found | ((own == other) & powers_diverge(first.tails[i], second.tails[i], alpha, like))
            if first.tails is not None and not first.lattice:  # at an end of p inside its support q is flat
                found = found | ((own != other) & powers_diverge(first.tails[i], flat, alpha, like))
    return found.squeeze(-1)


def _missing_mass(p: Reading, q: Reading) -> tuple[Tensor, Tensor]:
    """−log of the mass that q puts on p's support, from the mass outside while that is the smaller part."""
    lost = over_components(q, p, _Inside(inside=False), ends=True)
    kept = over_components(q, p, _Inside(inside=True), ends=True, scaled=True)
    little, some = lost.value.detach() < 0.5, kept.value > 0
    near = -torch.log1p(-torch.where(little, lost.value, 0.0))
    far = -kept.log_scale - torch.log(torch.where(some, kept.value, 1.0))
    relative = kept.error / torch.where(some, kept.value.detach(), 1.0)
    value = torch.where(little, near, torch.where(some, far, math.inf))
    return value, torch.where(little, 2 * lost.error, relative)


def _max_divergence(p: Reading, q: Reading) -> tuple[Tensor, Tensor]:
    """The largest log-ratio on p's support."""
    found = [largest(part, p, q) for part in p.parts() or [p]]
    value = torch.stack([value for value, _ in found])
    if p.components:
        value = torch.where(torch.stack(p.parameters[: len(found)]) > -math.inf, value, -math.inf)
    return value.amax(0).clamp_min(0.0), torch.stack([error for _, error in found]).amax(0)


class _Power(Integrand):
    """What integrands with the power e^(ar) share; `sign` makes r of the log-ratio that this density sees."""

    def __init__(self, a: float, sign: float) -> None:
        self._a, self._sign = a, sign

    def _ratio(self, sample: Sample) -> Tensor:
        return (self._sign * sample.log_ratio).clamp(-_LARGEST_RATIO, _LARGEST_RATIO)

    def _share(self, r: Tensor) -> Tensor:
        """Log σ(kr) for p's part, r + log σ(−kr) for q's."""
        k = max(self._a, 0.0) + 2
        return -softplus(-k * r) if self._sign < 0 else r - softplus(k * r)


class _Excess(_Power):
    """The part of X under one density."""

    def value(self, sample: Sample, close: Tensor) -> Tensor:
        """The integrand; for a large log-ratio its parts, each with its weight in one exponent."""
        del close
        a, r, log_weight = self._a, self._ratio(sample), sample.log_weight
        wide = r.abs() * max(abs(a), 1.0) > _WIDE
        inner, outer = torch.where(wide, 0.0, r), torch.where(wide, r, _WIDE)
        near = torch.exp(log_weight + self._share(inner)) * (expm1mx(-inner) + expm1mx(a * inner) / a)
        share = self._share(outer)
        part = _bounded_exp(log_weight + share)
        grown = a * outer
        little = grown.abs() < 1  # next to order 1 the ratio's power is next to 1, however large the ratio
        growth = torch.where(
            little, part * expm1(torch.where(little, grown, 0.0)), _bounded_exp(log_weight + (share + grown)) - part
        )
        return torch.where(wide, _bounded_exp(log_weight + (share - outer)) - part + growth / a, near)

    def log_size(self, sample: Sample) -> Tensor:
        """The logarithm of the larger of the weight and its part of S."""
        r = self._ratio(sample)
        return sample.log_weight + (self._a * r + self._share(r)).clamp_min(0.0)

    def slope(self, sample: Sample, close: Tensor) -> Tensor:
        """Of second order, and at large ratios that of the power."""
        del close
        r = self._ratio(sample)
        grown = _bounded_exp((self._a * r + self._share(r)).clamp_min(0.0))
        return torch.where(r.abs() < _LARGEST_EXPONENT, r.abs().clamp_max(1.0), 0.0) * grown


class _LogPower(_Power):
    """The part of S under one density."""

    def value(self, sample: Sample, close: Tensor) -> Tensor:
        """The integrand."""
        del close
        return _bounded_exp(self.log_size(sample))

    def log_size(self, sample: Sample) -> Tensor:
        """Its logarithm."""
        r = self._ratio(sample)
        return sample.log_weight + (self._a * r + self._share(r))

    def slope(self, sample: Sample, close: Tensor) -> Tensor:
        """A rounding of log_prob is one of the integrand."""
        del close
        r = self._ratio(sample)
        return _bounded_exp(self._a * r + self._share(r)) * torch.where(r.abs() < 1e15, 1.0, 0.0)


class _Inside(Integrand):
    """A density where the other is not 0, or where it is."""

    def __init__(self, *, inside: bool) -> None:
        self._inside = inside

    def value(self, sample: Sample, close: Tensor) -> Tensor:
        """The integrand."""
        del close
        return torch.exp(self.log_size(sample))

    def log_size(self, sample: Sample) -> Tensor:
        """The logarithm of the weight there."""
        return torch.where((sample.log_ratio > _NOTHING) == self._inside, sample.log_weight, -math.inf)

    def slope(self, sample: Sample, close: Tensor) -> Tensor:
        """A rounding of log_prob is one of the integrand."""
        del close
        return torch.where(sample.log_ratio > _NOTHING, 1.0, 0.0).to(sample.log_weight.dtype)


def _bounded_exp(x: Tensor) -> Tensor:
    return torch.exp(x.clamp_max(_LARGEST_EXPONENT))
