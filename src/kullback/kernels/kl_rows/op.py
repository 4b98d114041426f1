"""KL(p || q) per row: the op that `kl` calls."""

from __future__ import annotations

from kullback.kernels.kl_rows.reference import kl_gradients, kl_value
from kullback.kernels.native_rows import NativeRows, Settings
from kullback.kernels.row_op import RowOp

kl_rows = RowOp(kl_value, kl_gradients, NativeRows("kl", lambda: Settings(0)))
