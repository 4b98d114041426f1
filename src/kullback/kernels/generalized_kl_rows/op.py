"""Σ p log(p/q) - p + q per row: the op that `generalized_kl` calls."""

from __future__ import annotations

from kullback.kernels.generalized_kl_rows.reference import generalized_kl_gradients, generalized_kl_value
from kullback.kernels.native_rows import NativeRows, Settings
from kullback.kernels.row_op import RowOp

generalized_kl_rows = RowOp(
    generalized_kl_value, generalized_kl_gradients, NativeRows("generalized_kl", lambda: Settings(8))
)
