"""KL022: `log(softmax(x))` underflows where `log_softmax(x)` does not.

A class whose probability underflows to 0 gets the logarithm −inf, and a NaN gradient. `kullback lint --fix` writes
`log_softmax`, which is the same function with more digits.

Wrong:

>>> import torch
>>> x = torch.tensor([0.0, 200.0])
>>> torch.log(torch.softmax(x, dim=-1))
tensor([-inf, 0.])

Right, in torch:

>>> torch.log_softmax(x, dim=-1)
tensor([-200.,    0.])

Right, in kullback (which takes the logits themselves):

>>> from kullback import Logits, kl
>>> kl(Logits(torch.zeros(2)), Logits(x))
tensor(99.3069)
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from kullback.lint.finding import INFO, Edit, Problem, Rule, replace
from kullback.lint.patterns import log_argument
from kullback.lint.resolver import Module

_TWINS = {
    "torch.softmax": "log_softmax",
    "torch.nn.functional.softmax": "log_softmax",
    "torch.nn.functional.sigmoid": "logsigmoid",
}

_WRITTEN = r"\.log\(\)|log\(\s*[\w.]*(?:softmax|sigmoid)\("


def check(module: Module) -> Iterator[Problem]:
    """Find the logarithm directly around a softmax."""
    for call in module.calls:
        inside = log_argument(module, call)
        if not isinstance(inside, ast.Call):
            continue
        name = module.function(inside)
        is_method = name is None and isinstance(inside.func, ast.Attribute) and inside.func.attr == "softmax"
        if (name in _TWINS or (is_method and module.kind(inside) is not None)) and isinstance(
            inside.func, ast.Attribute
        ):
            twin = _TWINS.get(name or "", "log_softmax")
            yield call, f"log of a softmax underflows to -inf; write {twin}", _rewrite(module, call, inside, twin)


def _rewrite(module: Module, call: ast.Call, inside: ast.Call, twin: str) -> tuple[Edit, ...]:
    """The softmax call with the twin's name; none for comments or lines that the rewrite would lose."""
    function = inside.func
    text, owner = module.text(inside), module.text(function.value) if isinstance(function, ast.Attribute) else ""
    prefix = f"{owner}.{function.attr}" if isinstance(function, ast.Attribute) else ""
    if not text.startswith(prefix + "(") or "#" in module.text(call):
        return ()
    return (replace(call, f"{owner}.{twin}{text[len(prefix) :]}"),)


RULE = Rule(
    "KL022",
    "log of a softmax",
    INFO,
    check,
    __doc__,
    _WRITTEN,
)
