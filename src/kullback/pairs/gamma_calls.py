"""Log-gamma functions in code of others, with derivatives to full precision.

torch's trigamma, the second derivative of its `lgamma`, is right to 5e-10 only; ζ(2, x) is the same number to rounding.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

from kullback.special import digamma

# Derivatives up to this order: a log-normaliser is differentiated twice for the divergence, then by its caller.
_ORDERS = 5


def _polygamma(order: int, x: Tensor) -> Tensor:
    """The derivative of log Γ of order n + 1: ψ, then (−1)^(n+1)·n!·ζ(n+1, x)."""
    if order == 0:
        return digamma(x)
    sign = 1.0 if order % 2 else -1.0
    zeta: Tensor = torch.special.zeta(torch.full_like(x, order + 1.0), x)
    return sign * math.factorial(order) * zeta


def _with_derivatives(value: Callable[[Tensor], Tensor], first: int) -> Callable[[Tensor], Tensor]:
    """A function by its value and Taylor's polynomial in a displacement that is 0; ψ of this order is its slope."""

    def taylor(x: Tensor) -> Tensor:
        at = x.detach()
        step = x - at
        total = torch.zeros_like(at)
        for n in reversed(range(1, _ORDERS)):
            total = step * (_polygamma(first + n - 1, at) + total) / n
        return value(at) + total

    return taylor


_LGAMMA, _DIGAMMA = _with_derivatives(torch.lgamma, 0), _with_derivatives(digamma, 1)
_INSTEAD = {
    **dict.fromkeys((torch.lgamma, torch.special.gammaln, Tensor.lgamma), _LGAMMA),
    **dict.fromkeys((torch.digamma, torch.special.digamma, torch.special.psi, Tensor.digamma), _DIGAMMA),
}


def _multivariate(x: Tensor, p: int) -> Tensor:
    """The logarithm of the multivariate gamma function."""
    terms = [_LGAMMA(x - j / 2) for j in range(p)]
    return sum(terms[1:], terms[0]) + p * (p - 1) / 4 * math.log(math.pi)


class GammaCalls(TorchFunctionMode):
    """Within it torch's `lgamma`, `digamma` and `mvlgamma` of real numbers have accurate derivatives."""

    def __torch_function__(
        self, func: Any, types: Sequence[type], args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        if not kwargs and args and isinstance(args[0], Tensor) and args[0].is_floating_point():
            if func in _INSTEAD and len(args) == 1:
                return _INSTEAD[func](args[0])
            if func in {torch.mvlgamma, torch.special.multigammaln, Tensor.mvlgamma} and len(args) == 2:
                return _multivariate(*args)
        return func(*args, **(kwargs or {}))
