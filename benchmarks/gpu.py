"""What a GPU makes of these kernels: a correctness gate, then times and memory beside eager, compiled and Liger.

`python -m benchmarks.gpu` prints two tables in Markdown to paste into an issue. It needs a card; nothing in this
repository was timed on one.

Options: `--rows 4096 --vocabulary 32000 128256 --dtype bfloat16 --divergence kl js`, `--device cuda:0`.
"""

from __future__ import annotations

import argparse
import importlib
import statistics
import sys
import warnings
from collections.abc import Callable, Iterator

import torch
import torch.nn.functional as F
from torch import Tensor

import kullback as kb
from benchmarks.environment import describe
from kullback.kernels.device_choice import route_of

_REPEATS = 20
_VALUE_ERROR, _GRADIENT_ERROR = 5e-7, 2e-6
_DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}
Loss = Callable[[Tensor, Tensor], Tensor]


def eager_kl(teacher: Tensor, student: Tensor) -> Tensor:
    """KL(teacher || student) per row, as most code writes it."""
    p, q = F.log_softmax(teacher.float(), -1), F.log_softmax(student.float(), -1)
    return F.kl_div(q, p, reduction="none", log_target=True).sum(-1)


def eager_js(teacher: Tensor, student: Tensor) -> Tensor:
    """Jensen-Shannon per row, from log-softmax and a log of the mean."""
    p, q = F.log_softmax(teacher.float(), -1), F.log_softmax(student.float(), -1)
    m = torch.logaddexp(p, q) - 0.6931471805599453
    return 0.5 * ((p.exp() * (p - m)).sum(-1) + (q.exp() * (q - m)).sum(-1))


def our_kl(teacher: Tensor, student: Tensor) -> Tensor:
    """The same by this library."""
    return kb.kl(kb.Logits(teacher), kb.Logits(student))


def our_js(teacher: Tensor, student: Tensor) -> Tensor:
    """The same by this library."""
    return kb.js(kb.Logits(teacher), kb.Logits(student))


def liger(divergence: str) -> Loss | None:
    """Liger's kernel where it is installed: a sum over rows of log-probabilities."""
    try:
        if divergence == "kl":
            kernel = importlib.import_module("liger_kernel.transformers.kl_div").LigerKLDIVLoss("sum", log_target=True)
            return lambda t, s: kernel(F.log_softmax(s.float(), -1), F.log_softmax(t.float(), -1))
        kernel = importlib.import_module("liger_kernel.transformers.jsd").LigerJSD(beta=0.5)
        return lambda t, s: kernel(F.log_softmax(s.float(), -1), F.log_softmax(t.float(), -1))
    except (ImportError, RuntimeError, AttributeError):
        return None


def contenders(divergence: str) -> Iterator[tuple[str, Loss]]:
    """Names and functions, ours last."""
    eager, ours = {"kl": (eager_kl, our_kl), "js": (eager_js, our_js)}[divergence]
    yield "eager", eager
    yield "compiled", torch.compile(eager, dynamic=False)
    peer = liger(divergence)
    if peer is not None:
        yield "Liger", peer
    yield "kullback", ours


def logits(rows: int, classes: int, dtype: torch.dtype, device: torch.device) -> tuple[Tensor, Tensor]:
    """A teacher and a student that nearly agree."""
    generator = torch.Generator().manual_seed(0)
    teacher = 3 * torch.randn(rows, classes, generator=generator)
    student = teacher + 0.3 * torch.randn(rows, classes, generator=generator)
    return teacher.to(device, dtype), student.to(device, dtype)


