"""Distillation from hidden states against eager formulas: time and peak memory, forward + backward.

`python -m benchmarks.distillation --tokens 2048 --features 1024 --vocabulary 32768 --threads 1` prints one table.
Times are of one process in which the contenders take turns; memory is the growth of the resident set of a process of
its own, beyond the gradients that every contender returns.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from benchmarks.memory import RETURN_FREED_MEMORY, peak_growth
from kullback.losses import linear_distillation
from kullback.losses.hidden_distillation import CHUNK_TOKENS


class State(NamedTuple):
    student_hidden: Tensor
    student_weight: Tensor
    teacher_hidden: Tensor
    teacher_weight: Tensor
    chunk: int


Gradients = tuple[Tensor, ...]


def inputs(tokens: int, features: int, vocabulary: int, chunk: int) -> State:
    """Float32 hidden states and weights of two models that are near each other, as in training."""
    generator = torch.Generator().manual_seed(0)
    hidden = torch.randn(tokens, features, generator=generator)
    weight = torch.randn(vocabulary, features, generator=generator) / features**0.5
    near = hidden + 0.1 * torch.randn(tokens, features, generator=generator)
    return State(near.requires_grad_(), weight.clone().requires_grad_(), hidden, weight, chunk)


def kullback(state: State) -> Gradients:
    """`linear_distillation`."""
    loss = linear_distillation(*state[:4], chunk_tokens=state.chunk)
    return torch.autograd.grad(loss, (state.student_hidden, state.student_weight))


def eager(state: State) -> Gradients:
    """Two linear layers, two log-softmaxes, `kl_div`."""
    student = F.log_softmax(F.linear(state.student_hidden, state.student_weight), -1)
    with torch.no_grad():
        teacher = F.log_softmax(F.linear(state.teacher_hidden, state.teacher_weight), -1)
    loss = F.kl_div(student, teacher, log_target=True, reduction="batchmean")
    return torch.autograd.grad(loss, (state.student_hidden, state.student_weight))


def liger(state: State) -> Gradients:
    """Liger's chunked loss, whose Jensen-Shannon divergence of beta 0 is the forward KL; it compiles its chunks."""
    loss_class = importlib.import_module("liger_kernel.chunked_loss").LigerFusedLinearJSDLoss
    loss = loss_class(weight_hard_loss=0.0, weight_soft_loss=1.0, beta=0.0)
    labels = torch.zeros(state.student_hidden.shape[0], dtype=torch.long)
    value = loss(state.student_hidden, state.student_weight, state.teacher_hidden, state.teacher_weight, labels)
    return torch.autograd.grad(value, (state.student_hidden, state.student_weight))


def trl(state: State) -> Gradients:
    """TRL's chunked divergence, whose beta 0 is the forward KL."""
    function = importlib.import_module("trl.kernels.chunked_divergence").ChunkedDivergenceFunction
    heads = (state.student_hidden, state.student_weight, None, state.teacher_hidden, state.teacher_weight, None)
    rows, _ = function.apply(*heads, 0.0)
    return torch.autograd.grad(rows.mean(), (state.student_hidden, state.student_weight))


CONTENDERS: dict[str, Callable[[State], Gradients]] = {"kullback": kullback, "eager": eager, "liger": liger, "trl": trl}
NEEDS = {"liger": "liger_kernel.chunked_loss", "trl": "trl.kernels.chunked_divergence"}


def available() -> list[str]:
    """Contenders whose package can be imported."""
    found = []
    for name in CONTENDERS:
        try:
            importlib.import_module(NEEDS.get(name, "torch"))
        except ImportError:
            continue
        found.append(name)
    return found


def times(state: State, names: list[str], repeats: int, clock: Callable[[], float]) -> dict[str, float]:
    """Median seconds; the contenders take turns, after one run of each that is not counted."""
    found: dict[str, list[float]] = {name: [] for name in names}
    for turn in range(repeats + 1):
        for name in names:
            start = clock()
            CONTENDERS[name](state)
            if turn:
                found[name].append(clock() - start)
    return {name: statistics.median(seconds) for name, seconds in found.items()}


def memory(options: argparse.Namespace, name: str) -> int:
    """Bytes at the peak beyond the inputs, in a process of its own."""
    sizes = ["--tokens", options.tokens, "--features", options.features, "--vocabulary", options.vocabulary]
    command: list[Any] = [sys.executable, "-m", "benchmarks.distillation", "--memory-of", name, *sizes]
    command += ["--threads", options.threads, "--chunk", options.chunk]
    environment = {**os.environ, **RETURN_FREED_MEMORY, "OMP_NUM_THREADS": str(options.threads)}
    done = subprocess.run([str(part) for part in command], env=environment, capture_output=True, text=True, check=True)
    peak: int = json.loads(done.stdout.splitlines()[-1])
    return peak


def main() -> None:
    """Read the command line, measure, print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    for name, default in (("tokens", 2048), ("features", 1024), ("vocabulary", 32_768), ("threads", 1), ("repeats", 3)):
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--chunk", type=int, default=CHUNK_TOKENS, help="tokens per chunk of kullback")
    parser.add_argument("--processor-time", action="store_true", help="on a machine that does other work too")
    parser.add_argument("--memory-of", choices=list(CONTENDERS), help="print the bytes of one contender")
    parser.add_argument("--no-memory", action="store_true")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    state = inputs(options.tokens, options.features, options.vocabulary, options.chunk)
    if options.memory_of:
        print(peak_growth(CONTENDERS[options.memory_of], state))
        return
    names = available()
    seconds = times(state, names, options.repeats, time.process_time if options.processor_time else time.perf_counter)
    gradients = sum(t.numel() * t.element_size() for t in state[:2])
    extra = {} if options.no_memory else {name: memory(options, name) - gradients for name in names}
    print(f"{options.tokens} tokens, {options.features} features, vocabulary {options.vocabulary}, float32, ", end="")
    print(f"{options.threads} thread(s), torch {torch.__version__}\n")
    print("| | seconds | of eager's | MB beyond the gradients | of eager's |")
    print("|---|---|---|---|---|")
    for name in names:
        row = f"| {name} | {seconds[name]:.2f} | {seconds[name] / seconds['eager']:.2f} |"
        if extra:
            row += f" {extra[name] / 1e6:.0f} | {extra[name] / extra['eager']:.1%} |"
        print(row)


if __name__ == "__main__":
    main()
