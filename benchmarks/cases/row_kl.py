"""KL(softmax(a) || softmax(b)) of each row of two tensors of logits: the inner loop of distillation and evaluation."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import torch
import torch.nn.functional as F

from benchmarks.registry import case


class State(NamedTuple):
    a: torch.Tensor
    b: torch.Tensor


SIZES = {
    "4 x 16": (4, 16),
    "256 x 1000": (256, 1000),
    "64 x 32000": (64, 32_000),
    "32 x 128256": (32, 128_256),
}


@case("row-kl-logits", group="tensors", sizes=SIZES, rtol=1e-5)
def row_kl(size: tuple[int, int]) -> State:
    """KL of float32 logits, one value per row; teacher and student a few tenths of a nat apart."""
    generator = torch.Generator().manual_seed(0)
    a = torch.randn(size, generator=generator) * 2
    return State(a, a + torch.randn(size, generator=generator) * 0.5)


@case("row-kl-logits-near", group="tensors", sizes={"64 x 32000": (64, 32_000)}, rtol=1e-5)
def row_kl_near(size: tuple[int, int]) -> State:
    """The same with nearly equal rows, where the textbook formula in float32 loses every digit."""
    generator = torch.Generator().manual_seed(0)
    a = torch.randn(size, generator=generator) * 2
    return State(a, a + torch.randn(size, generator=generator) * 1e-3)


def extended_precision(state: State) -> torch.Tensor:
    """sum_i p_i (expm1(-d_i) + d_i) with d = log p - log q, in numpy's longdouble.

    Since sum_i p_i expm1(-d_i) = sum_i (q_i - p_i) = 0 the added term changes nothing, but every summand is now
    non-negative and of second order in d, so that nothing cancels between entries.
    """
    log_p, log_q = (_log_softmax(logits.numpy().astype(np.longdouble)) for logits in state)
    d = log_p - log_q
    return torch.from_numpy((np.exp(log_p) * (np.expm1(-d) + d)).sum(-1).astype(np.float64))


def _log_softmax(logits: np.ndarray) -> np.ndarray:
    shifted = logits - logits.max(-1, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(-1, keepdims=True))


def centred_float64(state: State) -> torch.Tensor:
    log_p = torch.log_softmax(state.a.double(), dim=-1)
    d = log_p - torch.log_softmax(state.b.double(), dim=-1)
    return (log_p.exp() * (torch.expm1(-d) + d)).sum(-1)


def textbook(state: State) -> torch.Tensor:
    log_p, log_q = F.log_softmax(state.a, dim=-1), F.log_softmax(state.b, dim=-1)
    return F.kl_div(log_q, log_p, log_target=True, reduction="none").sum(-1)


@functools.cache
def _compiler() -> Callable[[State], torch.Tensor]:
    return torch.compile(textbook, dynamic=False)


def compiled_textbook(state: State) -> torch.Tensor:
    return _compiler()(state)


def kullback_kl(state: State) -> torch.Tensor:
    import kullback

    return kullback.kl(kullback.Logits(state.a), kullback.Logits(state.b))


for row_case in (row_kl, row_kl_near):
    row_case.truth(extended_precision)
    row_case.contender("kullback", needs=("kullback:kl", "kullback:Logits"))(kullback_kl)
    row_case.contender("torch eager")(textbook)
    row_case.contender("torch.compile")(compiled_textbook)
    row_case.contender("float64 centred form")(centred_float64)
