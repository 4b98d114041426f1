"""Entropy and cross-entropy of views."""

from __future__ import annotations

from torch import Tensor

from kullback.kernels.entropy_rows import cross_entropy_rows, entropy_rows
from kullback.tensors.frame import Options, divergence
from kullback.tensors.views import View


def entropy_of_view(p: View, options: Options) -> Tensor:
    """H(p) per row, reduced."""
    return divergence("entropy", entropy_rows, {"p": p}, options)


def cross_entropy_of_views(p: View, q: View, options: Options) -> Tensor:
    """H(p, q) per row, reduced."""
    return divergence("cross_entropy", cross_entropy_rows, {"p": p, "q": q}, options)
