"""torch's reduction names and its deprecated `size_average` and `reduce`, translated as torch translates them."""

from __future__ import annotations

from kullback._core.errors import InputValueError, explain_problem
from kullback.nn.call_site import warn_caller

REDUCTIONS = ("none", "mean", "batchmean", "sum")


def translate_legacy(size_average: object, reduce: object, *, quiet: bool) -> str:
    """The reduction that `size_average` and `reduce` mean, with torch's deprecation warning unless `quiet`.

    They are judged by their truth value, so the string in `KLDivLoss("batchmean")` means `size_average=True`, which is
    "mean". That is warned about.
    """
    if reduce is not None and not reduce:
        reduction = "none"
    else:
        reduction = "mean" if size_average is None or size_average else "sum"
    if not quiet:
        for name, value in (("size_average", size_average), ("reduce", reduce)):
            if isinstance(value, str):
                warn_caller(f"string in {name}", _string_given(name, value, reduction))
        text = f"size_average and reduce args will be deprecated, please use reduction='{reduction}' instead."
        warn_caller(f"legacy {reduction}", text, UserWarning)
    return reduction


def check_reduction(reduction: object, *, quiet: bool) -> str:
    """One of the four names; torch's old `elementwise_mean` becomes "mean" with its deprecation warning."""
    if reduction == "elementwise_mean":
        if not quiet:
            text = "reduction='elementwise_mean' is deprecated. Please use reduction='mean' instead."
            warn_caller("elementwise_mean", text, UserWarning)
        return "mean"
    if reduction not in REDUCTIONS:
        raise InputValueError(
            explain_problem(
                f"{reduction} is not a valid value for reduction.",
                got=f"reduction={reduction!r}",
                expected=" | ".join(repr(name) for name in REDUCTIONS),
                instead='reduction="batchmean" for the mean KL per row of an (N, C) input',
            )
        )
    return str(reduction)


def _string_given(name: str, value: str, reduction: str) -> str:
    return explain_problem(
        f'The string in `{name}` is not a reduction: as a true value it selects reduction="{reduction}".',
        got=f"{name}={value!r} (the first two arguments are the deprecated size_average and reduce)",
        expected=f"{name} left out",
        instead=f"KLDivLoss(reduction={value!r}) or kl_div(input, target, reduction={value!r})",
    )
