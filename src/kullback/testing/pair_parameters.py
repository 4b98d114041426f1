"""The parameters that a distribution was made from, and the way back."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import Tensor
from torch.distributions import Distribution

from kullback._core.errors import InputTypeError, explain_problem

_ALTERNATIVES = (("covariance_matrix", "precision_matrix", "scale_tril"), ("probs", "logits"))


def parameters(distribution: Distribution) -> dict[str, Tensor]:
    """The parameters stored on a distribution, in whichever of probs and logits it was given."""
    names = list(distribution.arg_constraints)
    for alternatives in _ALTERNATIVES:
        offered = [name for name in alternatives if name in names]
        if len(offered) > 1:
            kept = next((name for name in offered if _is_stored(distribution, name)), offered[0])
            names = [name for name in names if name not in offered or name == kept]
    values = {name: getattr(distribution, name, None) for name in names}
    if not values or any(not isinstance(value, Tensor) for value in values.values()):
        kind = type(distribution).__name__
        raise InputTypeError(
            explain_problem(
                f"The parameters of this {kind} cannot be read from the object.",
                got=repr(distribution),
                instead="check_pair(make, examples) with make(*parameters) -> (p, q)",
            )
        )
    return values  # type: ignore[return-value]


def _is_stored(distribution: Distribution, name: str) -> bool:
    """Whether a parameter was given; derived ones also enter the object, once they were asked for."""
    stored = distribution.__dict__
    given = stored.get("_param")
    return name in stored and (given is None or stored[name] is given)


def rebuild(p: Distribution, q: Distribution) -> Callable[..., tuple[Distribution, Distribution]]:
    """A function from the parameters of p followed by those of q to a pair of the same families."""
    kinds: tuple[Any, Any] = (type(p), type(q))
    names = (tuple(parameters(p)), tuple(parameters(q)))

    def make(*values: Tensor) -> tuple[Distribution, Distribution]:
        split = len(names[0])
        return (
            kinds[0](**dict(zip(names[0], values[:split], strict=True))),
            kinds[1](**dict(zip(names[1], values[split:], strict=True))),
        )

    return make
