"""Measures of a chunk of rows: divergences, agreement of the top classes, labels, temperature; for `accumulator.py`."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from kullback._core.errors import InputTypeError, InputValueError, explain_problem
from kullback._core.validation import check_rows, sum_tolerance
from kullback.api.js import js
from kullback.api.kl import kl
from kullback.api.total_variation import total_variation
from kullback.diagnose.rows import contributions
from kullback.kernels.measure_rows import RowMeasures, native_measures
from kullback.special import expm1mx
from kullback.tensors.views import Counts, Probs, View

DIVERGENCES = ("kl", "reverse_kl", "js", "total_variation")
AGREEMENT = ("top1", "topk_overlap")
MEASURES = (*DIVERGENCES, *AGREEMENT)
# β = 1/T at which the derivative of KL(p ‖ q^β) is recorded: 1/4 to 4.
_STEPS_PER_OCTAVE = 4
_PART, _NO_WEIGHT = 1024, -1e30
_CANDIDATE_CLASSES = 1 << 16  # at a time: memory of this size is used again, fresh memory costs more than the sums
INVERSE_TEMPERATURES = tuple(
    2.0 ** (step / _STEPS_PER_OCTAVE) for step in range(-2 * _STEPS_PER_OCTAVE, 2 * _STEPS_PER_OCTAVE + 1)
)


class Term(NamedTuple):
    """What one class adds to the KL of a row: p log(p/q) − p + q, in nats."""

    class_index: int
    p: float
    q: float
    contribution: float


def check_measures(measures: tuple[str, ...]) -> tuple[str, ...]:
    """The measures in their usual order; "kl" is always one of them."""
    unknown = [name for name in measures if name not in MEASURES]
    if unknown:
        raise InputValueError(
            explain_problem("There is no such measure.", got=repr(unknown[0]), expected=", ".join(MEASURES))
        )
    return tuple(name for name in MEASURES if name == "kl" or name in measures)


def flat_rows(view: View) -> View:
    """The same view as a matrix of rows."""
    if not isinstance(view, View):
        raise InputTypeError(
            explain_problem(
                "Rows are compared as views, which say what the numbers are.",
                got=f"a {type(view).__name__}",
                expected="Logits, LogProbs, Probs or Counts",
                instead="update(Logits(p), Logits(q))",
            )
        )
    tensor = view.tensor.detach().movedim(view.dim, -1) if view.tensor.dim() else view.tensor.detach().reshape(1)
    return view.with_tensor(tensor.reshape(-1, tensor.shape[-1]), dim=-1)


def unusable_rows(view: View) -> Tensor:
    """Rows that hold NaN, +inf, or no class at all."""
    rows = view.tensor
    bad = rows.isnan().any(-1) | (rows == math.inf).any(-1)
    if isinstance(view, Counts) and view.smoothing > 0:
        return bad
    nothing = 0.0 if isinstance(view, Counts | Probs) else -math.inf
    return bad | (rows == nothing).all(-1)


class Measured(NamedTuple):
    """What is known of a chunk of rows.

    Attributes:
        found: One float64 number per row for each measure.
        log_sums: Logarithms of the sums of the weights of p and of q.
        tops: The most probable classes of p and of q, (rows, k); -1 where fewer have any weight.
    """

    found: dict[str, Tensor]
    log_sums: tuple[Tensor, Tensor]
    tops: tuple[Tensor, Tensor]


def measure_rows(p: View, q: View, wanted: tuple[str, ...], top_k: int, *, labelled: bool) -> Measured:
    """Measure all rows; `labelled` also asks for what `label_measures` needs.

    Raises:
        InputValueError: If a row is not what its view says.
    """
    if wanted == ("kl",) and not labelled:
        nothing = torch.empty(0)
        return Measured({"kl": kl(p, q, validate="sync").double().cpu()}, (nothing, nothing), (nothing, nothing))
    classes = p.tensor.shape[-1]
    top = min(top_k, classes) if "topk_overlap" in wanted else 1
    tolerances = [sum_tolerance(v.kind, classes, v.tensor.dtype) for v in (p, q)]

    def check() -> None:
        for name, view in (("p", p), ("q", q)):
            check_rows(view.tensor, view.kind, name, "sync", smoothing=view.encoding.smoothing)

    rows = native_measures((p.tensor, q.tensor), (p.encoding, q.encoding), top, tolerances, check)
    if rows is None:
        rows = _measures_by_torch(p, q, top)
    found = {name: getattr(rows, name) for name in DIVERGENCES}
    found["top1"] = (rows.tops[0][:, 0] == rows.tops[1][:, 0]).double()
    found["topk_overlap"] = _overlap(*rows.tops)
    return Measured({name: found[name] for name in wanted}, rows.log_sums, rows.tops)


def _measures_by_torch(p: View, q: View, top: int) -> RowMeasures:
    """The same where native code does not serve, one function after the other."""
    values = [
        kl(p, q, validate="sync"),
        kl(q, p, validate=False),
        js(p, q, validate=False),
        total_variation(p, q, validate=False),
    ]
    sums, tops = [], []
    for view in (p, q):
        logs = log_weights(view, view.tensor)
        sums.append(logs.logsumexp(-1).cpu())
        best = logs.topk(top, dim=-1)
        tops.append(best.indices.masked_fill(best.values == -math.inf, -1).cpu())
    kl_, reverse, shannon, variation = (value.double().cpu() for value in values)
    return RowMeasures(kl_, reverse, shannon, variation, (sums[0], sums[1]), (tops[0], tops[1]))


def _overlap(first: Tensor, second: Tensor) -> Tensor:
    """Share of the top classes that both sides have; classes without any weight do not count."""
    shared = ((first.unsqueeze(-1) == second.unsqueeze(-2)) & (first >= 0).unsqueeze(-1)).any(-1).sum(-1)
    return shared.double() / torch.maximum((first >= 0).sum(-1), (second >= 0).sum(-1)).clamp_(min=1)


def log_weights(view: View, weights: Tensor, dtype: torch.dtype = torch.float64) -> Tensor:
    """Logarithms of weights of a view, not normalised."""
    weights = weights.to(dtype)
    if isinstance(view, Counts):
        weights = weights + view.smoothing
    return weights.log() if isinstance(view, Counts | Probs) else weights


def label_measures(p: View, q: View, labels: Tensor, measured: Measured) -> dict[str, Tensor]:
    """Negative log-probability of the labels under both, and the difference."""
    at = labels.long().unsqueeze(-1)
    base, other = (
        (total - log_weights(view, view.tensor.gather(-1, at.to(view.tensor.device))).squeeze(-1).cpu()).clamp(min=0)
        for view, total in zip((p, q), measured.log_sums, strict=True)
    )
    difference = torch.where(base == other, 0.0, other - base)
    return {"nll_base": base, "nll_other": other, "nll_difference": difference}


def confidences(p: View, q: View, labels: Tensor, measured: Measured) -> list[tuple[Tensor, Tensor]]:
    """The largest probability of each row and whether its class is the label, for p and for q."""
    found = []
    for view, total, tops in zip((p, q), measured.log_sums, measured.tops, strict=True):
        best = tops[:, :1].clamp(min=0)
        largest = log_weights(view, view.tensor.gather(-1, best.to(view.tensor.device))).squeeze(-1).cpu()
        found.append(((largest - total).exp().clamp(max=1.0), best.squeeze(-1) == labels))
    return found


def temperature_slopes(p: View, q: View) -> Tensor:
    """Derivative of KL(p ‖ q^β / Z) in β at each of `INVERSE_TEMPERATURES`: (nodes, rows), 0 for rows without any.

    It is E_{q^β}[log q] − E_p[log q]; p counts where q has any weight. q^2β is the square of q^β, so that there are as
    many exponentials as steps in an octave. numpy adds in the same order on any number of threads and rows.
    """
    found = np.zeros((len(INVERSE_TEMPERATURES), len(q.tensor)))
    both = [log_weights(view, view.tensor, torch.float32).cpu().numpy() for view in (p, q)]
    parts = (-(-both[0].shape[-1] // _PART), _PART)
    for row, (all_of_p, all_of_q) in enumerate(zip(*both, strict=True)):
        log_p, log_q = np.full(parts, -math.inf, np.float32), np.full(parts, _NO_WEIGHT, np.float32)
        np.copyto(log_p.reshape(-1)[: len(all_of_p)], all_of_p, where=all_of_q > -math.inf)
        np.copyto(log_q.reshape(-1)[: len(all_of_q)], all_of_q, where=all_of_q > -math.inf)
        if not (log_p.max() > -math.inf):
            continue
        with np.errstate(over="ignore", invalid="ignore"):  # log-weights near the largest float give 0 below
            log_q -= log_q.max()
            weights = np.exp(log_p - log_p.max())
            expected = _mean(weights, log_q)
            for step in range(_STEPS_PER_OCTAVE):
                np.exp(np.multiply(np.float32(INVERSE_TEMPERATURES[step]), log_q, out=weights), out=weights)
                for node in range(step, len(found), _STEPS_PER_OCTAVE):
                    found[node, row] = _mean(weights, log_q) - expected
                    weights *= weights
    return torch.from_numpy(np.nan_to_num(found, nan=0.0, posinf=0.0, neginf=0.0))


def _mean(weights: np.ndarray, values: np.ndarray) -> np.float64:
    """The weighted mean; the parts are short enough for float32."""
    total = np.einsum("ij->i", weights).sum(dtype=np.float64)
    mean: np.float64 = np.einsum("ij,ij->i", weights, values).sum(dtype=np.float64) / total
    return mean


def _largest(values: Tensor, number: int) -> Tensor:
    """Where the largest values are: in the parts with the largest maxima, which are found far faster in long rows."""
    if len(values) % 128 or len(values) < 256 * number:
        return values.topk(number).indices
    parts = values.reshape(-1, 128)
    chosen = parts.amax(1).topk(number).indices
    at = parts[chosen].reshape(-1).topk(number).indices
    return chosen[at // 128] * 128 + at % 128


class OneRow(NamedTuple):
    """One row of both sides and, if they are known, the logarithms of the sums of its weights."""

    p: View
    q: View
    log_sums: Sequence[float]


def one_row(p: View, q: View, measured: Measured, at: int) -> OneRow:
    """A copy of one of the rows that were measured."""
    p, q = (view.with_tensor(view.tensor[at : at + 1].clone()) for view in (p, q))
    return OneRow(p, q, [float(total[at]) for total in measured.log_sums if len(total)])


def top_terms(row: OneRow, number: int) -> list[Term]:
    """The classes that add most to KL(p ‖ q) of a row."""
    p, q = row.p, row.q
    log_sums = row.log_sums or [float(total) for total in measure_rows(p, q, MEASURES, 1, labelled=True).log_sums]
    dtype = torch.promote_types(torch.promote_types(p.tensor.dtype, q.tensor.dtype), torch.float32)
    candidates = []
    for start in range(0, p.tensor.shape[-1], _CANDIDATE_CLASSES):
        a, b = (log_weights(view, view.tensor[0, start : start + _CANDIDATE_CLASSES], dtype) for view in (p, q))
        v = (b - a).sub_(log_sums[1] - log_sums[0]).nan_to_num_(nan=0.0, posinf=math.inf, neginf=-math.inf)
        # Where p is smaller than e^-85, that stands in for it, so that p φ(v) is q and nothing overflows.
        v = torch.minimum(v, b + (85.0 - log_sums[1]))
        rough = expm1mx(v).mul_((a - log_sums[0]).clamp_(min=-85.0).exp_())
        candidates.append(_largest(rough, min(4 * number, len(rough))) + start)
    near = torch.cat(candidates)
    log_p, log_q = (
        log_weights(view, view.tensor[0, near]) - total for view, total in zip((p, q), log_sums, strict=True)
    )
    terms = contributions(log_p, log_q)
    best = terms.topk(min(number, terms.numel())).indices.tolist()
    return [Term(int(near[i]), float(log_p[i].exp()), float(log_q[i].exp()), float(terms[i])) for i in best]
