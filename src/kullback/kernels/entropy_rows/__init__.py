"""Entropy and cross-entropy of rows."""

from kullback.kernels.entropy_rows.op import cross_entropy_rows, entropy_rows

__all__ = ["cross_entropy_rows", "entropy_rows"]
