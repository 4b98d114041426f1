"""The count families of torch, one file each; importing this registers them."""

from kullback.densities.counts import binomial, categorical, geometric, negative_binomial, poisson

__all__ = ["binomial", "categorical", "geometric", "negative_binomial", "poisson"]
