"""Gaussians in several dimensions: dense, of low rank, by their margins, and bounds for mixtures of them."""

from kullback.pairs.gaussian import low_rank, mixture_bounds, multivariate_normal

__all__ = ["low_rank", "mixture_bounds", "multivariate_normal"]
