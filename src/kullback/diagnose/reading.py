"""Are the numbers of a view what it says? If not, the nearest reading that is possible, and a finding that says so."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from kullback._core.errors import InputValueError
from kullback.api.entropy import entropy
from kullback.report.page import Finding, Severity
from kullback.tensors.views import Counts, Logits, LogProbs, Probs, View

# Rows that are looked at for a guess; a row is wrong for a reason that its neighbours share.
_MAX_LOOKED_AT = 1 << 22


def read_view(view: View, name: str, mask: Tensor | None) -> tuple[View, list[Finding]]:
    """The view itself, or the reading under which its numbers are possible, with what was noticed.

    Raises:
        InputValueError: If no reading is possible: NaN, +inf, rows in which every class is excluded.
    """
    try:
        entropy(view, mask=mask, validate="sync")
    except InputValueError:
        other, finding = _other_reading(view, name, mask)
        if other is None or finding is None:
            raise
        entropy(other, mask=mask, validate="sync")
        return other, [finding]
    return view, _suspicions(view, name, mask)


def _other_reading(view: View, name: str, mask: Tensor | None) -> tuple[View | None, Finding | None]:
    tensor = view.tensor.detach()
    rows = _looked_at(view, mask)
    if not bool((rows < math.inf).all()):  # NaN or +inf: nothing makes these right
        return None, None
    said = view.kind
    if said != "Probs" and _sums_to_one(rows, logs=False):
        return Probs(tensor, view.dim), _finding(
            name, said, "probs", evidence="values from 0 to 1 that sum to 1 in every row"
        )
    if said != "LogProbs" and _sums_to_one(rows, logs=True):
        return LogProbs(tensor, view.dim), _finding(
            name, said, "log-probs", evidence="values up to 0 whose exp sums to 1"
        )
    along = _other_dimension(view)
    if along is not None:
        return type(view)(tensor, along), _wrong_dimension(view, name, along)
    if said == "Probs" and bool((rows >= 0).all()):
        return Counts(tensor, view.dim), _sum_finding(rows, name)
    low, high = float(rows[rows > -math.inf].min()), float(rows.max())
    return Logits(tensor, view.dim), _finding(name, said, "logits", evidence=f"values from {low:.4g} to {high:.4g}")


def _suspicions(view: View, name: str, mask: Tensor | None) -> list[Finding]:
    """What is possible, but probably not meant."""
    if not isinstance(view, Logits) or view.tensor.shape[view.dim] < 2:
        return []
    rows = _looked_at(view, mask)
    if rows.numel() == 0:
        return []
    coarse = torch.finfo(view.tensor.dtype).eps > 1e-4
    if _sums_to_one(rows, logs=False, tolerance=0.02 if coarse else 1e-3) and bool((rows != rows[..., :1]).any()):
        evidence = (
            "they are between 0 and 1 and sum to 1 in every row, and a softmax of probabilities is nearly uniform"
        )
        return [_finding(name, "Logits", "probs", evidence=evidence, severity="warning")]
    if bool((rows == rows.round()).all()) and bool((rows >= 0).all()) and float(rows.max()) > 1:
        evidence = f"they are whole numbers from {float(rows.min()):g} to {float(rows.max()):g}"
        return [_finding(name, "Logits", "counts", evidence=evidence, severity="warning")]
    return []


def _looked_at(view: View, mask: Tensor | None) -> Tensor:
    """Some rows that are kept, (rows, classes), in float64."""
    tensor = view.tensor.detach().movedim(view.dim, -1)
    if mask is not None and mask.shape == tensor.shape[:-1]:
        tensor = tensor[mask]
    rows = tensor.reshape(-1, tensor.shape[-1])
    step = -(-rows.numel() // _MAX_LOOKED_AT) or 1
    return rows[::step].to(device="cpu", dtype=torch.float64)


def _sums_to_one(rows: Tensor, *, logs: bool, tolerance: float = 0.02) -> bool:
    if rows.numel() == 0 or (logs and bool((rows > 0).any())) or (not logs and bool((rows < 0).any())):
        return False
    total = rows.exp().sum(-1) if logs else rows.sum(-1)
    return bool(((total - 1).abs() <= tolerance).all())


def _other_dimension(view: View) -> int | None:
    """Another dimension along which the numbers sum to 1."""
    if view.kind not in ("Probs", "LogProbs") or view.tensor.numel() > _MAX_LOOKED_AT:
        return None
    own = view.dim % view.tensor.dim()
    for dim in range(view.tensor.dim()):
        moved = view.tensor.detach().double().cpu().movedim(dim, -1)
        if dim != own and _sums_to_one(moved, logs=view.kind == "LogProbs", tolerance=1e-3):
            return dim
    return None


def _finding(name: str, said: str, looks: str, *, evidence: str, severity: Severity = "error") -> Finding:
    right = {"probs": "Probs", "log-probs": "LogProbs", "logits": "Logits", "counts": "Counts"}[looks]
    words = {"probs": "probabilities", "log-probs": "log-probabilities"}.get(looks, looks)
    return Finding(
        f"looks-like-{looks}",
        severity,
        f"{name} is given as {said} but looks like {words}: {evidence}."
        + (f" The numbers below read it as {right}." if severity == "error" else ""),
        f"{right}(x) instead of {said}(x)",
        {"argument": name, "given": said, "looks_like": right},
    )


def _sum_finding(rows: Tensor, name: str) -> Finding:
    sums = rows.sum(-1)
    at = int((sums - 1).abs().argmax())
    total = float(sums[at])
    if bool((rows == rows.round()).all()):
        evidence = f"whole numbers that sum to {total:g}"
        return _finding(name, "Probs", "counts", evidence=evidence)
    low, high = float(sums.min()), float(sums.max())
    if high - low < 1e-3 * high:
        which = f"{total:.4g}" if len(sums) == 1 else f"{total:.4g} in each of {len(sums)} rows"
    else:
        which = f"{low:.4g} to {high:.4g} over {len(sums)} rows"
    return Finding(
        "does-not-sum-to-1",
        "error",
        f"{name} sums to {which}, not to 1. The numbers below divide every row by its sum.",
        "Counts(x) divides by the sum; Probs(x, dim=...) if the classes are along another dimension; "
        "Logits(x) if these are scores",
        {"argument": name, "smallest_sum": low, "largest_sum": high},
    )


def _wrong_dimension(view: View, name: str, along: int) -> Finding:
    return Finding(
        "wrong-dimension",
        "error",
        f"{name} sums to 1 along dim={along}, not along its class dimension dim={view.dim}: a softmax over the wrong "
        f"dimension, or a view of it. The numbers below take the classes along dim={along}.",
        f"{view.kind}(x, dim={along}), or softmax(dim={view.dim}) where x is made",
        {"argument": name, "dim": view.dim, "normalised_along": along},
    )
