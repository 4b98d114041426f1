"""Log-densities' constants and cores that keep their digits at large parameters; the families call them."""

from __future__ import annotations

import math

import torch
from torch import Tensor

LOG_2PI = math.log(2 * math.pi)


def binet(a: Tensor) -> Tensor:
    """lgamma(a) − [(a − ½) log a − a + ½ log 2π]."""
    large = a > 12
    b = torch.where(large, a, 12.0)
    i = 1 / (b * b)
    series = (1 / 12 - i * (1 / 360 - i * (1 / 1260 - i * (1 / 1680 - i * (1 / 1188 - i * 691 / 360360))))) / b
    c = torch.where(large, 12.0, a).clamp_min(1e-300)
    return torch.where(large, series, torch.lgamma(c) - (c - 0.5) * torch.log(c) + c - LOG_2PI / 2)


def log_sinhc(h: Tensor) -> Tensor:
    """log(sinh h / h)."""
    size = h.abs()
    small = size < 0.03
    s = torch.where(small, 1.0, size)
    t = torch.where(small, h * h, 0.0)
    return torch.where(small, t / 6 * (1 - t / 30 * (1 - t * 4 / 63)), s + torch.log(-torch.expm1(-2 * s) / (2 * s)))


def deviance(k: Tensor, mean: Tensor, log_mean: Tensor) -> Tensor:
    """The deviance k log(k/mean) − k + mean, by a series where the two are close; the mean itself may underflow."""
    near = (k - mean).abs() < 0.1 * mean
    s = torch.where(near, k - mean, 0.0) / torch.where(near, mean, 1.0)
    series = torch.zeros_like(s)
    for j in range(12, 1, -1):
        series = 1 / (j * (j - 1)) - s * series
    some = (k > 0) & ~near
    far = torch.where(some, k, 1.0)
    log_ratio = torch.log(far) - log_mean
    return torch.where(near, mean * s * s * series, torch.where(some, k * log_ratio, 0.0) - (k - mean))


def log_factorial_rest(k: Tensor) -> Tensor:
    """lgamma(k + 1) − (k log k − k), 0 at k = 0."""
    some = k > 0
    s = torch.where(some, k, 1.0)
    return torch.where(some, torch.log(2 * math.pi * s) / 2 + binet(s), 0.0)


def beta_core(a: Tensor, b: Tensor, t: Tensor) -> Tensor:
    """The log-density of t = logit x − log(a/b) for x ~ Beta(a, b), which is flat at t = 0.

    With the smaller concentration m, n = a + b and u = t or −t it is m·u − n·log(1 + (m/n)(eᵘ − 1)) and a constant;
    with the larger one in place of m its terms would be large where their difference is small.
    """
    total = a + b
    first = a <= b
    smaller, larger, u = torch.where(first, a, b), torch.where(first, b, a), torch.where(first, t, -t)
    usual = u < 600.0
    near = smaller * u - total * torch.log1p(smaller / total * torch.expm1(torch.where(usual, u, 0.0)))
    far = -larger * u - total * torch.log(smaller / total)
    constant = (torch.log(a) + torch.log(b / total) - LOG_2PI) / 2 + binet(total) - binet(a) - binet(b)
    return torch.where(usual, near, far) + constant
