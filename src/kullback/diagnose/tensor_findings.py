"""What looks wrong or remarkable in two views of tensors: one function per finding; called by `of_tensors.py`."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from kullback.diagnose.labels import Names
from kullback.diagnose.rows import log_probabilities, log_rows
from kullback.report.page import Finding
from kullback.tensors.views import View

_MAX_ELEMENTS = 1 << 22
_MAX_ROWS = 256
# Fewer rows of labels, numbers that a temperature explains, or classes are a coincidence or no news.
_MIN_LABELLED, _MIN_FREE, _MIN_REORDERED, _MIN_CLASSES = 4, 8, 16, 100
# The logarithm of a probability that changes no divergence.
_NEGLIGIBLE = -40.0


@dataclass(frozen=True)
class Compared:
    """Two views and what was computed of them.

    Attributes:
        p: As it is read.
        q: As it is read.
        batch: The broadcast batch shape.
        forward: KL(p ‖ q) of the kept rows, flat, float64.
        backward: KL(q ‖ p) of the kept rows.
        numbers: Flat numbers of the rows that are looked at closely.
        log_p: Their log-probabilities, (rows, classes), float64.
        log_q: The same of q.
    """

    p: View
    q: View
    batch: torch.Size
    forward: Tensor
    backward: Tensor
    numbers: Tensor
    log_p: Tensor
    log_q: Tensor

    @classmethod
    def of(cls, p: View, q: View, kept: Tensor | None, forward: Tensor, backward: Tensor) -> Compared:
        """Choose rows to look at: evenly spaced ones and the worst."""
        batch = forward.shape
        flat, back = forward.detach().double().flatten().cpu(), backward.detach().double().flatten().cpu()
        numbers = torch.arange(flat.numel()) if kept is None else kept.flatten().nonzero().flatten().cpu()
        classes = p.tensor.shape[p.dim]
        limit = max(min(_MAX_ROWS, _MAX_ELEMENTS // max(classes, 1)), 1)
        chosen = numbers[:: -(-numbers.numel() // limit) or 1]
        if numbers.numel():
            chosen = torch.unique(torch.cat([chosen, numbers[flat[numbers].argmax()].reshape(1)]))
        index = torch.unravel_index(chosen, batch) if batch else ()
        a, b = log_rows(p, batch)[index], log_rows(q, batch)[index]
        log_p, log_q = log_probabilities(p, a.reshape(-1, classes)), log_probabilities(q, b.reshape(-1, classes))
        return cls(p, q, batch, flat[numbers], back[numbers], chosen, log_p, log_q)

    def row_name(self, at: int) -> str:
        """Which row it is, in words."""
        if not self.batch:
            return "the row"
        index = torch.unravel_index(self.numbers[at], self.batch)
        return f"row {', '.join(str(int(i)) for i in index)}"


def find_in_tensors(compared: Compared, means: Tensor | None, names: Names) -> Iterator[Finding]:
    """Every finding that applies."""
    if not compared.forward.numel():
        yield Finding(
            "nothing-kept", "warning", "There is no row to compare: the batch is empty, or the mask keeps none."
        )
        return
    lost = list(_underflow(compared))
    yield from lost
    yield from _infinite(compared, names)
    yield from _identical(compared)
    if not lost:  # zeros that are rounding say nothing about the order
        yield from _swapped(compared)
    for check in (_one_sided, _shared_mask, _tempered, _reordered, _within_rounding):
        yield from check(compared)
    yield from _concentrated(means, names)
    yield from _torch_reductions(compared)


def _infinite(c: Compared, names: Names) -> Iterator[Finding]:
    for first, second, values, logs in (
        ("p", "q", c.forward, (c.log_p, c.log_q)),
        ("q", "p", c.backward, (c.log_q, c.log_p)),
    ):
        rows = int(values.isinf().sum())
        broken = (logs[0] > -math.inf) & (logs[1] == -math.inf)
        if not rows or not bool(broken.any()):
            continue
        at, k = (int(i) for i in broken.nonzero()[0])
        [name] = names.of([k])
        mass = float(logs[0][at, k].exp())
        yield Finding(
            f"infinite-{first}{second}",
            "warning" if first == "p" else "info",
            f"KL({first} ‖ {second}) is infinite in {rows} of {values.numel()} rows: {second} excludes classes that "
            f"{first} does not, such as class {name} in {c.row_name(at)}, where {first} is {mass:.4g} and {second} 0.",
            "Counts(x, smoothing=...) gives every class some mass; js(p, q) is finite; mask= leaves rows out"
            if first == "p"
            else "",
            {"rows": rows, "class": k, "mass": mass},
        )


def _identical(c: Compared) -> Iterator[Finding]:
    if bool((c.forward == 0).all()):
        yield Finding("identical", "info", "p and q are the same distribution in every row.")


def _swapped(c: Compared) -> Iterator[Finding]:
    infinite, finite = bool(c.forward.isinf().any()), bool(c.backward.isfinite().all())
    labels = [_looks_like_labels(logs) for logs in (c.log_p, c.log_q)]
    only_q = labels[1] and not labels[0] and (infinite or len(c.log_q) >= _MIN_LABELLED)
    if not (infinite and finite) and not only_q:
        return
    if labels[1]:
        why, remedy = "q looks like labels", "kl(q, p)"
    else:
        why = "q excludes classes, p does not; or a mask was applied to q alone"
        remedy = "kl(q, p), or the same mask on both sides"
    yield Finding(
        "looks-swapped",
        "warning",
        f"p and q look swapped: {why}. KL(q ‖ p) is {float(c.backward.mean()):.4g} nats on average. kl(p, q) takes "
        "first the distribution that the expectation is over (data, labels, teacher), then the model; F.kl_div "
        "takes them in the opposite order.",
        remedy,
        {"kl": float(c.forward.mean()), "reverse_kl": float(c.backward.mean())},
    )


def _looks_like_labels(logs: Tensor) -> bool:
    """Whether every row is one class, or one class and the same small probability for all others (smoothed labels)."""
    if logs.shape[-1] < 2:
        return False
    ordered = logs.exp().sort(-1).values
    top, others = ordered[..., -1], ordered[..., :-1]
    smoothed = (others[..., -1] - others[..., 0] < 1e-3 * top) & (top > 0.5) & (logs.shape[-1] > 2)
    return bool(((top > 0.999) | smoothed).all())


def _one_sided(c: Compared) -> Iterator[Finding]:
    forward, backward = float(c.forward.mean()), float(c.backward.mean())
    if not (math.isfinite(forward) and math.isfinite(backward) and min(forward, backward) > 1e-12):
        return
    yield from one_sided(forward, backward)


def one_sided(forward: float, backward: float) -> Iterator[Finding]:
    """A finding if one direction is many times the other."""
    ratio = backward / forward
    if 1 / 10 < ratio < 10:
        return
    if ratio >= 10:
        message = (
            f"Reverse KL is {ratio:.3g}× larger: KL(q ‖ p) is {backward:.4g} nats, KL(p ‖ q) {forward:.4g}. q has mass "
            "where p has almost none. Minimising KL(q ‖ p) over q would make it give that up (mode-seeking)."
        )
    else:
        message = (
            f"Forward KL is {1 / ratio:.3g}× larger: KL(p ‖ q) is {forward:.4g} nats, KL(q ‖ p) {backward:.4g}. p has "
            "mass where q has almost none. Minimising KL(p ‖ q) over q would make it cover that (mass-covering)."
        )
    yield Finding("one-sided", "info", message, evidence={"kl": forward, "reverse_kl": backward, "ratio": ratio})


def _underflow(c: Compared) -> Iterator[Finding]:
    for name, view, own, other in (("p", c.p, c.log_p, c.log_q), ("q", c.q, c.log_q, c.log_p)):
        dtype = view.tensor.dtype
        if view.kind != "Probs" or dtype == torch.float64:
            continue
        zero = (own == -math.inf) & (other > -math.inf)
        few = int(zero.sum())
        tiny = math.log(torch.finfo(dtype).tiny)
        # Zeros where the other side is around or below the smallest number of this dtype are rounding, not support; so
        # are zeros beside numbers that are below the smallest normal one: the tail of a softmax ends there.
        seen = bool((other[zero] < tiny + 12).any()) and not bool((other[zero] > math.log(1e-3)).any())
        if few and (seen or bool(((own > -math.inf) & (own < tiny)).any())):
            short = str(dtype).removeprefix("torch.")
            yield Finding(
                "underflow",
                "warning",
                f"{short} underflow: {few} probabilities of {name} are 0 where the other side has up to "
                f"{float(other[zero].exp().max()):.3g}; the smallest normal {short} is {torch.finfo(dtype).tiny:.3g}.",
                f"Logits of {name} before the softmax, or LogProbs from log_softmax in float32",
                {"argument": name, "zeros": few, "dtype": short},
            )


def _shared_mask(c: Compared) -> Iterator[Finding]:
    shared = (c.log_p == -math.inf) & (c.log_q == -math.inf)
    entries = int(shared.sum())
    if entries:
        yield Finding(
            "shared-mask",
            "info",
            f"Shared mask ignored: {entries} of {shared.numel()} entries are excluded on both sides and add exactly 0. "
            "F.kl_div gives NaN for them, and torch.distributions a NaN gradient.",
            evidence={"entries": entries},
        )


def _tempered(c: Compared) -> Iterator[Finding]:
    """Whether one side is a power of the other: softmax of the same logits at another temperature."""
    if c.log_p.shape[-1] < 3 or bool((c.forward == 0).all()):
        return
    rows = ((c.log_p > -math.inf) == (c.log_q > -math.inf)).all(-1)
    log_p, log_q = (torch.where(x == -math.inf, -1e9, x)[rows] for x in (c.log_p, c.log_q))
    if not log_p.numel() or float(c.backward.median()) < 1e-8:
        return
    power = _best_power(log_p, log_q)
    fitted = (log_p * power).log_softmax(-1)
    left = float((log_q.exp() * (log_q - fitted)).sum(-1).mean())
    before = float((log_q.exp() * (log_q - log_p)).sum(-1).mean())
    # One number that explains a few is no surprise.
    free = log_p.shape[0] * (log_p.shape[-1] - 2)
    enough = 0.05 if free >= _MIN_FREE else 1e-4 if free >= 2 else 0.0
    if left < enough * before and abs(math.log(power)) > 0.02:
        warm, cool = ("q", "p") if power < 1 else ("p", "q")
        temperature = 1 / power if power < 1 else power
        yield Finding(
            "tempered",
            "warning",
            f"One side looks tempered: {warm} is close to {cool} at temperature {temperature:.3g}, which explains "
            f"{100 * (1 - left / before):.3g} % of KL(q ‖ p).",
            "the same temperature on both sides, if the temperature is not what you compare",
            {"side": warm, "temperature": temperature, "explained": 1 - left / before},
        )


def _best_power(log_p: Tensor, log_q: Tensor) -> float:
    """The b that minimises the mean KL(q ‖ pᵇ/Z): a convex function of b, whose derivative is bisected in log b."""
    target = (log_q.exp() * log_p).sum(-1).mean()
    low, high = math.log(0.01), math.log(100.0)
    for _ in range(60):
        middle = (low + high) / 2
        tilted = (log_p * math.exp(middle)).log_softmax(-1)
        below = bool((tilted.exp() * log_p).sum(-1).mean() < target)
        low, high = (middle, high) if below else (low, middle)
    return math.exp((low + high) / 2)


def _reordered(c: Compared) -> Iterator[Finding]:
    if c.log_p.shape[-1] < 3:
        return
    sorted_p, sorted_q = (logs.sort(-1).values.exp() for logs in (c.log_p, c.log_q))
    apart = (c.log_p.exp() - c.log_q.exp()).abs().sum(-1).mean() / 2
    after = (sorted_p - sorted_q).abs().sum(-1).mean() / 2
    # Two distributions of one class each are always the same numbers in another order.
    spread = float(_perplexity(c.log_p).mean())
    if spread > 2 and sorted_p.numel() >= _MIN_REORDERED and float(apart) > 0.05 and float(after) < 0.01 * float(apart):
        yield Finding(
            "reordered",
            "warning",
            "p and q hold the same probabilities in another order: are the classes in the same order on both sides "
            "(another tokenizer, another label map)?",
            "reorder one side: q[..., index]",
            {"total_variation": float(apart), "total_variation_sorted": float(after)},
        )


def _perplexity(logs: Tensor) -> Tensor:
    return torch.exp(torch.special.entr(logs.exp()).sum(-1))


def _within_rounding(c: Compared) -> Iterator[Finding]:
    coarse = max((v.tensor.dtype for v in (c.p, c.q)), key=lambda dtype: torch.finfo(dtype).eps)
    eps = torch.finfo(coarse).eps
    # Probabilities are rounded in proportion to themselves, logarithms in proportion to the logarithm.
    logs = [logs for view, logs in ((c.p, c.log_p), (c.q, c.log_q)) if view.kind in ("Logits", "LogProbs")]
    largest = max((float(each[each > _NEGLIGIBLE].abs().max()) for each in logs), default=1.0)
    expected = (eps * max(largest, 1.0)) ** 2
    value = float(c.forward.max())
    if 0 < value < expected:
        short = str(coarse).removeprefix("torch.")
        yield Finding(
            "within-rounding",
            "info",
            f"The largest KL, {value:.3g} nats, is no larger than rounding to {short} alone makes it: p and q agree "
            f"as far as {short} can tell.",
            evidence={"largest": value, "of_rounding": expected},
        )


def _concentrated(means: Tensor | None, names: Names) -> Iterator[Finding]:
    if means is None or means.numel() < _MIN_CLASSES or not bool(means.isfinite().all()) or float(means.sum()) <= 0:
        return
    ordered = means.sort(descending=True)
    shares = ordered.values.cumsum(0) / ordered.values.sum()
    needed = int((shares < 0.8).sum()) + 1
    if needed <= max(3, means.numel() // 1000):
        which = ", ".join(names.of(ordered.indices[: min(needed, 5)].tolist()))
        whole = "All" if float(shares[needed - 1]) > 0.995 else f"{100 * float(shares[needed - 1]):.3g} %"
        yield Finding(
            "concentrated",
            "info",
            f"{whole} of the difference sits in {needed} of {means.numel():,} classes: {which}.",
            evidence={"classes": ordered.indices[:needed].tolist(), "share": float(shares[needed - 1])},
        )


def _torch_reductions(c: Compared) -> Iterator[Finding]:
    """What torch's reductions make of the same numbers; they divide by something else than the number of rows."""
    classes, rows = c.p.tensor.shape[c.p.dim], c.forward.numel()
    total = float(c.forward.sum())
    if rows < 2 or not math.isfinite(total) or total <= 0:
        return
    said = f'"mean" divides by all {rows * classes} elements and gives {total / (rows * classes):.4g}'
    if len(c.batch) > 1:
        said += f', "batchmean" divides by the first dimension, {c.batch[0]}, and gives {total / c.batch[0]:.4g}'
    yield Finding(
        "torch-reductions",
        "info",
        f"The mean per row is {total / rows:.4g} nats. With F.kl_div, reduction={said}.",
        'kl(p, q, reduction="mean")',
        {"mean_per_row": total / rows, "torch_mean": total / (rows * classes)},
    )
