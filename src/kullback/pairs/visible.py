"""Looking at values where that is possible, to skip work; never to change an answer. Formulas of `pairs` call it."""

from __future__ import annotations

from torch import Tensor

from kullback.kernels.levels import is_traced as hidden

__all__ = ["hidden", "surely"]


def surely(mask: Tensor) -> bool:
    """Whether the mask is known to hold everywhere; False where nobody can know."""
    return not hidden() and bool(mask.all())
