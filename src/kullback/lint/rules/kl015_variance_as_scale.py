"""KL015: a variance is passed to `Normal`, whose second argument is a standard deviation.

Wrong:

>>> import torch
>>> from torch.distributions import Normal, kl_divergence
>>> mu, std = torch.tensor(0.5), torch.tensor(0.1)
>>> kl_divergence(Normal(mu, std**2), Normal(0.0, 1.0))
tensor(4.2302)

Right, in torch:

>>> kl_divergence(Normal(mu, std), Normal(0.0, 1.0))
tensor(1.9326)

Right, in kullback:

>>> from kullback import kl
>>> kl(Normal(mu, std), Normal(0.0, 1.0))
tensor(1.9326)
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from kullback.lint.finding import WARNING, Problem, Rule
from kullback.lint.patterns import exponent, squared
from kullback.lint.resolver import Module, half_of


def check(module: Module) -> Iterator[Problem]:
    """Find squares, `.var()` and exponentials of a log-variance as the scale of a Normal."""
    for call in module.calls:
        if module.function(call) != "torch.distributions.normal.Normal":
            continue
        scales = [*call.args[1:2], *(k.value for k in call.keywords if k.arg == "scale")]
        value = module.value(scales[0]) if scales else None
        if value is not None and (_is_variance(module, value) or _is_exp_of_log_variance(module, value)):
            yield scales[0], "Normal takes a standard deviation and this is a variance; write its square root"


def _is_variance(module: Module, node: ast.expr) -> bool:
    if squared(module, node) is not None:
        return True
    if not isinstance(node, ast.Call):
        return False
    is_method = isinstance(node.func, ast.Attribute) and node.func.attr == "var" and module.function(node) is None
    return module.function(node) == "torch.var" or is_method


def _is_exp_of_log_variance(module: Module, node: ast.expr) -> bool:
    """exp(x) where the same function also has exp(x / 2): x is a log-variance there."""
    log_variance = exponent(module, node)
    if log_variance is None:
        return False
    function = module.enclosing_function(node)
    others = (exponent(module, n) for n in module.calls if module.enclosing_function(n) is function)
    halves = (half_of(other) for other in others if other is not None)
    return any(half is not None and module.same(half, log_variance) for half in halves)


RULE = Rule("KL015", "variance as the scale of a Normal", WARNING, check, __doc__, r"\bNormal\(")
