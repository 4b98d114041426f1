"""-Σ p log p, -Σ p log q and log Σ weights per row: the ops that `entropy` and `cross_entropy` call, and one more."""

from __future__ import annotations

from kullback.kernels.entropy_rows import reference
from kullback.kernels.native_rows import NativeRows, Settings
from kullback.kernels.row_op import RowOp

entropy_rows = RowOp(reference.entropy_value, reference.entropy_gradients, NativeRows("entropy", lambda: Settings(2)))
cross_entropy_rows = RowOp(
    reference.cross_entropy_value, reference.cross_entropy_gradients, NativeRows("cross_entropy", lambda: Settings(2))
)
logsumexp_rows = RowOp(
    reference.logsumexp_value, reference.logsumexp_gradients, NativeRows("logsumexp", lambda: Settings(3))
)
