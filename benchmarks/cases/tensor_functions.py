"""Every public divergence of two tensors beside what a user would write with torch, forward and with both gradients.

`tests/benchmarks/test_tensor_functions.py` fails for a public function that has no case here.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from benchmarks.cases.rows import State, draw
from benchmarks.registry import case

SIZES = {"256 x 4000": (256, 4000)}
BETA, ALPHA, ORDER = 0.3, 0.1, 2.0
Expression = Callable[[Tensor, Tensor], Tensor]


def _logs(a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
    return a.log_softmax(-1), b.log_softmax(-1)


def _probs(a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
    return a.softmax(-1), b.softmax(-1)


def _relative(log_p: Tensor, log_q: Tensor) -> Tensor:
    return (log_p.exp() * (log_p - log_q)).sum(-1)


def _kl(a: Tensor, b: Tensor) -> Tensor:
    return _relative(*_logs(a, b))


def _mixed(a: Tensor, b: Tensor, share: float, of_p: float, of_q: float) -> Tensor:
    log_p, log_q = _logs(a, b)
    log_m = torch.logaddexp(log_p + math.log(share), log_q + math.log1p(-share))
    value = of_p * _relative(log_p, log_m)
    return value + of_q * _relative(log_q, log_m) if of_q else value


def _js(a: Tensor, b: Tensor) -> Tensor:
    return _mixed(a, b, 0.5, 0.5, 0.5)


def _jeffreys(a: Tensor, b: Tensor) -> Tensor:
    log_p, log_q = _logs(a, b)
    return ((log_p.exp() - log_q.exp()) * (log_p - log_q)).sum(-1)


def _renyi(a: Tensor, b: Tensor) -> Tensor:
    log_p, log_q = _logs(a, b)
    return torch.logsumexp(ORDER * log_p + (1 - ORDER) * log_q, -1) / (ORDER - 1)


def _variation(a: Tensor, b: Tensor) -> Tensor:
    p, q = _probs(a, b)
    return (p - q).abs().sum(-1) / 2


def _hellinger(a: Tensor, b: Tensor) -> Tensor:
    p, q = _probs(a, b)
    return ((p.sqrt() - q.sqrt()).square().sum(-1) / 2).sqrt()


def _chi2(a: Tensor, b: Tensor) -> Tensor:
    p, q = _probs(a, b)
    return ((p - q).square() / q).sum(-1)


def _entropy(a: Tensor, b: Tensor) -> Tensor:
    log_p = a.log_softmax(-1)
    return -(log_p.exp() * log_p).sum(-1) + 0 * b[..., 0]


def _cross_entropy(a: Tensor, b: Tensor) -> Tensor:
    return -(a.softmax(-1) * b.log_softmax(-1)).sum(-1)


def _generalized(a: Tensor, b: Tensor) -> Tensor:
    p, q = a.exp(), b.exp()
    return (p * (a - b) - p + q).sum(-1)


def _pairwise(a: Tensor, b: Tensor) -> Tensor:
    log_p, log_q = _logs(a[:16], b[:16])
    return _relative(log_p.unsqueeze(1), log_q.unsqueeze(0))


# What a user writes, and the parameters of kullback's function.
FUNCTIONS: dict[str, tuple[Expression, tuple[float, ...]]] = {
    "kl": (_kl, ()),
    "js": (_js, ()),
    "js_distance": (lambda a, b: _js(a, b).sqrt(), ()),
    "jeffreys": (_jeffreys, ()),
    "skew_kl": (lambda a, b: _mixed(a, b, ALPHA, 1.0, 0.0), (ALPHA,)),
    "scaled_js": (lambda a, b: _mixed(a, b, BETA, 1 / (1 - BETA), 1 / BETA), (BETA,)),
    "renyi": (_renyi, (ORDER,)),
    "total_variation": (_variation, ()),
    "hellinger": (_hellinger, ()),
    "chi2": (_chi2, ()),
    "entropy": (_entropy, ()),
    "cross_entropy": (_cross_entropy, ()),
    "generalized_kl": (_generalized, ()),
    "pairwise_kl": (_pairwise, ()),
}


def of_kullback(name: str, parameters: tuple[float, ...]) -> Expression:
    """Kullback's function of two tensors of logits."""
    import kullback

    function = getattr(kullback, name)

    def run(a: Tensor, b: Tensor) -> Tensor:
        if name == "entropy":
            found: Tensor = function(kullback.Logits(a)) + 0 * b[..., 0]
        elif name == "pairwise_kl":
            found = function(kullback.Logits(a[:16]), kullback.Logits(b[:16]))
        else:
            found = function(kullback.Logits(a), kullback.Logits(b), *parameters)
        return found

    return run


def with_gradients(function: Expression, state: State) -> tuple[Tensor, Tensor]:
    """Both gradients of the sum, fresh."""
    a, b = (x.detach().requires_grad_() for x in state)
    to_a, to_b = torch.autograd.grad(function(a, b).sum(), (a, b))
    return to_a, to_b


def define(name: str, textbook: Expression, parameters: tuple[float, ...]) -> None:
    """Two cases: the values, and the gradients."""

    def setup(size: tuple[int, int]) -> State:
        return draw(size)

    def in_double(state: State) -> State:
        return State(state.a.double(), state.b.double())

    setup.__doc__ = f"{name} of two float32 tensors of logits."
    forward = case(f"tensors-{name}", group="tensor-functions", sizes=SIZES, rtol=1e-5)(setup)
    forward.truth(lambda state: textbook(*in_double(state)))
    forward.contender("torch eager")(lambda state: textbook(*state))
    setup.__doc__ = f"The gradients of {name} to both sides."
    backward = case(f"tensors-{name}-backward", group="tensor-functions", sizes=SIZES, rtol=1e-5, by_row=True)(setup)
    backward.truth(lambda state: with_gradients(textbook, in_double(state)))
    backward.contender("torch eager")(lambda state: with_gradients(textbook, state))

    @forward.contender("kullback", needs=(f"kullback:{name}",))
    def _(state: Any) -> Tensor:
        return of_kullback(name, parameters)(*state)

    @backward.contender("kullback", needs=(f"kullback:{name}",))
    def _(state: Any) -> tuple[Tensor, Tensor]:
        return with_gradients(of_kullback(name, parameters), state)


for _name, (_textbook, _parameters) in FUNCTIONS.items():
    define(_name, _textbook, _parameters)
