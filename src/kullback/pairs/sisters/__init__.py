"""The divergences beside KL, and entropies, of distributions: one value per batch element, differentiable."""

from kullback.pairs.sisters.bounded import js, js_distance, scaled_js, skew_kl, total_variation
from kullback.pairs.sisters.entropy import cross_entropy, entropy
from kullback.pairs.sisters.jeffreys import jeffreys
from kullback.pairs.sisters.power import chi2, hellinger, renyi

__all__ = [
    "chi2",
    "cross_entropy",
    "entropy",
    "hellinger",
    "jeffreys",
    "js",
    "js_distance",
    "renyi",
    "scaled_js",
    "skew_kl",
    "total_variation",
]
