"""Looking at values where that is possible, to skip work; never to change an answer."""

from __future__ import annotations

import torch
from torch import Tensor

from kullback.kernels.levels import tracer_active, transform_active


def hidden() -> bool:
    """Whether values cannot be looked at: while compiling or tracing, and inside vmap, grad, jvp."""
    return torch.compiler.is_compiling() or transform_active() or tracer_active()


def surely(mask: Tensor) -> bool:
    """Whether the mask is known to hold everywhere; False where nobody can know."""
    return not hidden() and bool(mask.all())


def at_most(values: Tensor, bound: float) -> bool:
    """Whether every number is known to be at most the bound; False where nobody can know, or one is NaN."""
    return not hidden() and (values.numel() == 0 or float(values.detach().amax()) <= bound)
