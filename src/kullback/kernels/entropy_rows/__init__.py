"""Entropy, cross-entropy and the log of the sum of weights of rows."""

from kullback.kernels.entropy_rows.op import cross_entropy_rows, entropy_rows, logsumexp_rows

__all__ = ["cross_entropy_rows", "entropy_rows", "logsumexp_rows"]
