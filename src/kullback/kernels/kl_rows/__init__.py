"""KL(p || q) of rows."""

from kullback.kernels.kl_rows.op import kl_rows

__all__ = ["kl_rows"]
