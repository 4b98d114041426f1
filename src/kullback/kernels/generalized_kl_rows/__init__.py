"""KL of rows that need not be normalised."""

from kullback.kernels.generalized_kl_rows.op import generalized_kl_rows

__all__ = ["generalized_kl_rows"]
