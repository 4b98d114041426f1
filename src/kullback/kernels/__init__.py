"""The one face through which native code is called."""

from kullback.kernels.native import status

__all__ = ["status"]
