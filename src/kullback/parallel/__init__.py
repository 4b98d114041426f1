"""Divergences of a vocabulary that is sharded over the ranks of a group; `torch.distributed` is used here only."""

from kullback.parallel.divergences import (
    alpha_divergence,
    chi2,
    hellinger,
    jeffreys,
    js,
    js_distance,
    kl,
    scaled_js,
    skew_kl,
    total_variation,
)

__all__ = [
    "alpha_divergence",
    "chi2",
    "hellinger",
    "jeffreys",
    "js",
    "js_distance",
    "kl",
    "scaled_js",
    "skew_kl",
    "total_variation",
]
