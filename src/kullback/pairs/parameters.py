"""Reading a distribution's parameters: the ones its maker gave, in the precision the formulas work in.

Formulas compute in float64 whatever the parameters' dtype, and the result is rounded once at the end: that is how a
float32 answer is the exact one for the stored float32 parameters. (A device without float64 works in float32.)
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.distributions import Distribution, VonMises

from kullback._core.numbers import as_tensor
from kullback.kernels.levels import is_plain


def working(tensor: Tensor) -> Tensor:
    """The tensor in working precision."""
    return tensor.to(torch.float32 if tensor.device.type == "mps" else torch.float64)


def number(value: float | Tensor) -> Tensor:
    """A parameter of a map in working precision; a Python number is a double, whatever torch's default is."""
    return working(value if isinstance(value, Tensor) else as_tensor(value, torch.float64))


def read(distribution: Distribution, *names: str) -> tuple[Tensor, ...]:
    """The named parameters in working precision, as tensors."""
    return tuple(working(as_tensor(getattr(distribution, name))) for name in names)


def gives_logits(distribution: Distribution) -> bool:
    """Whether the maker of a discrete distribution gave logits, not probabilities.

    torch caches the other parametrisation on first use, so both may be present; what is stored before the shape of the
    batch was given. Only `expand` stores both of them there. Probabilities derived from logits are exactly what torch's
    own map gives; probabilities that are not were the ones given, since the way from probabilities to logits clamps
    and rounds.
    """
    inner = getattr(distribution, "_categorical", getattr(distribution, "base_dist", distribution))
    present = inner.__dict__
    if "logits" not in present:
        return False
    if "probs" not in present:
        return True
    first, second = [name for name in present if name in {"probs", "logits", "_batch_shape"}][:2]
    if second == "_batch_shape":
        return first == "logits"
    given = present.get("_param")
    if given is not None:
        # `expand` makes views of both; they share their base with the given one.
        logits = present["logits"]
        return given is logits or (given._base is not None and given._base is logits._base)
    return bool(torch.equal(torch.sigmoid(present["logits"]), present["probs"]))


def made(kind: type[Distribution], state: dict[str, object], batch_shape: torch.Size) -> Distribution:
    """An object without going through its constructor, which would validate and derive anew."""
    law = object.__new__(kind)
    vars(law).update(state, _batch_shape=batch_shape)
    return law


def kept_by(distribution: Distribution) -> list[object]:
    """What a distribution stores, without copies that would change an answer.

    A sampled VonMises keeps its parameters in float64, too, and a number derived from them that overflows.
    """
    stored = vars(distribution)
    if not isinstance(distribution, VonMises):
        return list(stored.values())
    return [value for name, value in stored.items() if name in distribution.arg_constraints]


def tensors_of(distribution: Distribution) -> list[Tensor]:
    """Every floating tensor a distribution holds, wrapped distributions included."""
    found: list[Tensor] = []
    for value in kept_by(distribution):
        if isinstance(value, Tensor) and value.is_floating_point():
            found.append(value)
        elif isinstance(value, Distribution):
            found.extend(tensors_of(value))
        elif isinstance(value, list | tuple):
            parts = [getattr(part, "__dict__", {}).values() for part in value]
            found.extend(t for part in parts for t in part if isinstance(t, Tensor) and t.is_floating_point())
            inner = [law for part in parts for law in part if isinstance(law, Distribution)]
            found.extend(t for law in inner for t in tensors_of(law))
    return found


def recordable(p: Distribution, q: Distribution) -> bool:
    """Whether two objects can be the example of a recording: some numbers, in ordinary memory of this machine."""
    if 0 in p.batch_shape or 0 in q.batch_shape:
        return False
    return all(is_plain(tensor) for law in (p, q) for tensor in tensors_of(law))


def result_dtype(p: Distribution, q: Distribution) -> torch.dtype:
    """The dtype of an answer: float64 if any parameter is, else float32."""
    dtypes = {t.dtype for d in (p, q) for t in tensors_of(d)}
    return torch.float64 if torch.float64 in dtypes else torch.float32
