"""Looking at values where that is possible, to skip work; never to change an answer."""

from __future__ import annotations

import torch
from torch import Tensor

from kullback.kernels.levels import tracer_active, transform_active
from kullback.kernels.recorder import active_recorder


class Assuming:
    """A recorder that lets formulas look at the example, and keeps what they saw as a condition."""

    def assume(self, mask: Tensor) -> bool:
        """Whether a mask holds everywhere, if the recording may depend on it."""
        raise NotImplementedError

    def assume_at_most(self, values: Tensor, bound: float) -> bool:
        """Whether every number is at most the bound, if the recording may depend on it."""
        raise NotImplementedError


def _assuming() -> Assuming | None:
    recorder = active_recorder() if tracer_active() else None
    return recorder if isinstance(recorder, Assuming) else None


def hidden() -> bool:
    """Whether values cannot be looked at: while compiling or tracing, and inside vmap, grad, jvp."""
    return torch.compiler.is_compiling() or transform_active() or (tracer_active() and _assuming() is None)


def surely(mask: Tensor) -> bool:
    """Whether the mask is known to hold everywhere; False where nobody can know."""
    if hidden():
        return False
    recorder = _assuming()
    return bool(mask.all()) if recorder is None else recorder.assume(mask)


def here(mask: Tensor) -> bool:
    """Whether the mask is known to hold everywhere in these tensors; False in a recording, which is for others, too."""
    return not hidden() and _assuming() is None and bool(mask.all())


def at_most(values: Tensor, bound: float) -> bool:
    """Whether every number is known to be at most the bound; False where nobody can know, or one is NaN."""
    if hidden():
        return False
    recorder = _assuming()
    if recorder is not None:
        return recorder.assume_at_most(values, bound)
    return values.numel() == 0 or float(values.detach().amax()) <= bound
