"""The sister divergences per row: one op each."""

from __future__ import annotations

from kullback.kernels.f_rows import mixtures, ratios, renyi
from kullback.kernels.native_rows import NativeRows
from kullback.kernels.row_op import RowOp

js_rows = RowOp(mixtures.js_value, native=NativeRows("js", lambda: (0.5, 0.5, 0.5)))
js_distance_rows = RowOp(mixtures.js_distance_value)
skew_kl_rows = RowOp(mixtures.skew_kl_value, native=NativeRows("skew_kl", lambda alpha: (alpha, 1.0, 0.0)))
scaled_js_rows = RowOp(mixtures.scaled_js_value, native=NativeRows("scaled_js", mixtures.scaled_js_weights))
jeffreys_rows = RowOp(ratios.jeffreys_value)
total_variation_rows = RowOp(ratios.total_variation_value)
hellinger_rows = RowOp(ratios.hellinger_value)
chi2_rows = RowOp(ratios.chi2_value)
renyi_rows = RowOp(renyi.renyi_value)
