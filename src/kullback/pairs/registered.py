"""The value of a formula from outside the library, checked before it is given back; `dispatch` calls it."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.distributions import Distribution

from kullback._core.errors import InputTypeError, InputValueError, NoRouteError, ShapeError, explain_problem
from kullback._core.shapes import joint_shape
from kullback.pairs.registry import Rule, where_defined
from kullback.pairs.visible import hidden


def registered_value(rule: Rule, p: Distribution, q: Distribution) -> Tensor:
    """The formula's tensor of the broadcast batch shape.

    A formula registered with torch may broadcast, may be a number (Pyro's 0.0 under `mask(False)`) and may be
    negative: Pyro's KL(Delta ‖ q) is −log q at the atom.

    Raises:
        InputTypeError: If the formula does not return a tensor.
        ShapeError: If the tensor does not have the broadcast batch shape.
        InputValueError: If a formula of `register_kl` is negative by more than rounding.
        NoRouteError: If the formula says that it does not answer these two objects.
    """
    shape = joint_shape(p.batch_shape, q.batch_shape)
    try:
        value: object = rule.formula(p, q)
    except NotImplementedError as error:
        raise NoRouteError(
            explain_problem(
                f"{_described(rule)} does not answer these two distributions.",
                got=f"p = {type(p).__name__}, q = {type(q).__name__}; it says: {error or 'NotImplementedError'}",
                expected="a formula for this pair",
                instead=f"@kullback.register_kl({type(p).__name__}, {type(q).__name__}) above your own formula",
            )
        ) from error
    if rule.method == "torch" and isinstance(value, int | float):
        value = torch.tensor(float(value))
    if not isinstance(value, Tensor):
        raise InputTypeError(
            explain_problem(
                f"{_described(rule)} does not return a tensor.",
                got=f"a {type(value).__name__}" + (f", {value!r}" if isinstance(value, int | float) else ""),
                expected=f"a tensor of the broadcast batch shape {tuple(shape)}",
                instead="return torch expressions of the parameters, not float(...) or .item()",
            )
        )
    if rule.method == "torch" and _broadcasts(value.shape, shape):
        return value.expand(shape)
    if value.shape != shape:
        raise ShapeError(
            explain_problem(
                f"{_described(rule)} returns a tensor of the wrong shape.",
                got=f"shape {tuple(value.shape)} for batch shapes {tuple(p.batch_shape)} and {tuple(q.batch_shape)}",
                expected=f"the broadcast batch shape {tuple(shape)}, summed over the event",
                instead=".sum(-1) over an event dimension, .expand(shape) for a value that all elements share",
            )
        )
    if rule.method == "user" and value.is_floating_point() and not hidden():
        _refuse_negative(rule, value.detach())
    return value


def _refuse_negative(rule: Rule, value: Tensor) -> None:
    # A formula that subtracts large terms rounds to slightly below 0; that is its accuracy, not a mistake.
    wrong = value < -(torch.finfo(value.dtype).eps ** 0.5)
    if not bool(wrong.any()):
        return
    index = tuple(wrong.nonzero()[0].tolist())
    raise InputValueError(
        explain_problem(
            f"{_described(rule)} returns a negative divergence.",
            got=f"{float(value[index]):.6g}" + (f" at batch index {index}" if index else ""),
            expected="KL >= 0 for every pair of normalised densities",
            instead="check the sign, the order of p and q, and that both log-densities are normalised",
        )
    )


def _broadcasts(own: torch.Size, shape: torch.Size) -> bool:
    try:
        return joint_shape(own, shape) == shape
    except RuntimeError:
        return False


def _described(rule: Rule) -> str:
    return f"The formula registered for {rule} ({where_defined(rule.formula)})"
