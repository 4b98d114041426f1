"""What the divergences beside KL share: two views in, a number as parameter, no distributions."""

from __future__ import annotations

import math
from typing import Any

from torch import Tensor
from torch.distributions import Distribution

from kullback._core.errors import InputTypeError, InputValueError, explain_problem
from kullback.kernels.row_op import RowOp
from kullback.tensors.frame import Options, divergence, shortcut


def sister_of_views(name: str, op: RowOp, p: Any, q: Any, options: Options, *parameters: float) -> Tensor:
    """Rows of `op` on two views, reduced; distributions are refused with the line that makes views of them."""
    rows = shortcut(op, p, q, options.validate, *parameters) if options.plain else None
    if rows is not None:
        return rows
    for argument, value in (("p", p), ("q", q)):
        if isinstance(value, Distribution):
            raise InputTypeError(
                explain_problem(
                    f"{name}() takes views of tensors, not distributions.",
                    got=f"{argument} is a {type(value).__name__}",
                    expected="Logits(x), LogProbs(x), Probs(x) or Counts(x)",
                    instead=f"{name}(Logits(p.logits), Logits(q.logits)) for two Categoricals",
                )
            )
    return divergence(name, op, {"p": p, "q": q}, options, *parameters)


def check_parameter(name: str, value: object, largest: float, meaning: str) -> float:
    """A number between 0 and `largest`, as a float.

    Args:
        name: The argument, for the message.
        value: What was handed over.
        largest: The largest number allowed; infinity where there is none.
        meaning: What the ends of the range are.
    """
    expected = f"a number {name} with 0 <= {name} <= {'math.inf' if largest == math.inf else f'{largest:g}'}"
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise InputTypeError(
            explain_problem(
                f"{name} is a Python number, the same for all rows.",
                got=f"a {type(value).__name__}",
                expected=expected,
                instead=f"{name}=float({name}), or one call per value",
            )
        )
    if not 0 <= value <= largest:
        raise InputValueError(
            explain_problem(f"{name} is out of range: {meaning}.", got=f"{name}={value!r}", expected=expected)
        )
    return float(value)
