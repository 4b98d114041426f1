"""How a stranger's divergence is called: the spaces of its arguments, their order, and what it returns.

A `Subject` hides all of that: checks hand it p and q and get one value a row, whatever the function's convention.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal

import torch
from torch import Tensor

from kullback._core.errors import InputValueError, explain_problem
from kullback.testing import oracle
from kullback.testing.runner import NotApplicable

Space = Literal["logits", "log_probs", "probs"]
Returns = Literal["rows", "pointwise", "sum", "mean", "batchmean", "element_mean"]
Order = Literal["pq", "qp"]

_SPACES = ("logits", "log_probs", "probs")
_RETURNS = ("rows", "pointwise", "sum", "mean", "batchmean", "element_mean")
_ORDERS = ("pq", "qp")
_LABEL = {"logits": "Logits", "log_probs": "LogProbs", "probs": "Probs"}


def torch_kl_div(*, log_target: bool = False, reduction: str = "batchmean") -> dict[str, Any]:
    """The calling convention of `F.kl_div` and `nn.KLDivLoss`, as keywords for `check_divergence`.

    Torch takes `(input, target)` = (log q, p), with p as log-probabilities if `log_target` is set; what it calls
    "mean" divides by the number of elements.

    Args:
        log_target: Whether the target is given as log-probabilities; also bind it in the function you pass.
        reduction: The reduction the function was built with: "none", "sum", "mean" or "batchmean".

    Returns:
        The keywords `inputs`, `order` and `returns`.

    Example:
        >>> torch_kl_div()
        {'inputs': ('probs', 'log_probs'), 'order': 'qp', 'returns': 'batchmean'}
    """
    returns = {"none": "pointwise", "mean": "element_mean"}.get(reduction, reduction)
    return {"inputs": ("log_probs" if log_target else "probs", "log_probs"), "order": "qp", "returns": returns}


@dataclass
class Subject:
    """A divergence under test together with its calling convention and tolerances."""

    fn: Callable[..., Any]
    divergence: oracle.Divergence
    spaces: tuple[Space, Space]
    order: Order = "pq"
    returns: Returns = "rows"
    mask: str | None = None
    mask_keeps: bool = True
    gradients: tuple[str, ...] = ("p", "q")
    dtypes: tuple[torch.dtype, ...] = (torch.float64, torch.float32)
    rtol: dict[torch.dtype, float] = field(default_factory=dict)
    gradient_rtol: float = 1e-10
    compile_backend: str = "aot_eager"
    _last: tuple[Any, ...] = ()

    def __post_init__(self) -> None:
        for name, value, known in (
            ("inputs", self.spaces[0], _SPACES),
            ("inputs", self.spaces[1], _SPACES),
            ("order", self.order, _ORDERS),
            ("returns", self.returns, _RETURNS),
            *(("gradients", side, ("p", "q")) for side in self.gradients),
        ):
            if value not in known:
                raise InputValueError(
                    explain_problem(f"{name}= does not know this.", got=repr(value), expected=", ".join(known))
                )

    @property
    def per_row(self) -> bool:
        """Whether one call tells the rows apart."""
        return self.returns in ("rows", "pointwise")

    def call(self, p: Tensor, q: Tensor, **keywords: Any) -> Tensor:
        """Call the function with its own argument order, and remember the inputs."""
        self._last = (p, q)
        result = self.fn(p, q, **keywords) if self.order == "pq" else self.fn(q, p, **keywords)
        if not isinstance(result, Tensor):
            raise TypeError(f"the function returned {type(result).__name__}, not a Tensor")
        return result

    def rows(self, p: Tensor, q: Tensor) -> Tensor:
        """One value a row of two (n, classes) tensors, whatever the function returns.

        A function that reduces is called on one row at a time, where every reduction is known. Pointwise terms are
        added in float64, so that no error of ours is laid at its door.
        """
        if self.returns == "rows":
            result = self.call(p, q)
            if result.shape != p.shape[:-1]:
                hint = (
                    "; for a function that returns one number write returns='mean', 'batchmean' or 'sum'"
                    if result.dim() == 0
                    else ""
                )
                raise ValueError(f"one value a row has shape {tuple(p.shape[:-1])}, got {tuple(result.shape)}{hint}")
            return result
        if self.returns == "pointwise":
            result = self.call(p, q)
            if result.shape != p.shape:
                raise ValueError(f"pointwise terms have shape {tuple(p.shape)}, got {tuple(result.shape)}")
            return result.double().sum(-1)
        return torch.stack([self.one_row(p[i], q[i]) for i in range(p.shape[0])])

    def one_row(self, p: Tensor, q: Tensor) -> Tensor:
        """The divergence of two vectors as a scalar, through a call on a batch of one row."""
        if self.per_row:
            return self.rows(p[None], q[None])[0]
        result = self.call(p[None], q[None])
        if result.dim() != 0:
            raise ValueError(f"a reduced value is a scalar, got shape {tuple(result.shape)}")
        return result * p.shape[-1] if self.returns == "element_mean" else result

    def reduced(self, rows: Tensor, classes: int) -> Tensor:
        """What the function ought to return for a batch whose rows have these values."""
        if self.per_row:
            return rows
        total = rows.sum()
        count = {"sum": 1, "mean": rows.numel(), "batchmean": rows.shape[0], "element_mean": rows.numel() * classes}
        return total / count[self.returns]

    def place(self, logits: Tensor, side: int) -> Tensor:
        """Write logits in the space that argument p (side 0) or q (side 1) is in, differentiably."""
        if self.spaces[side] == "logits":
            return logits
        return logits.log_softmax(-1) if self.spaces[side] == "log_probs" else logits.softmax(-1)

    def exact(self, p: Tensor, q: Tensor) -> tuple[list[float], list[float]]:
        """The exact value of every row, and how far the rounding of its inputs leaves that value open."""
        pairs = list(zip(_as_rows(p), _as_rows(q), strict=True))
        return (
            [float(oracle.value(self.divergence, *pair, self.spaces)) for pair in pairs],
            [oracle.ambiguity(self.divergence, *pair, self.spaces) for pair in pairs],
        )

    def needs(self, side: str) -> None:
        """Leave a check that asks for the gradient to a side the function does not differentiate."""
        if side not in self.gradients:
            raise NotApplicable(f"gradients= does not name {side}")

    def show(self, p: Tensor, q: Tensor) -> str:
        """Write two inputs out, short enough to read."""
        return ", ".join(
            f"{name} = {_LABEL[space]}({_show(tensor)})"
            for name, tensor, space in (("p", p, self.spaces[0]), ("q", q, self.spaces[1]))
        )

    def last_inputs(self) -> str:
        """The inputs of the latest call."""
        return self.show(*self._last) if self._last else ""


def _as_rows(tensor: Tensor) -> list[tuple[float, ...]]:
    return [tuple(row) for row in tensor.detach().double().tolist()]


def _show(tensor: Tensor) -> str:
    dtype = str(tensor.dtype).removeprefix("torch.")
    if tensor.numel() > 12 or tensor.dim() > 2:
        return f"shape {list(tensor.shape)}, {dtype}"
    try:
        numbers = tensor.detach().cpu()
        # The shortest decimals that read back as the stored floats, so that pasting them reproduces the case.
        array = (numbers if numbers.dtype == torch.float64 else numbers.float()).numpy()
        text = repr([[float(str(x)) for x in row] for row in array.reshape(-1, array.shape[-1])])
    except RuntimeError:  # a tensor inside vmap has no storage to read
        return f"shape {list(tensor.shape)}, {dtype}"
    return f"{text[1:-1] if tensor.dim() < 2 or tensor.shape[0] == 1 else text}, {dtype}"
