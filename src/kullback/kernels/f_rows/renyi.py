"""Rényi's divergence of order α, accurate at p ≈ q and at every order, α = 1 among them.

With γ = 1 - α and S = Σ p e^(γd), d = log q/p, the divergence is -log(S)/γ, and S = 1 - γX with the divergence

    X = Σ p f(q/p),    f(t) = t - 1 - (t^γ - 1)/γ >= 0,

whose limit at γ = 0 is KL. So -log1p(-γX)/γ cancels neither when p ≈ q nor when α ≈ 1. Orders below ½ use
D_α(p || q) = α/(1-α) D_(1-α)(q || p), so that γ <= ½ and f itself does not cancel. Where S is far from 1 there is
nothing to protect, and log S is a logsumexp, which neither overflows nor underflows.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from kullback._core.special import expm1mx
from kullback.kernels.f_rows.exponential import expm1
from kullback.kernels.f_rows.generator import Generator, Larger, infinite_rows, sum_terms
from kullback.kernels.f_rows.pair import Frozen, Pair, read_pair
from kullback.kernels.sides import Side


def renyi_value(p: Side, q: Side, alpha: float) -> Tensor:
    """D_α(p || q) per row, 0 <= α <= ∞."""
    if alpha == math.inf:
        return _max_divergence(p, q)
    if alpha < 0.5:
        # γX rather than X, whose term f(0) is infinite at γ = 0.
        generator = _generator(alpha, scale=alpha, only_p=1.0 - alpha)
        pair = read_pair(p, q, generator.frozen.swapped()).swapped()
        return _divergence(pair, generator, gamma=alpha, share=1.0, factor=1.0 / (1.0 - alpha))
    gamma = 1.0 - alpha
    generator = _generator(gamma, scale=1.0, only_p=alpha / gamma if gamma > 0 else math.inf)
    pair = read_pair(p, q, generator.frozen)
    if gamma == 0:
        rows, infinite = sum_terms(pair, generator), infinite_rows(pair, generator)
        assert infinite is not None
        return torch.where(infinite, torch.inf, rows)
    return _divergence(pair, generator, gamma, share=gamma, factor=1.0 / gamma)


def _divergence(pair: Pair, generator: Generator, gamma: float, share: float, factor: float) -> Tensor:
    """-log(S) · factor, where S = 1 - share · Σ."""
    shared = pair.in_p & pair.in_q
    exponents = torch.where(shared, pair.log_p + gamma * pair.log_ratio, -torch.inf)
    log_s = torch.logsumexp(torch.where(shared.any(-1, keepdim=True), exponents, 0.0), -1)
    far = log_s.detach().abs() > 0.5
    ratio = torch.where(far.unsqueeze(-1), 0.0, pair.log_ratio)
    rows = torch.where(far, 0.0, sum_terms(pair._replace(log_ratio=ratio), generator))
    value = torch.where(far, -factor * log_s, -factor * torch.log1p(-share * rows))
    infinite = ~shared.any(-1)
    excluded = infinite_rows(pair, generator)
    return torch.where(infinite if excluded is None else infinite | excluded, torch.inf, value)


def _max_divergence(p: Side, q: Side) -> Tensor:
    """Log max p/q."""
    pair = read_pair(p, q, Frozen(False, False, False, False))
    shared = pair.in_p & pair.in_q
    most = torch.where(shared, -pair.log_ratio, -torch.inf).amax(-1)
    infinite = (pair.in_p & ~pair.in_q).any(-1)
    return torch.where(infinite, torch.inf, torch.where(infinite, 0.0, most))


def alpha_generator(alpha: float) -> Generator:
    """The f of (Σ p^α q^(1-α) - 1) / (α(α-1)) for α >= ½: X / α."""
    gamma = 1.0 - alpha
    return _generator(gamma, scale=1.0 / alpha, only_p=1.0 / gamma if gamma > 0 else math.inf)


def _generator(gamma: float, scale: float, only_p: float) -> Generator:
    """`scale` times f; f(0) as given, f*(0) = 1."""
    return Generator(
        lambda c: scale * _from_p(c, gamma),
        lambda c: scale * _from_q(c, gamma),
        only_p=only_p,
        only_q=scale,
        slope_p=scale * (1.0 - gamma) / gamma if gamma < 0 else None,
        slope_q=None,
    )


def _from_p(c: Larger, gamma: float) -> Tensor:
    """M (eˣ - 1 - (e^(γx) - 1)/γ), below x = -1 as it stands, above from the remainders of both exponentials."""
    near = c.x > -1
    if gamma == 0:
        return c.m * expm1mx(c.x)
    if gamma > 0:
        small = torch.where(near, c.x, 0.0)
        direct = expm1(c.x) - expm1(gamma * c.x) / gamma
        return c.m * torch.where(near, expm1mx(small) - expm1mx(gamma * small) / gamma, direct)
    grown = gamma * c.x
    large = grown > 1
    # m e^(γx) from its logarithm: m may underflow where the product does not.
    remainder = torch.where(
        large,
        torch.exp(torch.where(large, c.log_m + grown, 0.0)) - c.m * (1 + grown),
        c.m * expm1mx(torch.where(large, 0.0, grown)),
    )
    return c.m * expm1mx(c.x) - remainder / gamma


def _from_q(c: Larger, gamma: float) -> Tensor:
    """M (1 - s - (s^(1-γ) - s)/γ), s = eˣ."""
    s = torch.exp(c.x)
    near = c.x > -1
    small = torch.where(near, -c.x, 0.0)
    if gamma == 0:
        return c.m * torch.where(near, s * expm1mx(small), s * c.x - expm1(c.x))
    close = s * (expm1mx(small) - expm1mx(gamma * small) / gamma)
    grown = -gamma * c.x
    power = torch.where(grown > 1, torch.exp((1 - gamma) * c.x) - s, s * torch.expm1(grown.clamp(max=1.0)))
    return c.m * torch.where(near, close, -expm1(c.x) - power / gamma)
