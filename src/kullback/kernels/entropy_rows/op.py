"""-Σ p log p and -Σ p log q per row: the ops that `entropy` and `cross_entropy` call."""

from __future__ import annotations

from kullback.kernels.entropy_rows.reference import cross_entropy_value, entropy_value
from kullback.kernels.row_op import RowOp

entropy_rows = RowOp(entropy_value)
cross_entropy_rows = RowOp(cross_entropy_value)
