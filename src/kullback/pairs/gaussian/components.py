"""A Gaussian mixture in several dimensions: weights, means and factors of its components.

A Gaussian is a mixture of one. Whatever the class, a component is read as a mean and the lower factor of its
covariance, in working precision.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor
from torch.distributions import (
    Distribution,
    Independent,
    LowRankMultivariateNormal,
    MixtureSameFamily,
    MultivariateNormal,
    Normal,
)

from kullback._core.shapes import joint_shape
from kullback.pairs.parameters import gives_logits, read, working


class Components(NamedTuple):
    """Components in the dimension before those of the event.

    Attributes:
        log_weight: (..., K), logarithms of the weights.
        loc: (..., K, d).
        factor: (..., K, d, d), lower triangular.
    """

    log_weight: Tensor
    loc: Tensor
    factor: Tensor


def is_gaussian_mixture(distribution: Distribution) -> bool:
    """Whether `components` reads it: a mixture of Gaussians over vectors, or one Gaussian."""
    inner = distribution.component_distribution if isinstance(distribution, MixtureSameFamily) else distribution
    if isinstance(inner, Independent):
        base = inner.base_dist
        return isinstance(base, Normal) and inner.reinterpreted_batch_ndims == 1
    return isinstance(inner, MultivariateNormal | LowRankMultivariateNormal)


def components(distribution: Distribution) -> Components:
    """Weights, means and factors."""
    if isinstance(distribution, MixtureSameFamily):
        loc, factor = _gaussian(distribution.component_distribution)
        return Components(_log_weights(distribution), loc, factor)
    loc, factor = (part.unsqueeze(-1 - dims) for dims, part in enumerate(_gaussian(distribution), start=1))
    return Components(torch.zeros_like(loc[..., 0]), loc, factor)


def _log_weights(mixture: MixtureSameFamily) -> Tensor:
    """Logarithms of the weights, components last, in the batch shape of the mixture."""
    weights = mixture.mixture_distribution
    if gives_logits(weights):
        (logs,) = read(weights, "logits")
    else:
        (probs,) = read(weights, "probs")
        some = probs > 0
        logs = torch.where(some, torch.log(torch.where(some, probs, 1.0)), -math.inf)
    # log1p of the others' sum: against a weight of 1e-12 the share of the largest is 1 to twelve digits.
    top, place = logs.max(-1, keepdim=True)
    here = torch.arange(logs.shape[-1], device=logs.device) == place
    others = torch.exp(torch.where(here, -math.inf, logs - top)).sum(-1, keepdim=True)
    shares = logs - top - torch.log1p(others)
    return shares.expand(*mixture.batch_shape, shares.shape[-1])


def _gaussian(distribution: Distribution) -> tuple[Tensor, Tensor]:
    if isinstance(distribution, Independent):
        base = distribution.base_dist
        return working(base.loc), torch.diag_embed(working(base.scale))
    loc = working(distribution.mean)
    if isinstance(distribution, MultivariateNormal):
        return loc, working(distribution._unbroadcasted_scale_tril).expand(*loc.shape, loc.shape[-1])
    assert isinstance(distribution, LowRankMultivariateNormal)
    diagonal, factor = working(distribution._unbroadcasted_cov_diag), working(distribution._unbroadcasted_cov_factor)
    covariance = torch.diag_embed(diagonal) + factor @ factor.mT
    return loc, torch.linalg.cholesky(covariance).expand(*loc.shape, loc.shape[-1])


def divergences(f: Components, g: Components) -> Tensor:
    """KL(f_a ‖ g_b) as (..., K_f, K_g)."""
    f_factor, g_factor = f.factor.unsqueeze(-3), g.factor.unsqueeze(-4)
    shape = joint_shape(f_factor.shape, g_factor.shape)
    f_factor, g_factor = f_factor.expand(shape), g_factor.expand(shape)
    shift = (f.loc.unsqueeze(-2) - g.loc.unsqueeze(-3)).unsqueeze(-1)
    solved: Tensor = torch.linalg.solve_triangular(g_factor, torch.cat([f_factor - g_factor, shift], -1), upper=False)
    w = solved[..., :-1]
    diagonal = w.diagonal(dim1=-2, dim2=-1)
    # With M = I + W lower triangular, ‖M‖² − d − 2·log det M = ‖W‖² + 2·Σ(w_ii − log(1 + w_ii)).
    log_terms = diagonal - torch.log1p(diagonal)
    return (w.square().sum((-2, -1)) + 2 * log_terms.sum(-1) + solved[..., -1].square().sum(-1)) / 2


def entropies(f: Components) -> Tensor:
    """H(f_a)."""
    d = f.loc.shape[-1]
    return f.factor.diagonal(dim1=-2, dim2=-1).log().sum(-1) + d * (1 + math.log(2 * math.pi)) / 2
