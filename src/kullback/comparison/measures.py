"""Measures of a chunk of rows: divergences, agreement of the top classes, labels, temperature; for `accumulator.py`."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from kullback._core.errors import InputTypeError, InputValueError, explain_problem
from kullback._core.validation import check_rows, sum_tolerance
from kullback.api.js import js
from kullback.api.kl import kl
from kullback.api.total_variation import total_variation
from kullback.diagnose.rows import contributions, log_probabilities
from kullback.kernels.measure_rows import RowMeasures, native_measures
from kullback.tensors.views import Counts, Probs, View

DIVERGENCES = ("kl", "reverse_kl", "js", "total_variation")
AGREEMENT = ("top1", "topk_overlap")
MEASURES = (*DIVERGENCES, *AGREEMENT)
# β = 1/T at which the derivative of KL(p ‖ q^β) is recorded: 1/4 to 4.
_STEPS_PER_OCTAVE = 4
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


def log_weights(view: View, weights: Tensor) -> Tensor:
    """Logarithms of weights of a view in float64, not normalised."""
    weights = weights.double()
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
    both = [log_weights(view, view.tensor).float().cpu().numpy() for view in (p, q)]
    for row, (all_of_p, all_of_q) in enumerate(zip(*both, strict=True)):
        held = all_of_q > -math.inf
        log_p, log_q = all_of_p[held], all_of_q[held]
        if not (log_p > -math.inf).any():
            continue
        with np.errstate(over="ignore", invalid="ignore"):  # log-weights near the largest float give 0 below
            log_q = log_q - log_q.max()
            weights = np.exp(log_p - log_p.max())
            expected = (weights * log_q).sum() / weights.sum()
            for step in range(_STEPS_PER_OCTAVE):
                weights = np.exp(np.float32(INVERSE_TEMPERATURES[step]) * log_q)
                for node in range(step, len(found), _STEPS_PER_OCTAVE):
                    found[node, row] = (weights * log_q).sum() / weights.sum() - expected
                    weights *= weights
    return torch.from_numpy(np.nan_to_num(found, nan=0.0, posinf=0.0, neginf=0.0))


def top_terms(p: View, q: View, row: int, number: int) -> list[Term]:
    """The classes that add most to KL(p ‖ q) of one row."""
    log_p, log_q = (log_probabilities(v, v.tensor[row : row + 1])[0] for v in (p, q))
    # The plain formula finds the candidates; its rounding does not matter for those, and it is far faster.
    p_values = log_p.exp()
    rough = (p_values * (log_p - log_q)).nan_to_num(nan=0.0, posinf=math.inf) - p_values + log_q.exp()
    near = rough.topk(min(4 * number, rough.numel())).indices
    log_p, log_q = log_p[near], log_q[near]
    terms = contributions(log_p, log_q)
    best = terms.topk(min(number, terms.numel())).indices.tolist()
    return [Term(int(near[i]), float(log_p[i].exp()), float(log_q[i].exp()), float(terms[i])) for i in best]
