"""KL(p || q) of two views."""

from __future__ import annotations

from torch import Tensor

from kullback._core.validation import Validate
from kullback.kernels.kl_rows import kl_rows
from kullback.tensors.frame import Options, divergence, shortcut
from kullback.tensors.views import View


def kl_rows_of_views(p: object, q: object, validate: Validate) -> Tensor | None:
    """KL(p || q) per row on the shortest way; None where the other function has to look."""
    return shortcut(kl_rows, p, q, validate)


def kl_of_views(p: View, q: View, options: Options) -> Tensor:
    """KL(p || q) per row, reduced."""
    return divergence("kl", kl_rows, {"p": p, "q": q}, options)
