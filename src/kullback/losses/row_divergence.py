"""The divergences that a distillation loss may use, by name; called by every distillation loss.

Below p is the teacher and q the student.

| name             | per token                                                      | parameter and default            |
|------------------|----------------------------------------------------------------|----------------------------------|
| `"forward"`      | KL(p ‖ q)                                                      |                                  |
| `"reverse"`      | KL(q ‖ p)                                                      |                                  |
| `"js"`           | ½ KL(p ‖ m) + ½ KL(q ‖ m), m = ½p + ½q                         |                                  |
| `"scaled_js"`    | [β KL(p ‖ m) + (1-β) KL(q ‖ m)] / (β(1-β)), m = βp + (1-β)q    | `beta=0.5`; continuous on [0, 1] |
| `"gkd"`          | β KL(p ‖ m) + (1-β) KL(q ‖ m); KL(p ‖ q) at 0, KL(q ‖ p) at 1  | `beta=0.5`; jumps at both ends   |
| `"skew"`         | KL(p ‖ αp + (1-α)q)                                            | `alpha=0.1`                      |
| `"skew_reverse"` | KL(q ‖ αq + (1-α)p)                                            | `alpha=0.1`                      |
| `"tv"`           | ½ Σ abs(p - q)                                                 |                                  |
| `"alpha"`        | (Σ p^α q^(1-α) - 1) / (α(α-1)); KL(p ‖ q) at 1, KL(q ‖ p) at 0 | `alpha=0.5`; any finite number   |
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Literal, NamedTuple, get_args

import torch
from torch import Tensor

from kullback._core.errors import InputTypeError, InputValueError, explain_problem
from kullback.kernels.f_rows import js_rows, renyi_rows, scaled_js_rows, skew_kl_rows, total_variation_rows
from kullback.kernels.kl_rows import kl_rows
from kullback.kernels.row_op import RowOp
from kullback.kernels.sides import Encoding
from kullback.tensors.views import Logits

DivergenceName = Literal["forward", "reverse", "js", "scaled_js", "gkd", "skew", "skew_reverse", "tv", "alpha"]


class RowDivergence(NamedTuple):
    """A divergence between a teacher and a student, one value per row of logits.

    Attributes:
        op: The kernel.
        student_first: Whether the student is the kernel's first argument.
        parameters: What the kernel takes besides the two sides.
        finish: From the kernel's rows to the divergence; None where they are the same.
        parallel: The name of the same function in `kullback.parallel`, and its parameters.
    """

    op: RowOp
    student_first: bool = False
    parameters: tuple[float, ...] = ()
    finish: Callable[[Tensor], Tensor] | None = None
    parallel: tuple[Any, ...] = ("kl",)

    def rows(
        self,
        student: Tensor,
        teacher: Tensor,
        keep: Tensor | None = None,
        check: Callable[[], None] | None = None,
        *,
        scale: float = 1.0,
    ) -> Tensor:
        """One value per row of two tensors of logits, both times `scale`; a row that is not kept gives 0."""
        sides = (student, teacher) if self.student_first else (teacher, student)
        rows = self.op(sides, (Encoding(scale=scale),) * 2, *self.parameters, keep=keep, check=check)
        return rows if self.finish is None else self.finish(rows)

    def shard_rows(self, student: Tensor, teacher: Tensor, keep: Tensor | None, group: Any) -> Tensor:
        """The same where each rank of a group holds some of the classes."""
        from kullback import parallel

        name, *parameters = self.parallel
        sides = (student, teacher) if self.student_first else (teacher, student)
        rows: Tensor = getattr(parallel, name)(*map(Logits, sides), *parameters, mask=keep, group=group)
        return rows if self.finish is None or name == "alpha_divergence" else self.finish(rows)


def choose_divergence(name: object, beta: float | None, alpha: float | None) -> RowDivergence:
    """The divergence of that name; refuses unknown names, and parameters that it does not take."""
    if name not in get_args(DivergenceName):
        raise InputValueError(
            explain_problem(
                "Unknown divergence.",
                got=f"divergence={name!r}",
                expected=", ".join(repr(known) for known in get_args(DivergenceName)),
                instead='"forward" for KL(teacher || student), "reverse" for KL(student || teacher)',
            )
        )
    takes = {"scaled_js": "beta", "gkd": "beta", "skew": "alpha", "skew_reverse": "alpha", "alpha": "alpha"}.get(
        str(name)
    )
    for argument, value in (("beta", beta), ("alpha", alpha)):
        if value is not None and argument != takes:
            instead = {"beta": '"scaled_js" or "gkd"', "alpha": '"skew", "skew_reverse" or "alpha"'}[argument]
            raise InputValueError(
                explain_problem(
                    f"The divergence {name!r} has no {argument}.",
                    got=f"{argument}={value!r}",
                    expected=f"{argument}=None",
                    instead=f"divergence={instead}",
                )
            )
    if takes == "beta":
        return _with_beta(str(name), _number("beta", 0.5 if beta is None else beta))
    if name in ("skew", "skew_reverse"):
        share = _number("alpha", 0.1 if alpha is None else alpha)
        return RowDivergence(skew_kl_rows, name == "skew_reverse", (share,), parallel=("skew_kl", share))
    if name == "alpha":
        return _alpha_divergence(_number("alpha", 0.5 if alpha is None else alpha, bounded=False))
    return {
        "forward": RowDivergence(kl_rows),
        "reverse": RowDivergence(kl_rows, student_first=True),
        "js": RowDivergence(js_rows, parallel=("js",)),
        "tv": RowDivergence(total_variation_rows, parallel=("total_variation",)),
    }[str(name)]


def _with_beta(name: str, beta: float) -> RowDivergence:
    scaled = RowDivergence(scaled_js_rows, parameters=(beta,), parallel=("scaled_js", beta))
    if name == "scaled_js":
        return scaled
    if beta in (0.0, 1.0):
        return RowDivergence(kl_rows, student_first=beta == 1.0)
    return scaled._replace(finish=lambda rows: rows * (beta * (1.0 - beta)))


def _alpha_divergence(alpha: float) -> RowDivergence:
    """From Rényi's divergence R of order α: (e^((α-1)R) - 1) / (α(α-1)). Orders below ½ exchange the two sides."""
    order = alpha if alpha >= 0.5 else 1.0 - alpha

    def finish(rows: Tensor) -> Tensor:
        if order == 1.0:
            return rows
        # An infinite Rényi divergence of order below 1 belongs to a finite value, 1 / (α(1-α)), with zero gradient.
        known = torch.where(rows.isinf(), 0.0, rows)
        limit = math.inf if order > 1.0 else 1.0 / (order * (1.0 - order))
        exponent = (order - 1.0) * known
        overflows = exponent.detach() > math.log(torch.finfo(rows.dtype).max) - 1.0
        value = torch.expm1(torch.where(overflows, 0.0, exponent)) / (order * (order - 1.0))
        return torch.where(rows.isinf() | overflows, limit, value)

    return RowDivergence(renyi_rows, alpha < 0.5, (order,), finish, ("alpha_divergence", order))


def _number(name: str, value: object, *, bounded: bool = True) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise InputTypeError(
            explain_problem(
                f"{name} is a Python number, the same for all tokens.",
                got=f"a {type(value).__name__}",
                expected=f"a number {name}",
                instead=f"{name}=float({name})",
            )
        )
    inside = 0.0 <= value <= 1.0 if bounded else math.isfinite(value)
    if not inside:
        raise InputValueError(
            explain_problem(
                f"{name} is out of range.",
                got=f"{name}={value!r}",
                expected=f"0 <= {name} <= 1" if bounded else f"a finite {name}",
            )
        )
    return float(value)
