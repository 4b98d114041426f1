"""One way to write a chain of transforms, so that common ones are seen; `transforms` and `pairs` call it.

Far out the logarithms of the slopes of exp and the like are beyond all digits of a divergence; they drop out if both
sides end with the same transform. Affine maps and powers are joined and stand before exponentials, tanh is a sigmoid:

    (e^z)ᵏ = e^(kz),    c·e^z = e^(z + log c),    (cz)ᵏ = cᵏ·zᵏ,    tanh z = 2σ(2z) − 1,    1 − σ(z) = σ(−z).
"""

from __future__ import annotations

import math

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

from kullback.densities.parameters import number, working
from kullback.kernels.levels import is_traced

Number = float | Tensor
_STEEP = (ExpTransform, SigmoidTransform, SoftplusTransform)


def canonical_transforms(maps: list[Transform]) -> list[Transform]:
    """The same map, made of affine maps, powers, exponentials, sigmoids and what is not known here."""
    found: list[Transform] = []
    for transform in maps:
        for part in _parts(transform):
            _append(found, part)
    return found


def flat_transforms(transforms: list[Transform]) -> list[Transform]:
    """The maps in order, one by one: a composition written as one transform or as a list is the same map."""
    parts = [flat_transforms(t.parts) if isinstance(t, ComposeTransform) else [t] for t in transforms]
    return [t for part in parts for t in part]


def nonlinear(maps: list[Transform]) -> int:
    """How many maps are not affine."""
    return sum(not isinstance(transform, AffineTransform) for transform in maps)


def _parts(transform: Transform) -> list[Transform]:
    """A map by those named above."""
    if isinstance(transform, TanhTransform):
        return [AffineTransform(0.0, 2.0), SigmoidTransform(), AffineTransform(-1.0, 2.0)]
    if not isinstance(transform, _InverseTransform):
        return [transform]
    forward = transform.inv
    if isinstance(forward, TanhTransform):
        return [AffineTransform(0.5, 0.5), SigmoidTransform().inv, AffineTransform(0.0, 0.5)]
    if isinstance(forward, AffineTransform) and not forward.event_dim:
        loc, scale = _value(forward.loc), _value(forward.scale)
        return [AffineTransform(-loc / scale, 1 / scale)]
    if isinstance(forward, PowerTransform):
        return [_power(1 / _value(forward.exponent))]
    return [transform]


def _append(chain: list[Transform], last: Transform) -> None:
    """One map more, joined with those before it."""
    before = chain[-1] if chain else None
    if isinstance(last, AffineTransform) and not last.event_dim:
        _append_affine(chain, _value(last.loc), _value(last.scale))
    elif isinstance(last, PowerTransform):
        _append_power(chain, _value(last.exponent))
    elif before is not None and _undoes(before, last):
        chain.pop()
    elif _is_log(last) and isinstance(before, PowerTransform):  # log zᵏ = k·log z
        chain.pop()
        _append(chain, last)
        _append_affine(chain, 0.0, _value(before.exponent))
    else:
        chain.append(last)


def _append_affine(chain: list[Transform], loc: Number, scale: Number) -> None:
    before = chain[-1] if chain else None
    if isinstance(before, AffineTransform) and not before.event_dim:
        chain.pop()
        loc, scale = _sum(loc, scale, _value(before.loc)), scale * _value(before.scale)
        _append_affine(chain, loc, scale)
    elif isinstance(before, ExpTransform) and _all(loc, "zero") and _all(scale, "positive"):
        chain.pop()
        _append_affine(chain, torch.log(scale) if isinstance(scale, Tensor) else math.log(scale), 1.0)
        chain.append(before)
    elif isinstance(before, SigmoidTransform) and _all(-scale, "positive"):
        chain.pop()
        _append_affine(chain, 0.0, -1.0)
        chain.append(before)
        _append_affine(chain, loc + scale, -scale)
    elif not (_all(loc, "zero") and _all(scale - 1, "zero")):
        chain.append(AffineTransform(loc, scale))


def _append_power(chain: list[Transform], exponent: Number) -> None:
    before = chain[-1] if chain else None
    if isinstance(before, PowerTransform):
        chain.pop()
        _append_power(chain, exponent * _value(before.exponent))
    elif isinstance(before, ExpTransform):
        chain.pop()
        _append_affine(chain, 0.0, exponent)
        chain.append(before)
    elif (
        isinstance(before, AffineTransform)
        and not before.event_dim
        and _all(_value(before.loc), "zero")
        and _all(_value(before.scale), "positive")
    ):
        chain.pop()
        _append_power(chain, exponent)
        _append_affine(chain, 0.0, _value(before.scale) ** exponent)
    elif not _all(exponent - 1, "zero"):
        chain.append(_power(exponent))


def _sum(loc: Number, scale: Number, before: Number) -> Number:
    """The sum loc + scale·before; Python's 0 stays one, so that an end at 0 is known to stay there."""
    return loc if isinstance(before, float) and before == 0 else loc + scale * before


def _power(exponent: Number) -> PowerTransform:
    return PowerTransform(number(exponent))


def _value(part: Number) -> Number:
    return working(part) if isinstance(part, Tensor) else part


def _all(value: Number, what: str) -> bool:
    """Whether a number is 0, or positive; one that is moved is not 0 for good."""
    if isinstance(value, Tensor):
        if what == "zero" and torch.is_grad_enabled() and value.requires_grad:
            return False
        return not is_traced() and bool((value == 0 if what == "zero" else value > 0).all())
    return value == 0 if what == "zero" else value > 0


def _is_log(transform: Transform) -> bool:
    return isinstance(transform, _InverseTransform) and isinstance(transform.inv, ExpTransform)


def _undoes(before: Transform, last: Transform) -> bool:
    """Whether a map without parameters is followed by its inverse."""
    inner, outer = (
        (transform.inv, True) if isinstance(transform, _InverseTransform) else (transform, False)
        for transform in (before, last)
    )
    return inner[1] != outer[1] and isinstance(inner[0], _STEEP) and type(inner[0]) is type(outer[0])
