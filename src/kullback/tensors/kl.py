"""KL(p || q) of two views."""

from __future__ import annotations

from torch import Tensor

from kullback.kernels.kl_rows import kl_rows
from kullback.tensors.frame import Options, divergence
from kullback.tensors.views import View


def kl_of_views(p: View, q: View, options: Options) -> Tensor:
    """KL(p || q) per row, reduced."""
    return divergence("kl", kl_rows, {"p": p, "q": q}, options)
