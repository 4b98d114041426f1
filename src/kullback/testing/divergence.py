"""`check_divergence`: the battery for divergences of tensors."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import torch

from kullback._core.errors import InputTypeError, explain_problem
from kullback.testing import oracle
from kullback.testing.checks_derivative import DERIVATIVES
from kullback.testing.checks_edge import EDGES
from kullback.testing.checks_transform import TRANSFORMS
from kullback.testing.checks_value import VALUES
from kullback.testing.convention import Order, Returns, Space, Subject
from kullback.testing.report import Report
from kullback.testing.runner import Battery

TENSOR_BATTERY: Battery[Subject] = Battery(VALUES, EDGES, DERIVATIVES, TRANSFORMS)

RTOL = {
    torch.float64: 1e-12,
    torch.float32: 16 * torch.finfo(torch.float32).eps,
    torch.bfloat16: 4 * torch.finfo(torch.bfloat16).eps,
    torch.float16: 4 * torch.finfo(torch.float16).eps,
}
"""The relative tolerance of a value, by the dtype it comes back in: a few units in the last place."""


def check_divergence(
    fn: Callable[..., Any],
    *,
    divergence: str | oracle.Divergence | oracle.Formula = "kl",
    inputs: Space | tuple[Space, Space] = "logits",
    order: Order = "pq",
    returns: Returns = "rows",
    mask: str | None = None,
    mask_keeps: bool = True,
    gradients: Iterable[str] = ("p", "q"),
    dtypes: Iterable[torch.dtype] = tuple(RTOL),
    rtol: Mapping[torch.dtype, float] | None = None,
    gradient_rtol: float = 1e-10,
    only: Iterable[str] | str | None = None,
    skip: Iterable[str] | str = (),
    compile_backend: str = "aot_eager",
) -> Report:
    r"""Find out what is wrong with a divergence of two tensors: values, gradients, masks, shapes, transforms.

    Every value is compared with the exact one, computed with 50 digits from the floats as stored; every derivative
    with exact differences of the same formula. Classes are the last dimension.

    Args:
        fn: The function, called `fn(p, q)`. Yours, kullback's, torch's, anyone's; an `nn.Module` too.
        divergence: What it claims to compute: "kl", "reverse_kl", "js", "jeffreys", "chi2", "total_variation",
            "hellinger", a `Divergence`, or your own exact formula of two sequences of mpmath probabilities.
        inputs: What the numbers of p and q are: "logits", "log_probs" or "probs", or a tuple of two, p's first.
        order: "pq", or "qp" if the function takes q first, as torch's does.
        returns: "rows" (one value a row), "pointwise" (summed over the classes for comparison), or a scalar: "sum",
            "mean" (over the rows), "batchmean" (the sum over the size of the first dimension), "element_mean".
        mask: The name of its keyword for a boolean mask over rows, if it has one.
        mask_keeps: Whether True in that mask keeps the row; False if it drops it.
        gradients: The sides it differentiates; a distillation loss may promise ("q",) only.
        dtypes: The dtypes it claims to accept.
        rtol: Relative tolerances of values by the dtype of the result, where the defaults do not suit: 1e-12 in
            float64, 2e-6 in float32, 0.016 in bfloat16, 0.004 in float16.
        gradient_rtol: Tolerance of first derivatives (float64), relative to the largest component; second derivatives
            get ten times as much.
        only: Names of the checks to run; all by default.
        skip: Names of checks not to run.
        compile_backend: The backend of the compile check; "inductor" is thorough and slow.

    Returns:
        A `Report`; print it, or call its `raise_if_failed()` in a test.

    Raises:
        InputTypeError: If `fn` cannot be called.
        InputValueError: If a keyword has a value it does not know.
        UnavailableError: If mpmath is missing.

    Example:
        >>> import torch
        >>> def my_kl(p, q):
        ...     return (p.softmax(-1) * (p.log_softmax(-1) - q.log_softmax(-1))).sum(-1)
        >>> report = check_divergence(my_kl, only=["value", "zero_in_both", "gradient_p"])
        >>> print(report)  # doctest: +ELLIPSIS
        my_kl: 2 passed, 1 failed
          ✗ zero_in_both: expected 0.285777, got nan (1 more like it) — p = Logits([-inf, -1.0, -1.0], float64), ...
    """
    if not callable(fn):
        raise InputTypeError(explain_problem("check_divergence tests a function.", got=type(fn).__name__))
    subject = Subject(
        fn,
        oracle.resolve(divergence),
        (inputs, inputs) if isinstance(inputs, str) else inputs,
        order=order,
        returns=returns,
        mask=mask,
        mask_keeps=mask_keeps,
        gradients=tuple(gradients),
        dtypes=tuple(dtypes),
        rtol={**RTOL, **(rtol or {})},
        gradient_rtol=gradient_rtol,
        compile_backend=compile_backend,
    )
    name = getattr(fn, "__name__", type(fn).__name__)
    return TENSOR_BATTERY.run(subject, name, only, skip)
