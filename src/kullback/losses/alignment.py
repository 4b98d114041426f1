"""Do two sets of log-probabilities of the same tokens belong to the same model? Called by users at step 0."""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
from torch import Tensor

from kullback.losses.arguments import check_no_nan, check_rows_options, check_same_shape, check_tensor

_MAX_SHIFT = 64  # tokens along time that are tried
_SHIFT_ERROR = 0.01  # a shift explains the differences where it leaves less of their mean square


@dataclass(frozen=True)
class AlignmentReport:
    """The result of `check_log_prob_alignment`; true in a condition where nothing was found.

    Attributes:
        max_difference: Largest |log_prob − other| over the tokens that count.
        mean_difference: Mean of log_prob − other: k1 at step 0, which should be 0.
        worst: Index of the largest difference.
        temperature: Best-fit temperature of `other`, where logits and tokens are given.
        findings: What is wrong, in sentences.
    """

    max_difference: float
    mean_difference: float
    worst: tuple[int, ...]
    temperature: float | None = None
    findings: list[str] = field(default_factory=list)

    def __bool__(self) -> bool:
        return not self.findings

    def __str__(self) -> str:
        head = f"largest difference {self.max_difference:.3g} at {self.worst}, mean {self.mean_difference:+.3g}"
        return "\n".join([head, *(f"- {finding}" for finding in self.findings or ["aligned"])])


def check_log_prob_alignment(
    log_prob: Tensor,
    other_log_prob: Tensor,
    *,
    logits: Tensor | None = None,
    tokens: Tensor | None = None,
    mask: Tensor | None = None,
    tolerance: float = 1e-4,
) -> AlignmentReport:
    """Compare log-probabilities of the same tokens that should agree: a model with itself at step 0.

    Args:
        log_prob: From the trainer, (..., time).
        other_log_prob: From the rollout engine, or from the reference that is still the same model.
        logits: Of the trainer, (..., time, vocabulary), to find the temperature.
        tokens: The sampled tokens, (..., time), with `logits`.
        mask: Boolean per token: True counts.
        tolerance: Differences up to this are rounding.

    Example:
        >>> import torch
        >>> logits = torch.randn(2, 6, 5, generator=torch.Generator().manual_seed(0))
        >>> tokens = torch.tensor([[0, 1, 2, 3, 4, 0], [1, 1, 3, 0, 2, 4]])
        >>> def of(logits): return logits.log_softmax(-1).gather(-1, tokens[..., None])[..., 0]
        >>> bool(check_log_prob_alignment(of(logits), of(logits)))
        True
        >>> report = check_log_prob_alignment(of(logits), of(logits / 0.7), logits=logits, tokens=tokens)
        >>> round(report.temperature, 3)
        0.7
    """
    given = {"log_prob": log_prob, "other_log_prob": other_log_prob}
    for name, tensor in given.items():
        check_tensor("check_log_prob_alignment", name, tensor)
    check_same_shape("check_log_prob_alignment", given)
    check_rows_options(mask, None, log_prob.shape)
    for name, tensor in given.items():
        check_no_nan("check_log_prob_alignment", name, tensor, mask)
    keep = torch.ones_like(log_prob, dtype=torch.bool) if mask is None else mask.expand(log_prob.shape)
    own, other = (torch.where(keep, x.detach().double(), 0.0) for x in (log_prob, other_log_prob))
    difference = torch.where(own == other, 0.0, own - other)
    if not bool(keep.any()):
        return AlignmentReport(0.0, 0.0, (), None, ["no token counts: the mask is False everywhere"])
    size = difference.abs()
    place = int(size.argmax())
    worst = tuple(int(i) for i in torch.unravel_index(torch.tensor(place), size.shape))
    largest, mean = float(size.max()), float(difference.sum() / keep.sum())
    temperature = None
    findings: list[str] = []
    if largest > tolerance:
        if logits is not None and tokens is not None:
            temperature = _best_temperature(logits.detach().double(), tokens, other, keep)
        findings = _causes(own, other, keep, temperature, tolerance)
    return AlignmentReport(largest, mean, worst, temperature, findings)


