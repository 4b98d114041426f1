"""A distribution's parameters: those its maker gave, in the precision of formulas; `pairs` and `families` read them.

Formulas compute in float64 whatever the parameters' dtype, and the result is rounded once at the end: that is how a
float32 answer is the exact one for the stored float32 parameters. (A device without float64 works in float32.)
`densities` and `pairs` call it.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.distributions import Distribution

from kullback._core.numbers import as_tensor
from kullback.densities.point import softplus
from kullback.kernels.levels import is_traced


def working(tensor: Tensor) -> Tensor:
    """The tensor in working precision."""
    if tensor.dtype is torch.float64:
        return tensor
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
    own map gives; probabilities that are not were the ones given, since the map from probabilities to logits clamps
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
        by_logits = given is logits or (given._base is not None and given._base is logits._base)
        return by_logits and (is_traced() or not _has_clamped_zeros(present["probs"], logits))
    return bool(torch.equal(torch.sigmoid(present["logits"]), present["probs"]))


def _has_clamped_zeros(probs: Tensor, logits: Tensor) -> bool:
    """Whether a probability is 0 whose logit is the log(eps) that torch makes of it: `expand` may go on with that."""
    return bool(((probs == 0) & (logits > math.log(torch.finfo(logits.dtype).eps) - 1)).any())


def log_outcomes(distribution: Distribution) -> tuple[Tensor, Tensor]:
    """Log p and log(1 − p), each with all its digits, from whichever of `probs` and `logits` was given."""
    if gives_logits(distribution):
        (logits,) = read(distribution, "logits")
        return -softplus(-logits), -softplus(logits)
    (probs,) = read(distribution, "probs")
    # The logarithm of 0 has no derivative: −inf is a constant.
    never, always = probs == 0, probs == 1
    log_p = torch.where(never, -math.inf, torch.log(torch.where(never, 1.0, probs)))
    return log_p, torch.where(always, -math.inf, torch.log1p(-torch.where(always, 0.0, probs)))


def log_classes(distribution: Distribution) -> Tensor:
    """The logarithms of the probabilities of a Categorical's classes, along the last dimension."""
    if gives_logits(distribution):
        return read(distribution, "logits")[0].log_softmax(-1)
    (probs,) = read(distribution, "probs")
    return torch.log(probs / probs.sum(-1, keepdim=True))


def log_odds(distribution: Distribution) -> Tensor:
    """The log-odds of success, infinite where a probability is 0 or 1."""
    if gives_logits(distribution):
        return read(distribution, "logits")[0]
    log_p, log_failure = log_outcomes(distribution)
    return log_p - log_failure


def bounded_log(log_p: Tensor) -> Tensor:
    """A logarithm that is a number; an impossible outcome is told apart by the support."""
    return log_p.clamp_min(-1e6)
