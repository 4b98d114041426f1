"""The sister divergences per row: one op each."""

from __future__ import annotations

from collections.abc import Callable

from kullback.kernels.f_rows import mixtures, ratios, renyi
from kullback.kernels.f_rows.mixture_gradients import mixture_gradients
from kullback.kernels.native_rows import NativeRows
from kullback.kernels.row_op import RowOp
from kullback.kernels.row_run import Value


def _mixture(name: str, value: Value, weights: Callable[..., tuple[float, float, float]]) -> RowOp:
    """`weights`: from the options to the share of p in the mixture and what multiplies the two divergences from it."""
    return RowOp(value, mixture_gradients(weights), NativeRows(name, weights))


js_rows = _mixture("js", mixtures.js_value, lambda: (0.5, 0.5, 0.5))
js_distance_rows = RowOp(mixtures.js_distance_value)
skew_kl_rows = _mixture("skew_kl", mixtures.skew_kl_value, lambda alpha: (alpha, 1.0, 0.0))
scaled_js_rows = _mixture("scaled_js", mixtures.scaled_js_value, mixtures.scaled_js_weights)
jeffreys_rows = RowOp(ratios.jeffreys_value)
total_variation_rows = RowOp(ratios.total_variation_value)
hellinger_rows = RowOp(ratios.hellinger_value)
chi2_rows = RowOp(ratios.chi2_value)
renyi_rows = RowOp(renyi.renyi_value)
