"""The row kernels: KL of float32 and bfloat16 logits, forward and with a fresh gradient, at the sizes that matter."""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F

from benchmarks.registry import case

LARGE = {"256 x 65536": (256, 65_536), "256 x 131072": (256, 131_072), "4096 x 1024": (4096, 1024)}
SMALL = {"65536 x 64": (65_536, 64), "64 x 1000": (64, 1000), "32 x 10": (32, 10), "1 x 10": (1, 10)}
SOME = {"256 x 65536": (256, 65_536), "4096 x 1024": (4096, 1024)}
ALL = {**SOME, "65536 x 64": (65_536, 64)}
SHARE = 0.1  # of p in the mixture of skew_kl


class State(NamedTuple):
    a: torch.Tensor
    b: torch.Tensor  # the gradient, where there is one, is taken with respect to this


def draw(size: tuple[int, int], dtype: torch.dtype = torch.float32) -> State:
    generator = torch.Generator().manual_seed(0)
    a, b = (torch.randn(size, generator=generator).to(dtype) for _ in range(2))
    return State(a, b)


@case("rows-forward", group="rows", sizes=LARGE, rtol=1e-5)
def forward(size: tuple[int, int]) -> State:
    """KL of two float32 tensors of logits, one value per row."""
    return draw(size)


@case("rows-backward", group="rows", sizes=LARGE, rtol=1e-6, by_row=True)
def backward(size: tuple[int, int]) -> State:
    """The same, and the gradient to q in fresh memory."""
    return draw(size)


@case("rows-forward-small", group="rows", sizes=SMALL, rtol=1e-5)
def forward_small(size: tuple[int, int]) -> State:
    """KL of short or few rows, where calling costs as much as computing."""
    return draw(size)


@case("rows-backward-small", group="rows", sizes=SMALL, rtol=1e-6, by_row=True)
def backward_small(size: tuple[int, int]) -> State:
    """The same, and the gradient to q in fresh memory."""
    return draw(size)


@case("rows-forward-bfloat16", group="rows", sizes=SOME, rtol=1e-5)
def forward_bfloat16(size: tuple[int, int]) -> State:
    """KL of two bfloat16 tensors of logits; torch converts to float32 first, or its result would be wrong."""
    return draw(size, torch.bfloat16)


@case("rows-backward-bfloat16", group="rows", sizes=SOME, rtol=8e-3, by_row=True)
def backward_bfloat16(size: tuple[int, int]) -> State:
    """The same, and the gradient to q, in bfloat16 and fresh memory."""
    return draw(size, torch.bfloat16)


def hold(x: torch.Tensor, view: str) -> torch.Tensor:
    """Logits as what a view holds."""
    return {"Logits": lambda: x, "LogProbs": lambda: x.log_softmax(-1), "Probs": lambda: x.softmax(-1)}[view]()


@case("rows-mixed-backward", group="rows", sizes=SOME, rtol=1e-6, by_row=True)
def mixed_backward(size: tuple[int, int]) -> State:
    """KL of float32 probabilities against logits, soft labels, and the gradient to the logits in fresh memory."""
    a, b = draw(size)
    return State(a.softmax(-1), b)


@case("rows-js", group="rows", sizes=ALL, rtol=1e-5)
def jensen_shannon(size: tuple[int, int]) -> State:
    """The Jensen-Shannon divergence of two float32 tensors of logits; in torch with logaddexp for the mixture."""
    return draw(size)


@case("rows-skew-kl", group="rows", sizes=ALL, rtol=1e-5)
def skewed(size: tuple[int, int]) -> State:
    """KL(p || 0.1 p + 0.9 q) of two float32 tensors of logits."""
    return draw(size)


@case("rows-js-backward", group="rows", sizes=SOME, rtol=1e-6, by_row=True)
def jensen_shannon_backward(size: tuple[int, int]) -> State:
    """The Jensen-Shannon divergence and its gradient to q in fresh memory."""
    return draw(size)


@case("rows-entropy", group="rows", sizes=SOME, rtol=1e-6)
def entropy(size: tuple[int, int]) -> State:
    """The entropy of a float32 tensor of logits."""
    return draw(size)