def check(divergence: str, dtype: torch.dtype, device: torch.device) -> tuple[float, float]:
    """The largest relative errors of value and gradient against float64 on the CPU; stops where they are too large."""
    _, ours = list(contenders(divergence))[-1]
    worst = [0.0, 0.0]
    for classes in (2, 1000, 1025, 32000):
        teacher, student = logits(4, classes, dtype, device)
        student.requires_grad_()
        value = ours(teacher, student)
        (found,) = torch.autograd.grad(value.sum(), student)
        exact = student.detach().cpu().double().requires_grad_()
        want = ours(teacher.cpu().double(), exact)
        (wanted,) = torch.autograd.grad(want.sum(), exact)
        want, value = want.detach(), value.detach().cpu().double()
        worst[0] = max(worst[0], float(((value - want).abs() / want).max()))
        error = (found.cpu().double() - wanted).abs().amax(-1) / wanted.abs().amax(-1)
        worst[1] = max(worst[1], float(error.max()))
    allowed = max(_GRADIENT_ERROR, torch.finfo(dtype).eps)
    if worst[0] > _VALUE_ERROR or worst[1] > allowed:
        sys.exit(
            f"{divergence} in {dtype} on {device} is wrong by {worst[0]:.1e} and {worst[1]:.1e}: please report this"
        )
    return worst[0], worst[1]


def measure(loss: Loss, teacher: Tensor, student: Tensor, *, backward: bool) -> tuple[float, int]:
    """Median milliseconds by the events of the device, and bytes of memory at the peak beyond the inputs."""
    module = torch.get_device_module(teacher.device)
    student = student.detach().requires_grad_(backward)

    def run() -> None:
        value = loss(teacher, student).sum()
        if backward:
            torch.autograd.grad(value, student)

    for _ in range(3):
        run()
    module.synchronize()
    module.reset_peak_memory_stats()
    before = module.memory_allocated()
    times = []
    for _ in range(_REPEATS):
        start, end = module.Event(enable_timing=True), module.Event(enable_timing=True)
        start.record()
        run()
        end.record()
        end.synchronize()
        times.append(start.elapsed_time(end))
    return statistics.median(times), module.max_memory_allocated() - before


def main(arguments: list[str] | None = None) -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rows", type=int, default=4096)
    parser.add_argument("--vocabulary", type=int, nargs="+", default=[32_000, 128_256])
    parser.add_argument("--dtype", choices=_DTYPES, nargs="+", default=["bfloat16", "float32"])
    parser.add_argument("--divergence", choices=["kl", "js"], nargs="+", default=["kl", "js"])
    parser.add_argument("--device", default="cuda")
    given = parser.parse_args(arguments)
    device = torch.device(given.device)
    if device.type == "cpu" or not torch.get_device_module(device).is_available():
        sys.exit(f"benchmarks.gpu needs a GPU and found none as {given.device!r}; --device names another one.")
    warnings.simplefilter("error")  # a fallback would measure something else
    print(f"{torch.get_device_module(device).get_device_name(device)}, route: {route_of(device)}")
    print({key: describe()[key] for key in ("torch", "kullback", "kernels", "platform")}, "\n")
    print("| gate | dtype | value, relative | gradient, of the largest |\n|---|---|---|---|")
    for divergence in given.divergence:
        for name in given.dtype:
            value, gradient = check(divergence, _DTYPES[name], device)
            print(f"| {divergence} | {name} | {value:.1e} | {gradient:.1e} |")
    print("\n| divergence | dtype | rows × classes | what | forward ms | forward + backward ms | peak MB |")
    print("|---|---|---|---|---|---|---|")
    for divergence in given.divergence:
        for name in given.dtype:
            for classes in given.vocabulary:
                teacher, student = logits(given.rows, classes, _DTYPES[name], device)
                for what, loss in contenders(divergence):
                    forward, _ = measure(loss, teacher, student, backward=False)
                    both, peak = measure(loss, teacher, student, backward=True)
                    print(
                        f"| {divergence} | {name} | {given.rows} × {classes} | {what} | {forward:.3f} | {both:.3f} | "
                        f"{peak / 1e6:.0f} |"
                    )


if __name__ == "__main__":
    main()
