"""The special functions that have a native kernel, each with its pure-torch reference and its first derivatives."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from torch import Tensor

from kullback._core import special as reference
from kullback.kernels.elementwise import Elementwise


def _of_one(name: str, function: Callable[..., Tensor] | None = None, public: str = "") -> Elementwise:
    """A function of x; its derivative is the native `name_grad`."""
    return Elementwise(
        name, function or getattr(reference, name), arguments="x", gradients=[f"{name}_grad"], public=public
    )


def _of_two(name: str, arguments: Sequence[str] = "ab") -> Elementwise:
    """A function of two arguments; its derivatives are the native `name_grad_a` and `name_grad_b`."""
    gradients = [f"{name}_grad_{argument}" for argument in arguments]
    return Elementwise(name, getattr(reference, name), arguments=arguments, gradients=gradients)


def _of_order(name: str) -> Elementwise:
    """A Bessel function of an order and x.

    The order has no derivative: the public functions refuse it, and here it is infinite rather than plausible.
    """
    return Elementwise(
        name,
        getattr(reference, name),
        arguments=("nu", "x"),
        gradients=["bessel_order_grad", f"{name}_grad"],
        constants=1,
    )


expm1mx = _of_one("expm1mx")
log1pmx = _of_one("log1pmx")
log1mexp = _of_one("log1mexp")
logdiffexp = _of_two("logdiffexp")
rel_entr = _of_two("rel_entr", "pq")
kl_div = _of_two("kl_div", "pq")
digamma = _of_one("digamma")
trigamma = _of_one("trigamma")
lgamma_bregman = _of_two("lgamma_bregman")
binet = [_of_one(f"binet_{order}", partial(reference.binet, order=order), "binet") for order in range(4)]
binet_bregman = _of_two("binet_bregman")
log_ndtr = _of_one("log_ndtr")
log_ndtr_diff = _of_two("log_ndtr_diff")
log_iv = _of_order("log_iv")
log_ive = _of_order("log_ive")
bessel_ratio = _of_order("bessel_ratio")
