"""One way to write a chain of transforms, so that common ones are seen; `transforms` and `pairs` call it.

Affine maps, exponentials, sigmoids and their inverses make all known ones: a power is exp ∘ affine ∘ log, softplus is
log ∘ (1 + ·) ∘ exp, tanh is affine ∘ sigmoid ∘ affine. Affine maps are joined and stand before an exponential, after a
logarithm:

    c·e^z = e^(z + log c),    log(c·z) = log z + log c,    1 − σ(z) = σ(−z).

Far out the logarithms of the slopes of exp and the like are beyond all digits of a divergence; they drop out if both
sides end with the same transform.
"""

from __future__ import annotations

import math
from typing import TypeGuard

import torch
from torch import Tensor
from torch.distributions.transforms import (
    AffineTransform,
    ComposeTransform,
    ExpTransform,
    PowerTransform,
    SigmoidTransform,
    SoftplusTransform,
    TanhTransform,
    Transform,
    _InverseTransform,
)

from kullback.densities.parameters import working
from kullback.kernels.levels import is_traced

Number = float | Tensor


def flat_transforms(transforms: list[Transform]) -> list[Transform]:
    """The maps in order, one by one: a composition written as one transform or as a list is the same map."""
    parts = [flat_transforms(t.parts) if isinstance(t, ComposeTransform) else [t] for t in transforms]
    return [t for part in parts for t in part]


def canonical_transforms(transforms: list[Transform]) -> list[Transform]:
    """The same map by those named above, and by what is not known here."""
    chain: list[Transform] = []
    for transform in flat_transforms(transforms):
        for part in _parts(transform):
            _append(chain, part)
    return chain


def num_nonlinear(transforms: list[Transform]) -> int:
    """How many of the canonical maps are not affine."""
    return sum(not isinstance(transform, AffineTransform) for transform in canonical_transforms(transforms))


def unwrapped(transform: Transform) -> tuple[Transform, bool]:
    """A map, and whether it is meant backwards."""
    return (transform.inv, True) if isinstance(transform, _InverseTransform) else (transform, False)


def _parts(transform: Transform) -> list[Transform]:
    plain, backwards = unwrapped(transform)
    if isinstance(plain, TanhTransform):
        parts = [AffineTransform(0.0, 2.0), SigmoidTransform(), AffineTransform(-1.0, 2.0)]
    elif isinstance(plain, SoftplusTransform):
        parts = [ExpTransform(), AffineTransform(1.0, 1.0), ExpTransform().inv]
    elif isinstance(plain, PowerTransform):
        parts = [ExpTransform().inv, AffineTransform(0.0, _value(plain.exponent)), ExpTransform()]
    elif isinstance(plain, AffineTransform) and not plain.event_dim:
        parts = [AffineTransform(_value(plain.loc), _value(plain.scale))]
    else:
        return [transform]
    return [_inverse(part) for part in reversed(parts)] if backwards else parts


def _inverse(part: Transform) -> Transform:
    return AffineTransform(-part.loc / part.scale, 1 / part.scale) if isinstance(part, AffineTransform) else part.inv


def _append(chain: list[Transform], last: Transform) -> None:
    """One map more, joined with those before it."""
    if _is_affine(last) and _is_surely(last.loc, 0) and _is_surely(last.scale, 1):
        return
    joined = _joined(chain[-1], last) if chain else None
    if joined is None:
        chain.append(last)
        return
    chain.pop()
    for part in joined:
        _append(chain, part)


def _joined(before: Transform, last: Transform) -> list[Transform] | None:
    """Two maps in the words of others; None where they stay as they are."""
    (inner, undone), (outer, undoing) = unwrapped(before), unwrapped(last)
    if type(inner) is type(outer) and isinstance(inner, ExpTransform | SigmoidTransform) and undone != undoing:
        return []
    if _is_affine(before) and _is_affine(last):
        # Python's 0 stays one, so that an end at 0 is known to stay there.
        still = isinstance(before.loc, float) and before.loc == 0
        return [AffineTransform(last.loc if still else last.loc + last.scale * before.loc, last.scale * before.scale)]
    if isinstance(before, ExpTransform) and _is_factor(last):
        return [AffineTransform(_log(last.scale), 1.0), before]
    if _is_factor(before) and undoing and isinstance(outer, ExpTransform):
        return [last, AffineTransform(_log(before.scale), 1.0)]
    if isinstance(before, SigmoidTransform) and _is_affine(last) and _is_positive(-last.scale):
        return [AffineTransform(0.0, -1.0), before, AffineTransform(last.loc + last.scale, -last.scale)]
    return None


def _is_affine(transform: Transform) -> TypeGuard[AffineTransform]:
    return isinstance(transform, AffineTransform) and not transform.event_dim


def _is_factor(transform: Transform) -> TypeGuard[AffineTransform]:
    """Whether it multiplies by a positive number."""
    return _is_affine(transform) and _is_surely(transform.loc, 0) and _is_positive(transform.scale)


def _is_surely(value: Number, number: int) -> bool:
    """Whether it is this number, and stays it: what is moved does not."""
    if not isinstance(value, Tensor):
        return value == number
    moved = torch.is_grad_enabled() and value.requires_grad
    return not moved and not is_traced() and bool((value == number).all())


def _is_positive(value: Number) -> bool:
    return value > 0 if not isinstance(value, Tensor) else not is_traced() and bool((value > 0).all())


def _log(value: Number) -> Number:
    return torch.log(value) if isinstance(value, Tensor) else math.log(value)


def _value(part: Number) -> Number:
    return working(part) if isinstance(part, Tensor) else float(part)
