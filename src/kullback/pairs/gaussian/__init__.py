"""Gaussians in several dimensions: dense, of low rank, and bounds for mixtures of them; `dispatch` calls."""

from kullback.pairs.gaussian import low_rank, mixture_bounds, multivariate_normal

__all__ = ["low_rank", "mixture_bounds", "multivariate_normal"]
