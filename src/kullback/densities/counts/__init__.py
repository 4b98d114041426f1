"""The count families of torch, one file for each kind of formula; importing this registers them."""

from kullback.densities.counts import binomial, categorical, negative_binomial, poisson  # noqa: F401