def _causes(own: Tensor, other: Tensor, keep: Tensor, temperature: float | None, tolerance: float) -> list[str]:
    found = []
    size = (own - other).abs()
    if temperature is not None and abs(temperature - 1) > 0.01:
        found.append(f"temperature: other_log_prob fits a temperature of {temperature:.4g}; divide the logits by it")
    found += _shift(own, other, keep)
    for name, x, y in (("other_log_prob", other, own), ("log_prob", own, other)):
        empty = keep & (x == 0) & (y < -tolerance)
        if bool(empty.any()):
            share = 100 * float(empty.sum() / keep.sum())
            found.append(f"padding: {name} is exactly 0 at {share:.3g} % of the tokens that count; mask= them")
    drift = 0.02 * (1 + own.abs())
    if not found and bool((size <= drift)[keep].all()):
        found.append("precision: differences of rounding size; compute both sides in float32")
    return found or ["another model, tokenizer or prompt: the differences follow no known pattern"]


def _shift(own: Tensor, other: Tensor, keep: Tensor) -> list[str]:
    """Whether a shift along time explains the differences: one for all sequences, or one for each."""
    if own.dim() == 0 or own.shape[-1] < 3:
        return []
    own, other, keep = (t.reshape(-1, t.shape[-1]) for t in (own, other, keep))
    largest = min(_MAX_SHIFT, own.shape[-1] - 2)
    shifts = [0, *(sign * size for size in range(1, largest + 1) for sign in (1, -1))]
    squares, counts = (torch.stack(found) for found in zip(*(_fit(own, other, keep, s) for s in shifts), strict=True))
    # Few tokens fit some shift by chance: a shift counts where at least half of the tokens overlap.
    enough = counts * 2 >= counts[:1]
    total = torch.where(enough.all(1), squares.sum(1) / counts.sum(1).clamp_min(1), torch.inf)
    best = int(total[1:].argmin()) + 1
    if total[best] < _SHIFT_ERROR * total[0]:
        tokens, side = abs(shifts[best]), "later" if shifts[best] > 0 else "earlier"
        name = "one token" if tokens == 1 else f"{tokens} tokens"
        return [f"shifted labels: log_prob stands {name} {side} than other_log_prob"]
    rows = counts[0] > 0
    each = torch.where(enough, squares / counts.clamp_min(1), torch.inf)[:, rows]
    places = each.argmin(0)
    if bool((each.amin(0) <= _SHIFT_ERROR * total[0]).all()) and bool((places > 0).any()):
        found = sorted(shifts[place] for place in places.tolist())
        where = f"{found[0]} to {found[-1]} tokens later than other_log_prob, not the same in all sequences"
        return [f"padding: log_prob stands {where}, as where one side pads on the left and the other on the right"]
    return []


def _fit(own: Tensor, other: Tensor, keep: Tensor, shift: int) -> tuple[Tensor, Tensor]:
    """The sum of squared differences and the number of tokens of every sequence, with `own` moved back by `shift`."""
    time = own.shape[-1]
    late, early = slice(max(shift, 0), time + min(shift, 0)), slice(max(-shift, 0), time + min(-shift, 0))
    both = keep[:, late] & keep[:, early]
    difference = torch.where(both, own[:, late] - other[:, early], 0.0)
    return (difference**2).nan_to_num(torch.inf).sum(-1), both.sum(-1)


def _best_temperature(logits: Tensor, tokens: Tensor, other: Tensor, keep: Tensor) -> float:
    """The temperature whose log-probabilities are nearest to `other`, by golden-section search in log T."""

    def loss(log_temperature: float) -> float:
        log_probs = (logits / torch.tensor(log_temperature).exp()).log_softmax(-1)
        chosen = log_probs.gather(-1, tokens.unsqueeze(-1)).squeeze(-1)
        return float(((chosen - other)[keep] ** 2).sum())

    low, high, ratio = -3.0, 3.0, 0.6180339887498949
    for _ in range(60):
        left, right = high - ratio * (high - low), low + ratio * (high - low)
        low, high = (low, right) if loss(left) < loss(right) else (left, high)
    return float(torch.tensor((low + high) / 2).exp())
