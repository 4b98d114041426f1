"""Training losses whose gradient is the one the user means: VAE, variational inference, diffusion, policies."""

from kullback.losses.elbo import elbo, importance_weighted_bound, multi_sample_bound
from kullback.losses.free_bits import free_bits
from kullback.losses.gaussian import gaussian_kl

__all__ = ["elbo", "free_bits", "gaussian_kl", "importance_weighted_bound", "multi_sample_bound"]
