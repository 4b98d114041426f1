"""Measures of a chunk of rows: divergences, agreement of the top classes, labels, temperature; for `accumulator.py`."""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor

from kullback._core.errors import InputTypeError, InputValueError, explain_problem
from kullback.api.js import js
from kullback.api.kl import kl
from kullback.diagnose.rows import contributions, log_probabilities
from kullback.tensors.views import Counts, Probs, View

DIVERGENCES = ("kl", "reverse_kl", "js", "total_variation")
AGREEMENT = ("top1", "topk_overlap")
MEASURES = (*DIVERGENCES, *AGREEMENT)
LABEL_MEASURES = ("nll_base", "nll_other", "nll_difference")
# β = 1/T at which the derivative of KL(p ‖ q^β) is recorded: 1/4 to 4, four steps per octave.
INVERSE_TEMPERATURES = tuple(2.0 ** (step / 4) for step in range(-8, 9))


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


def usable(p: View, q: View) -> tuple[Tensor | None, Tensor]:
    """Which rows can be compared, None if all can; and KL(p ‖ q) of all rows, 0 where they cannot.

    Raises:
        InputValueError: If rows that are finite are not what the view says.
    """
    try:
        return None, kl(p, q, validate="sync")
    except InputValueError:
        good = ~(unusable_rows(p) | unusable_rows(q))
        return good, kl(p, q, mask=good, validate="sync")  # names what else is wrong


def row_measures(p: View, q: View, forward: Tensor, wanted: tuple[str, ...], top_k: int) -> dict[str, Tensor]:
    """One float64 number per row for each measure; the rows must be usable, and `forward` is their KL(p ‖ q)."""
    found: dict[str, Tensor] = {"kl": forward}
    if "reverse_kl" in wanted:
        found["reverse_kl"] = kl(q, p, validate=False)
    if "js" in wanted:
        found["js"] = js(p, q, validate=False)
    if "total_variation" in wanted:
        found["total_variation"] = _total_variation(p, q)
    if "topk_overlap" in wanted:
        first, second = (v.tensor.topk(min(top_k, v.tensor.shape[-1]), dim=-1).indices for v in (p, q))
        shared = (first.unsqueeze(-1) == second.unsqueeze(-2)).any(-1).sum(-1)
        found["topk_overlap"] = shared / first.shape[-1]
    if "top1" in wanted:
        found["top1"] = p.tensor.argmax(-1) == q.tensor.argmax(-1)
    return {name: found[name].double().cpu() for name in wanted}


def _total_variation(p: View, q: View) -> Tensor:
    """½ Σ|p − q| as ½ Σ max(p, q)(1 − e^-|d|) with d = log p − log q, which keeps its digits where p ≈ q."""
    log_p, log_q = _log_rows(p), _log_rows(q)
    higher = torch.maximum(log_p, log_q)
    gap = (torch.minimum(log_p, log_q) - higher).nan_to_num_(nan=0.0, neginf=-math.inf)
    return higher.exp_().mul_(gap.expm1_()).sum(-1).mul_(-0.5).clamp_(0.0, 1.0)


def _log_rows(view: View) -> Tensor:
    """Normalised log-probabilities in float32, or float64 where the rows have it."""
    rows = view.tensor if view.tensor.dtype == torch.float64 else view.tensor.float()
    if isinstance(view, Counts):
        rows = rows + view.smoothing
    if isinstance(view, Counts | Probs):
        return rows.log() - rows.sum(-1, keepdim=True).log()
    return rows.log_softmax(-1)


def label_measures(p: View, q: View, labels: Tensor) -> dict[str, Tensor]:
    """Negative log-probability of the labels under both, and the difference; top-1 confidence and hits beside it."""
    at = labels.long().unsqueeze(-1)
    base, other = (-_log_rows(v).gather(-1, at).squeeze(-1).double() for v in (p, q))
    difference = torch.where(base == other, 0.0, other - base)
    return {"nll_base": base, "nll_other": other, "nll_difference": difference}


def confidence(view: View, labels: Tensor) -> tuple[Tensor, Tensor]:
    """The largest probability of each row, and whether its class is the label."""
    top = _log_rows(view).max(-1)
    return top.values.double().exp(), top.indices == labels


def temperature_slopes(p: View, q: View) -> Tensor:
    """First and second derivative in β of Σ_rows KL(p ‖ q^β / Z), at each of `INVERSE_TEMPERATURES`: (nodes, 2).

    The derivative is E_{q^β}[log q] − E_p[log q], the second the variance of log q under q^β.
    """
    log_p, log_q = log_probabilities(p, p.tensor), log_probabilities(q, q.tensor)
    inside = log_q > -math.inf
    values = torch.where(inside, log_q, 0.0)
    weight = torch.where(inside, log_p, -math.inf).softmax(-1)
    target = (weight * values).sum(-1)
    found = []
    for power in INVERSE_TEMPERATURES:
        share = torch.where(inside, power * log_q, -math.inf).softmax(-1)
        mean = (share * values).sum(-1)
        spread = (share * (values - mean.unsqueeze(-1)).square()).sum(-1)
        found.append(torch.stack([mean - target, spread]).nan_to_num().sum(-1))
    return torch.stack(found)


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
