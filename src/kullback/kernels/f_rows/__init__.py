"""Divergences of the form Σ p f(q/p), and functions of them, on rows."""

from kullback.kernels.f_rows.op import (
    chi2_rows,
    hellinger_rows,
    jeffreys_rows,
    js_distance_rows,
    js_rows,
    renyi_rows,
    scaled_js_rows,
    skew_kl_rows,
    total_variation_rows,
)

__all__ = [
    "chi2_rows",
    "hellinger_rows",
    "jeffreys_rows",
    "js_distance_rows",
    "js_rows",
    "renyi_rows",
    "scaled_js_rows",
    "skew_kl_rows",
    "total_variation_rows",
]
