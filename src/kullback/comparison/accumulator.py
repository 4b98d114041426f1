"""`KLAccumulator`: statistics of divergences per row over any number of batches, files and processes."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from kullback._core.errors import InputTypeError, InputValueError, ShapeError, explain_problem
from kullback.comparison import measures as of_rows
from kullback.comparison.curves import Bins
from kullback.comparison.summary import Summary, exact_sums
from kullback.comparison.worst import WorstRows
from kullback.tensors.views import View

if TYPE_CHECKING:
    from kullback.comparison.result import Comparison

_VERSION = 3
_MAX_LISTED = 8


class KLAccumulator:
    """Collects KL(p ‖ q) and other measures of rows, batch by batch, for training and evaluation loops.

    Means, variances and counts do not depend on the order of updates and merges: the sums are exact. Quantiles are
    exact up to 65,536 rows and within a factor of 1 ± 0.001 of a value of that rank beyond. Memory does not grow with
    the number of rows.

    Args:
        measures: Which of "kl", "reverse_kl", "js", "total_variation", "top1" and "topk_overlap" to compute. "kl" is
            always computed and by itself the fastest.
        top_k: How many classes the overlap compares.
        block_rows: Rows of a block for standard errors that allow for correlation, where `update` gets no blocks.
        worst: How many of the rows with the largest KL are kept, with the classes that add most.
        temperature_every: The best-fit temperature looks at one row in so many; 0 for none.
        first_row: The number of the first row, where this process sees a part of the rows.

    Example:
        >>> import torch
        >>> from kullback import KLAccumulator, Logits
        >>> accumulator = KLAccumulator()
        >>> for batch in range(4):
        ...     teacher = torch.linspace(0, 3, 20).reshape(4, 5) + batch
        ...     accumulator.update(Logits(teacher), Logits(teacher.flip(-1)))
        >>> result = accumulator.compute()
        >>> result.rows, f"{result.kl.mean:.6f}"
        (16, '0.098661')
    """

    def __init__(
        self,
        *,
        measures: Sequence[str] = of_rows.MEASURES,
        top_k: int = 10,
        block_rows: int = 256,
        worst: int = 10,
        temperature_every: int = 64,
        first_row: int = 0,
    ) -> None:
        if top_k < 1 or block_rows < 1 or worst < 0 or temperature_every < 0:
            raise InputValueError(
                explain_problem(
                    "top_k and block_rows are at least 1, worst and temperature_every at least 0.",
                    got=f"top_k={top_k}, block_rows={block_rows}, worst={worst}, temperature_every={temperature_every}",
                )
            )
        self.measures = of_rows.check_measures(tuple(measures))
        self.top_k, self.block_rows, self.worst_rows = top_k, block_rows, worst
        self.temperature_every, self.first_row = temperature_every, first_row
        self.reset()

    def reset(self) -> None:
        """Forget all rows."""
        self.seen = 0  # rows handed over, whether kept or not
        self.rows = 0
        self.zero = 0
        self.invalid = 0
        self.invalid_rows: list[int] = []
        self.infinite_rows: list[int] = []
        self.classes = 0
        self.summaries: dict[str, Summary] = {}
        self.worst = WorstRows(self.worst_rows)
        self.slopes, self.slope_squares = ([0] * len(of_rows.INVERSE_TEMPERATURES) for _ in range(2))
        self.slope_rows = 0
        self.positions = Bins()
        self.calibration = {"base": Bins(), "other": Bins()}
        self.last: dict[str, np.ndarray] = {}

    def update(
        self,
        p: View,
        q: View,
        *,
        mask: Tensor | None = None,
        labels: Tensor | None = None,
        blocks: Tensor | None = None,
        positions: Tensor | None = None,
    ) -> None:
        """Add rows. Rows with NaN are counted and left out; `compute` reports them.

        Args:
            p: `Logits`, `LogProbs`, `Probs` or `Counts` of the base, any number of batch dimensions.
            q: The same of the other, of the same shape.
            mask: Boolean per row: True keeps a row.
            labels: The right class of each row, for perplexities; negative labels are left out (-100 is torch's).
            blocks: An integer per row that says to which document or chunk it belongs.
            positions: The place of each row in its context, a number from 0 to 1.
        """
        p, q = of_rows.flat_rows(p), of_rows.flat_rows(q)
        if p.tensor.shape != q.tensor.shape:
            raise ShapeError(
                explain_problem(
                    "Both sides have the same rows and classes.",
                    got=f"{tuple(p.tensor.shape)} and {tuple(q.tensor.shape)} (rows, classes)",
                    expected="equal shapes",
                    instead="kb.align(p, q) where only the number of classes differs",
                )
            )
        count = p.tensor.shape[0]
        numbers = np.arange(self.first_row + self.seen, self.first_row + self.seen + count)
        of_block = numbers // self.block_rows if blocks is None else _per_row("blocks", blocks, count).numpy()
        chosen = torch.ones(count, dtype=torch.bool) if mask is None else _per_row("mask", mask, count)
        if chosen.dtype != torch.bool:
            raise InputTypeError(f"mask is boolean, True keeps a row; got {chosen.dtype}.")
        self.seen += count
        self.last = {}
        self.classes = p.tensor.shape[-1]
        if mask is not None:
            p, q = p.with_tensor(p.tensor[chosen]), q.with_tensor(q.tensor[chosen])
        if not bool(chosen.any()):
            return
        try:
            measured = self._measure(p, q, labels)
        except InputValueError:
            good = ~(of_rows.unusable_rows(p) | of_rows.unusable_rows(q))
            if bool(good.all()):  # something else is wrong
                raise
            bad = numbers[chosen.numpy()][~good.cpu().numpy()]
            self.invalid += len(bad)
            self.invalid_rows = sorted([*self.invalid_rows, *bad.tolist()])[:_MAX_LISTED]
            p, q = p.with_tensor(p.tensor[good]), q.with_tensor(q.tensor[good])
            chosen[chosen.clone()] = good.cpu()
            if not bool(chosen.any()):
                return
            measured = self._measure(p, q, labels)
        kept = chosen.numpy()
        self._add(p, q, measured, numbers[kept], of_block[kept])
        if positions is not None:
            self.positions.add(_per_row("positions", positions, count).numpy()[kept], measured.found["kl"].numpy())
        if labels is not None:
            self._add_labels(p, q, _per_row("labels", labels, count)[chosen], measured, of_block[kept])

    def _measure(self, p: View, q: View, labels: Tensor | None) -> of_rows.Measured:
        return of_rows.measure_rows(p, q, self.measures, self.top_k, labelled=labels is not None)

    def _add(self, p: View, q: View, measured: of_rows.Measured, numbers: np.ndarray, blocks: np.ndarray) -> None:
        found = {name: values.numpy() for name, values in measured.found.items()}
        self.rows += len(numbers)
        self.last = {"row": numbers, "block": blocks, "kl": found["kl"]}
        self.zero += int((found["kl"] == 0).sum())
        for name, values in found.items():
            self.summaries.setdefault(name, Summary()).add(values, blocks)
        infinite = numbers[np.isinf(found["kl"])].tolist()
        self.infinite_rows = sorted([*self.infinite_rows, *infinite])[:_MAX_LISTED]
        for at in self.worst.candidates(found["kl"], numbers):
            self.worst.add(float(found["kl"][at]), int(numbers[at]), (), of_rows.one_row(p, q, measured, at))
        every = self.temperature_every
        for at in np.flatnonzero(numbers % every == 0).tolist() if every else ():
            slopes = of_rows.temperature_slopes(*(v.with_tensor(v.tensor[at : at + 1]) for v in (p, q))).numpy()[:, 0]
            self.slope_rows += 1
            for totals, added in ((self.slopes, slopes), (self.slope_squares, slopes * slopes)):
                for node, total in exact_sums(added, np.arange(len(added))).items():
                    totals[node] += total

    def _add_labels(self, p: View, q: View, labels: Tensor, measured: of_rows.Measured, blocks: np.ndarray) -> None:
        if int(labels.max()) >= self.classes:
            raise InputValueError(
                explain_problem(
                    "A label is not one of the classes.", got=str(int(labels.max())), expected=f"< {self.classes}"
                )
            )
        given = (labels >= 0).numpy()
        if not given.any():
            return
        labels = labels.clamp(min=0)
        for name, values in of_rows.label_measures(p, q, labels, measured).items():
            self.summaries.setdefault(name, Summary()).add(values.numpy()[given], blocks[given])
        sides = of_rows.confidences(p, q, labels, measured)
        for side, (sure, hit) in zip(("base", "other"), sides, strict=True):
            self.calibration[side].add(sure.numpy()[given], hit.double().numpy()[given])

    def merge(self, other: KLAccumulator) -> None:
        """Add what another accumulator holds, of another process or part of the data.

        Rows of both that started to count at 0 share their numbers; give the second one `first_row=`.
        """
        if not isinstance(other, KLAccumulator):
            raise InputTypeError(f"merge() takes a KLAccumulator, not a {type(other).__name__}.")
        mine, theirs = self._settings(), other._settings()
        if mine != theirs:
            raise InputValueError(
                explain_problem("Only accumulators with the same settings merge.", got=str(theirs), expected=str(mine))
            )
        if self.rows and other.rows and self.classes != other.classes:
            raise ShapeError(f"One accumulator saw {self.classes} classes, the other {other.classes}.")
        self.classes = self.classes or other.classes
        for name in ("seen", "rows", "zero", "invalid", "slope_rows"):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        for name in ("invalid_rows", "infinite_rows"):
            setattr(self, name, sorted([*getattr(self, name), *getattr(other, name)])[:_MAX_LISTED])
        for name, summary in other.summaries.items():
            self.summaries.setdefault(name, Summary()).merge(summary)
        self.worst.merge(other.worst)
        for name in ("slopes", "slope_squares"):
            setattr(self, name, [a + b for a, b in zip(getattr(self, name), getattr(other, name), strict=True)])
        self.positions.merge(other.positions)
        for side, bins in other.calibration.items():
            self.calibration[side].merge(bins)

    def compute(self) -> Comparison:
        """The statistics of all rows so far; more rows may follow."""
        from kullback.comparison.result import comparison_of

        return comparison_of([("q", self)], base="p")

    def _settings(self) -> dict[str, Any]:
        return {
            "measures": list(self.measures),
            "top_k": self.top_k,
            "block_rows": self.block_rows,
            "worst": self.worst_rows,
            "temperature_every": self.temperature_every,
        }

    def state_dict(self) -> dict[str, Any]:
        """Everything that was collected, as numbers, strings and lists: it can be written as JSON."""
        return {
            "format": "kullback-accumulator",
            "version": _VERSION,
            "settings": self._settings(),
            "first_row": self.first_row,
            "counts": [self.seen, self.rows, self.zero, self.invalid, self.slope_rows, self.classes],
            "invalid_rows": self.invalid_rows,
            "infinite_rows": self.infinite_rows,
            "summaries": {name: summary.state() for name, summary in self.summaries.items()},
            "worst": self.worst.state(),
            "slopes": [*map(hex, self.slopes)],
            "slope_squares": [*map(hex, self.slope_squares)],
            "positions": self.positions.state(),
            "calibration": {side: bins.state() for side, bins in self.calibration.items()},
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from what `state_dict` gave; settings become those of the state.

        Raises:
            InputValueError: If it is not such a state, or its numbers contradict each other.
        """
        if not isinstance(state, Mapping) or state.get("format") != "kullback-accumulator":
            raise InputValueError("This is not the state of a KLAccumulator.")
        if state.get("version") != _VERSION:
            raise InputValueError(f"The state has version {state.get('version')!r}; this kullback reads {_VERSION}.")
        try:
            loaded = KLAccumulator(**state["settings"], first_row=int(state["first_row"]))
            counts = [int(number) for number in state["counts"]]
            loaded.seen, loaded.rows, loaded.zero, loaded.invalid, loaded.slope_rows, loaded.classes = counts
            loaded.invalid_rows = [int(row) for row in state["invalid_rows"]]
            loaded.infinite_rows = [int(row) for row in state["infinite_rows"]]
            loaded.summaries = {str(name): Summary.from_state(part) for name, part in state["summaries"].items()}
            loaded.worst = WorstRows.from_state(loaded.worst_rows, state["worst"])
            loaded.slopes, loaded.slope_squares = (
                [int(text, 16) for text in state[name]] for name in ("slopes", "slope_squares")
            )
            loaded.positions = Bins.from_state(state["positions"])
            loaded.calibration = {side: Bins.from_state(state["calibration"][side]) for side in ("base", "other")}
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise InputValueError(f"This is not the state of a KLAccumulator: {error}.") from error
        nodes = {len(of_rows.INVERSE_TEMPERATURES)}
        if any(number < 0 for number in counts) or {len(loaded.slopes), len(loaded.slope_squares)} != nodes:
            raise InputValueError("This state of a KLAccumulator is damaged.")
        self.__dict__.update(loaded.__dict__)

    def __repr__(self) -> str:
        mean = self.summaries["kl"].mean() if self.rows else math.nan
        return f"KLAccumulator({self.rows} rows, mean KL {mean:.6g} nats)"


def _per_row(name: str, values: Any, count: int) -> Tensor:
    tensor = torch.as_tensor(values).detach().cpu().reshape(-1)
    if len(tensor) != count:
        raise ShapeError(f"{name} has {len(tensor)} entries for {count} rows.")
    return tensor
