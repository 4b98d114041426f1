"""Read a distribution written as text: `Normal(0, 1)`, `Dirichlet([1, 2])`, `Independent(Normal([0, 0], [1, 2]), 1)`.

The grammar is a call with numbers, lists, keywords and further calls, and nothing else. It is parsed, never evaluated:

    expression := Name "(" [argument ("," argument)*] ")"
    argument   := [name "="] (number | list | expression)
    list       := "[" [item ("," item)*] "]"        item := number | list
    number     := ["-" | "+"] (digits | inf | nan)

Names are the classes of torch.distributions. Numbers become float64 tensors, except where torch wants an int.
"""

from __future__ import annotations

import ast
import difflib
import inspect
import math
import re
from typing import Any

import torch
from torch import distributions
from torch.distributions import Distribution

from kullback._core.errors import InputValueError, explain_problem

_LONGEST = 100_000
# Parameters that torch takes as Python integers only.
_INTEGERS = {("Independent", "reinterpreted_batch_ndims"), ("LKJCholesky", "dim"), ("Multinomial", "total_count")}
_NOT_WRITABLE = {"validate_args"}
_ABSTRACT = {Distribution, distributions.ExponentialFamily}


def names() -> dict[str, type[Distribution]]:
    """The classes that can be written down."""
    found = {name: getattr(distributions, name) for name in distributions.__all__}
    laws = {n: c for n, c in found.items() if isinstance(c, type) and issubclass(c, Distribution)}
    return {n: c for n, c in laws.items() if c not in _ABSTRACT}


def parse_distribution(text: str) -> Distribution:
    """The distribution that `text` describes.

    Example:
        >>> parse_distribution("Normal(0, scale=2)").scale
        tensor(2., dtype=torch.float64)

    Raises:
        InputValueError: If the text is not in the grammar, names no distribution, or has impossible parameters.
    """
    if len(text) > _LONGEST:
        raise InputValueError(f"A distribution of {len(text)} characters is too long to read (at most {_LONGEST}).")
    try:
        tree = ast.parse(text.strip(), mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise _not_understood(text, "it is not a call such as Normal(0, 1)") from error
    if not isinstance(tree, ast.Call):
        raise _not_understood(text, "it is not a call such as Normal(0, 1)")
    return _distribution(tree, text)


def _distribution(call: ast.Call, text: str) -> Distribution:
    known = names()
    name = call.func.id if isinstance(call.func, ast.Name) else ast.unparse(call.func)
    if name not in known:
        close = difflib.get_close_matches(name, known, n=3)
        raise InputValueError(
            explain_problem(
                f"There is no distribution {name!r}.",
                got=text,
                expected=f"a class of torch.distributions{', perhaps ' + ' or '.join(close) if close else ''}",
            )
        )
    kind = known[name]
    bound = _bind(kind, call, text)
    given = {k: _argument(node, text, integer=(name, k) in _INTEGERS) for k, node in bound.items()}
    try:
        return kind(**given, validate_args=True)
    except (ValueError, TypeError, RuntimeError, NotImplementedError) as error:
        raise InputValueError(
            explain_problem(f"{name} does not take these parameters.", got=text, expected=_expectation(error))
        ) from error


def _bind(kind: type[Distribution], call: ast.Call, text: str) -> dict[str, ast.expr]:
    """Positional arguments under their names, as the class would bind them."""
    parameters = [p for p in list(inspect.signature(kind).parameters) if p not in _NOT_WRITABLE]
    usage = f"{kind.__name__}({', '.join(parameters)})"
    if len(call.args) > len(parameters) or any(isinstance(a, ast.Starred) for a in call.args):
        raise InputValueError(explain_problem("Too many parameters.", got=text, expected=usage))
    bound = dict(zip(parameters, call.args, strict=False))
    for keyword in call.keywords:
        if keyword.arg not in parameters or keyword.arg in bound:
            raise InputValueError(explain_problem(f"Parameter {keyword.arg!r} does not fit.", got=text, expected=usage))
        bound[keyword.arg] = keyword.value
    return bound


def _argument(node: ast.expr, text: str, *, integer: bool) -> Any:
    if isinstance(node, ast.Call):
        return _distribution(node, text)
    value = _numbers(node, text)
    if integer:
        if not isinstance(value, float) or not value.is_integer():
            raise InputValueError(explain_problem("This parameter is a whole number.", got=ast.unparse(node)))
        return int(value)
    try:
        return torch.tensor(value, dtype=torch.float64)
    except (ValueError, TypeError) as error:
        raise InputValueError(explain_problem("A list is ragged.", got=ast.unparse(node))) from error


def _numbers(node: ast.expr, text: str) -> Any:
    if isinstance(node, ast.List):
        return [_numbers(item, text) for item in node.elts]
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub | ast.UAdd):
        value = _numbers(node.operand, text)
        if isinstance(value, float):
            return -value if isinstance(node.op, ast.USub) else value
    if isinstance(node, ast.Constant) and isinstance(node.value, int | float) and not isinstance(node.value, bool):
        return float(node.value)
    if isinstance(node, ast.Name) and node.id in ("inf", "nan"):
        return math.inf if node.id == "inf" else math.nan
    raise _not_understood(text, f"{ast.unparse(node)!r} is no number, list of numbers or distribution")


def _not_understood(text: str, why: str) -> InputValueError:
    return InputValueError(
        explain_problem(
            f"This does not describe a distribution: {why}.",
            got=text if len(text) <= 200 else text[:200] + "…",
            expected="a name and its parameters, numbers or lists",
            instead='"Normal(0, 1)", "Dirichlet([1, 2, 3])", "Bernoulli(logits=2)"',
        )
    )


def _expectation(error: Exception) -> str:
    """What a class of torch asked for: the parameter and its constraint, or the first line of the complaint."""
    first = str(error).strip().partition("\n")[0]
    asked = re.match(r"Expected parameter (\w+) .* to satisfy the constraint (.+), but found", first)
    return f"{asked[1]} that satisfies {asked[2]}" if asked else first or type(error).__name__
