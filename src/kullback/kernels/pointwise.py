"""A torch formula of nodes and parameters as one native pass: recorded at its first call, with its gradient.

For integrands that are branch-free elementwise functions. Whoever follows the call by its torch operations (a
transform, the compiler, a tracer) gets the formula itself, and so do tensors that native code must not look inside.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from kullback.kernels import native
from kullback.kernels.levels import is_plain, tracer_active, transform_active
from kullback.kernels.program import Program, TooLargeError
from kullback.kernels.recorder import LENGTH, Recorder, RefusedError


class Pointwise:
    """An elementwise function of float64 tensors that broadcast.

    Args:
        formula: The function.

    Example:
        >>> bell = Pointwise(lambda z, scale: torch.exp(-((z / scale) ** 2) / 2))
        >>> bell(torch.zeros(2, dtype=torch.float64), torch.ones(2, dtype=torch.float64))
        tensor([1., 1.], dtype=torch.float64)
    """

    def __init__(self, formula: Callable[..., Tensor]) -> None:
        self.formula = formula
        self._program: Program | None = None
        self._asked = False

    def __call__(self, *tensors: Tensor) -> Tensor:
        """The function, differentiable."""
        if torch.compiler.is_compiling() or transform_active() or tracer_active() or native.library() is None:
            return self.formula(*tensors)
        if not all(is_plain(tensor) and tensor.dtype is torch.float64 for tensor in tensors):
            return self.formula(*tensors)
        if not self._asked:
            self._asked, self._program = True, self._recorded(len(tensors))
        return self.formula(*tensors) if self._program is None else self._program(*tensors)

    def _recorded(self, count: int) -> Program | None:
        with torch.inference_mode(mode=False), torch.enable_grad():
            try:
                return _record(self.formula, count)
            except (RefusedError, TooLargeError):
                return None


def _record(formula: Callable[..., Tensor], count: int) -> Program:
    # Any numbers will do: the formula does not branch.
    numbers = torch.linspace(0.4, 1.6, LENGTH, dtype=torch.float64, device="cpu")
    leaves = [numbers.roll(shift).requires_grad_() for shift in range(count)]
    grad = torch.ones(LENGTH, dtype=torch.float64, device="cpu")
    with Recorder() as recorder:
        for tensor in (*leaves, grad):
            recorder.input(tensor)
        value = formula(*leaves)
        total = recorder.run_unseen(torch.dot, value, grad)
        found = torch.autograd.grad(total, leaves, allow_unused=True)
    nodes = [recorder.node(tensor) for tensor in (value, *found)]
    single = [node for node in nodes if isinstance(node, int)]
    return Program(recorder.graph, single[0], single[1:], parts=[0] * count, formula=formula)