def blocks(state: State) -> Any:
    rows = max(16, 4_194_304 // state.a.shape[-1])  # 32 MB of float64: many short rows at once
    return zip(state.a.split(rows), state.b.split(rows), strict=True)


def truth_of_rows(log_p: torch.Tensor, log_q: torch.Tensor) -> torch.Tensor:
    v = log_q - log_p
    return (log_p.exp() * (torch.expm1(v) - v)).sum(-1)


def value_truth(state: State) -> torch.Tensor:
    return torch.cat([truth_of_rows(a.double().log_softmax(-1), b.double().log_softmax(-1)) for a, b in blocks(state)])


def gradient_truth(state: State) -> tuple[torch.Tensor, torch.Tensor]:
    grad = torch.cat([(b.double().softmax(-1) - a.double().softmax(-1)).float() for a, b in blocks(state)])
    return value_truth(state), grad


def log_probs(x: torch.Tensor, view: str) -> torch.Tensor:
    """Normalised log-probabilities of what a view holds, in float64."""
    x = x.double()
    return (x / x.sum(-1, keepdim=True)).log() if view == "Probs" else x.log_softmax(-1)


def mixed_truth(view_p: str, view_q: str) -> Callable[[State], torch.Tensor]:
    return lambda state: torch.cat([
        truth_of_rows(log_probs(a, view_p), log_probs(b, view_q)) for a, b in blocks(state)
    ])  # fmt: skip


def mixed_gradient_truth(state: State) -> tuple[torch.Tensor, torch.Tensor]:
    grad = [b.double().softmax(-1) - p.double() / p.double().sum(-1, keepdim=True) for p, b in blocks(state)]
    return mixed_truth("Probs", "Logits")(state), torch.cat([g.float() for g in grad])


def mixture_textbook(a: torch.Tensor, b: torch.Tensor, share: float) -> tuple[torch.Tensor, torch.Tensor]:
    """KL(p || m) and KL(q || m), m = share p + (1 - share) q."""
    log_p, log_q = F.log_softmax(a, -1), F.log_softmax(b, -1)
    log_m = torch.logaddexp(log_p + math.log(share), log_q + math.log1p(-share))
    both = (F.kl_div(log_m, x, log_target=True, reduction="none").sum(-1) for x in (log_p, log_q))
    return next(both), next(both)


def js_textbook(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    of_p, of_q = mixture_textbook(a, b, 0.5)
    return (of_p + of_q) / 2


def skew_textbook(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    log_p, log_q = F.log_softmax(a, -1), F.log_softmax(b, -1)
    log_m = torch.logaddexp(log_p + math.log(SHARE), log_q + math.log1p(-SHARE))
    return F.kl_div(log_m, log_p, log_target=True, reduction="none").sum(-1)


def in_double(function: Callable[..., torch.Tensor]) -> Callable[[State], torch.Tensor]:
    return lambda state: torch.cat([function(a.double(), b.double()) for a, b in blocks(state)])


def js_gradient_truth(state: State) -> tuple[torch.Tensor, torch.Tensor]:
    values, gradients = [], []
    for a, b in blocks(state):
        y = b.double().requires_grad_()
        value = js_textbook(a.double(), y)
        values.append(value.detach())
        gradients.append(torch.autograd.grad(value.sum(), y)[0].float())
    return torch.cat(values), torch.cat(gradients)


def textbook(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    log_p, log_q = F.log_softmax(a, -1, dtype=torch.float32), F.log_softmax(b, -1, dtype=torch.float32)
    return F.kl_div(log_q, log_p, log_target=True, reduction="none").sum(-1)


def mixed_textbook(view_p: str, view_q: str) -> Callable[[torch.Tensor, torch.Tensor], torch.Tensor]:
    """What a user writes with F.kl_div, whose second argument is p, or log p with log_target."""

    def run(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        log_q = {"Logits": lambda: F.log_softmax(b, -1), "LogProbs": lambda: b, "Probs": b.log}[view_q]()
        if view_p == "Probs":
            return F.kl_div(log_q, a, reduction="none").sum(-1)
        log_p = F.log_softmax(a, -1) if view_p == "Logits" else a
        return F.kl_div(log_q, log_p, log_target=True, reduction="none").sum(-1)

    return run


@functools.cache
def compiled() -> Callable[..., torch.Tensor]:
    return torch.compile(textbook, dynamic=False)


def ours(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    import kullback

    return kullback.kl(kullback.Logits(a), kullback.Logits(b))


def ours_mixed(view_p: str, view_q: str) -> Callable[[torch.Tensor, torch.Tensor], torch.Tensor]:
    def run(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        import kullback

        return kullback.kl(getattr(kullback, view_p)(a), getattr(kullback, view_q)(b))

    return run


def ours_js(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    import kullback

    return kullback.js(kullback.Logits(a), kullback.Logits(b))


def ours_skewed(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    import kullback

    return kullback.skew_kl(kullback.Logits(a), kullback.Logits(b), alpha=SHARE)


def plainly(function: Callable[..., torch.Tensor]) -> Callable[[State], torch.Tensor]:
    def run(state: State) -> torch.Tensor:
        with torch.no_grad():
            return function(*state)

    return run


def with_gradient(function: Callable[..., torch.Tensor]) -> Callable[[State], tuple[torch.Tensor, torch.Tensor]]:
    def run(state: State) -> tuple[torch.Tensor, torch.Tensor]:
        b = state.b.detach().requires_grad_()
        value = function(state.a, b)
        return value.detach(), torch.autograd.grad(value.sum(), b)[0]

    return run


def jitted(state: State, *, gradient: bool) -> Any:
    run, inputs = _jax(gradient)
    a, b = inputs(state)
    found = run(a, b)
    as_torch = torch.utils.dlpack.from_dlpack
    return tuple(map(as_torch, found)) if gradient else as_torch(found)


@functools.cache
def _jax(gradient: bool) -> tuple[Callable[..., Any], Callable[[State], Any]]:
    import jax

    def rows(a: Any, b: Any) -> Any:
        log_p, log_q = jax.nn.log_softmax(a), jax.nn.log_softmax(b)
        return (jax.numpy.exp(log_p) * (log_p - log_q)).sum(-1)

    def both(a: Any, b: Any) -> Any:
        value, pull = jax.vjp(lambda q: rows(a, q), b)
        return value, pull(jax.numpy.ones_like(value))[0]

    return jax.jit(both if gradient else rows), lambda state: tuple(jax.dlpack.from_dlpack(t) for t in state)


def read_both(state: State) -> torch.Tensor:
    """The time that memory takes: a sum of each tensor."""
    return state.a.sum() + state.b.sum()


for rows_case in (forward, forward_small, forward_bfloat16):
    rows_case.truth(value_truth)
    rows_case.contender("kullback", needs=("kullback:kl", "kullback:Logits"))(plainly(ours))
    rows_case.contender("torch eager")(plainly(textbook))
for rows_case in (backward, backward_small, backward_bfloat16):
    rows_case.truth(gradient_truth)
    rows_case.contender("kullback", needs=("kullback:kl", "kullback:Logits"))(with_gradient(ours))
    rows_case.contender("torch eager")(with_gradient(textbook))
for rows_case in (forward, forward_bfloat16):
    rows_case.contender("torch.compile")(plainly(compiled()))
    rows_case.contender("sum of both (reading only)", yardstick=True)(read_both)
for rows_case in (backward, backward_bfloat16):
    rows_case.contender("torch.compile")(with_gradient(compiled()))
forward.contender("jax.jit", needs=("jax",))(functools.partial(jitted, gradient=False))
backward.contender("jax.jit", needs=("jax",))(functools.partial(jitted, gradient=True))

VIEWS = ("Logits", "LogProbs", "Probs")


def add_mixed_case(view_p: str, view_q: str) -> None:
    @case(f"rows-{view_p}-{view_q}".lower(), group="rows", sizes=ALL, rtol=1e-6)
    def mixed(size: tuple[int, int]) -> State:
        a, b = draw(size)
        return State(hold(a, view_p), hold(b, view_q))

    mixed.summary = f"KL of float32 {view_p} against {view_q}."
    mixed.truth(mixed_truth(view_p, view_q))
    mixed.contender("kullback", needs=("kullback:kl",))(plainly(ours_mixed(view_p, view_q)))
    mixed.contender("torch eager")(plainly(mixed_textbook(view_p, view_q)))


for view_p, view_q in itertools.product(VIEWS, repeat=2):
    if (view_p, view_q) != ("Logits", "Logits"):
        add_mixed_case(view_p, view_q)
mixed_backward.truth(mixed_gradient_truth)
mixed_backward.contender("kullback", needs=("kullback:kl", "kullback:Probs"))(
    with_gradient(ours_mixed("Probs", "Logits"))
)
mixed_backward.contender("torch eager")(with_gradient(mixed_textbook("Probs", "Logits")))


def entropy_textbook(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    del b
    log_p = F.log_softmax(a, -1)
    return -(log_p.exp() * log_p).sum(-1)


def ours_entropy(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    import kullback

    del b
    return kullback.entropy(kullback.Logits(a))


entropy.truth(in_double(entropy_textbook))
entropy.contender("kullback", needs=("kullback:entropy", "kullback:Logits"))(plainly(ours_entropy))
entropy.contender("torch eager")(plainly(entropy_textbook))

jensen_shannon.truth(in_double(js_textbook))
jensen_shannon.contender("kullback", needs=("kullback:js", "kullback:Logits"))(plainly(ours_js))
jensen_shannon.contender("torch eager")(plainly(js_textbook))
skewed.truth(in_double(skew_textbook))
skewed.contender("kullback", needs=("kullback:skew_kl", "kullback:Logits"))(plainly(ours_skewed))
skewed.contender("torch eager")(plainly(skew_textbook))
jensen_shannon_backward.truth(js_gradient_truth)
jensen_shannon_backward.contender("kullback", needs=("kullback:js", "kullback:Logits"))(with_gradient(ours_js))
jensen_shannon_backward.contender("torch eager")(with_gradient(js_textbook))
