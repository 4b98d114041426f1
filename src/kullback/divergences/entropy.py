"""Entropy and cross-entropy of univariate distributions by the engine; `pairs` calls them."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from kullback.densities.registry import Reading
from kullback.divergences.expectations import over_components
from kullback.divergences.kl import infinite_by_support
from kullback.divergences.some_elements import where_not
from kullback.integrate.problem import Integrand, Sample


class _Surprise(Integrand):
    """−p·log q."""

    grows_as_log_q = True

    def value(self, sample: Sample, close: Tensor) -> Tensor:
        """The integrand."""
        del close
        weight = torch.exp(sample.log_weight)
        some = (weight > 0) & (sample.log_q > -math.inf)
        return torch.where(some, -weight * torch.where(some, sample.log_q, 0.0), 0.0)

    def log_size(self, sample: Sample) -> Tensor:
        """Log of p·(1 + |log q|)."""
        return sample.log_weight + torch.log1p(sample.log_q.abs())


def _surprise(p: Reading, q: Reading) -> tuple[Tensor, Tensor]:
    found = over_components(p, q, _Surprise())
    return found.value, found.error


def entropy(p: Reading) -> tuple[Tensor, Tensor]:
    """−E_p log p and an estimate of its error, one for each element."""
    return _surprise(p, p)


def cross_entropy(p: Reading, q: Reading) -> tuple[Tensor, Tensor]:
    """−E_p log q and an estimate of its error, one for each element."""
    return where_not(infinite_by_support(p, q), math.inf, p, q, _surprise)
