"""`compare`: a base beside one or several others, row by row, from tensors or files of any size."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, cast

import numpy as np
import torch
from torch import Tensor

from kullback._core.errors import InputTypeError, InputValueError, ShapeError, explain_problem
from kullback.comparison.accumulator import KLAccumulator
from kullback.comparison.measures import MEASURES
from kullback.comparison.page import names_checked
from kullback.comparison.readers import FILE_ENDINGS, Rows, TensorRows, open_rows, row_count
from kullback.comparison.result import Comparison, comparison_of
from kullback.comparison.summary import Summary
from kullback.comparison.teacher_rows import TeacherRows, is_teacher
from kullback.comparison.teacher_rows import note as teacher_note
from kullback.tensors.align import align as align_views
from kullback.tensors.views import Counts, Logits, LogProbs, Probs, View

Kind = Literal["logits", "log-probs", "probs", "counts"]
Align = Literal["pad", "truncate"]
Source = View | str | Path | Rows
KINDS: dict[str, Callable[[Tensor], View]] = {
    "logits": Logits,
    "log-probs": LogProbs,
    "probs": Probs,
    "counts": Counts,
}
_CHUNK_BYTES = 1 << 26
# The temperature takes many passes over a row, so it looks at one row in so many, and at 4 to 64 rows in all.
_TEMPERATURE_SHARE, _MIN_TEMPERATURE_ROWS, _MAX_TEMPERATURE_ROWS = 512, 4, 64
_MAX_BLOCK_ROWS = 512


@dataclass
class Side:
    """Rows and what their numbers are."""

    rows: Rows
    view: Callable[[Tensor], View]

    def read(self, start: int, stop: int) -> View:
        """A chunk as a view."""
        return self.view(self.rows.read(start, stop))


@dataclass
class Job:
    """One comparison: what is read, and how far it has come.

    Attributes:
        base: The base.
        others: The others.
        count: How many rows are compared.
        block_rows: Rows of a block.
        accumulators: One for each other.
        paired: Differences of KL between two others, by their numbers.
        next_row: The first row that was not looked at.
        stop: Where this process stops.
    """

    base: Side
    others: Sequence[Side]
    count: int
    block_rows: int
    accumulators: list[KLAccumulator]
    labels: Tensor | None = None
    documents: Tensor | None = None
    mask: Tensor | None = None
    align: Align | None = None
    paired: dict[tuple[int, int], Summary] = field(default_factory=dict)
    next_row: int = 0
    stop: int = 0

    def chunk_rows(self) -> int:
        """Rows of a chunk: a few megabytes of each side."""
        return max(_CHUNK_BYTES // max(4 * self.base.rows.shape[-1], 1), 1)

    def take(self, start: int, stop: int) -> None:
        """Compare the rows from `start` to `stop`."""
        base = self.base.read(start, stop)
        part = slice(start, stop)
        block = self.documents[part] if self.documents is not None else torch.arange(start, stop) // self.block_rows
        # A context is a block; without leading dimensions nobody says where one begins.
        inside = len(self.base.rows.shape) > 2
        place = (torch.arange(start, stop) % self.block_rows).double() / self.block_rows if inside else None
        for accumulator, other in zip(self.accumulators, self.others, strict=True):
            p, q = base, other.read(start, stop)
            if isinstance(self.base.rows, TeacherRows):
                q = self.base.rows.merged(q, start, stop)
            if self.align is not None:
                p, q = align_views(p, q, how=self.align)
            try:
                accumulator.update(
                    p,
                    q,
                    mask=None if self.mask is None else self.mask[part],
                    labels=None if self.labels is None else self.labels[part],
                    blocks=block,
                    positions=place,
                )
            except InputValueError as error:
                names = f"p is {self.base.rows.name}, q is {other.rows.name}"
                raise InputValueError(f"From row {start} on, where {names}: {error}") from error
        for (first, second), summary in self.paired.items():
            _add_difference(summary, self.accumulators[first].last, self.accumulators[second].last)
        self.next_row = stop

    def result(self, names: Any = None, notes: Sequence[str] = ()) -> Comparison:
        """The statistics so far."""
        known = [other.rows.name for other in self.others]
        paired = [(known[a], known[b], summary) for (a, b), summary in self.paired.items()]
        teacher = self.base.rows if isinstance(self.base.rows, TeacherRows) else None
        return comparison_of(
            list(zip(known, self.accumulators, strict=True)),
            base=self.base.rows.name,
            paired=paired,
            class_of=None if teacher is None else teacher.class_of_slot,
            labels=names,
            notes=notes if teacher is None else [*notes, teacher_note(teacher)],
            complete=self.next_row >= self.stop,
        )


def compare(
    base: Source,
    other: Source | Sequence[Source],
    *,
    kind: Kind | None = None,
    other_kind: Kind | None = None,
    labels: Any = None,
    names: Any = None,
    documents: Any = None,
    mask: Any = None,
    measures: Sequence[str] = MEASURES,
    top_k: int = 10,
    block_rows: int | None = None,
    align: Align | None = None,
    limit: int | None = None,
    worst: int = 10,
) -> Comparison:
    """How far `other` is from `base`, row by row: KL in both directions and more, with standard errors.

    Files are read in chunks: memory does not grow with their size.

    Args:
        base: `Logits`, `LogProbs`, `Probs` or `Counts`; or a file: .npy, .npz, .safetensors (`file.safetensors:name`
            for one of several tensors), the index of a sharded one, llama.cpp's logits file, or the folder of a
            `kullback.losses.TeacherWriter`.
        other: The same, or a list of them: then differences between them are reported, too.
        kind: What the numbers of files are: "logits", "log-probs", "probs" or "counts".
        other_kind: The same of the others, if it differs.
        labels: The right class of each row, for perplexities; negative ones are left out. llama.cpp's file has its own.
        names: Names of the classes for the worst rows: a list, a dictionary, a function or a tokenizer.
        documents: An integer per row that says which document it belongs to; standard errors resample documents.
        mask: Boolean per row: True keeps a row.
        measures: Which of "kl", "reverse_kl", "js", "total_variation", "top1", "topk_overlap" to compute.
        top_k: How many classes the overlap compares.
        block_rows: Rows of a block without documents. Of an array (chunks, tokens, classes) it is the tokens.
        align: For different numbers of classes: "pad" the smaller or "truncate" the larger side.
        limit: Compare only so many rows.
        worst: How many of the worst rows to list.

    Example:
        >>> import torch
        >>> from kullback import Logits, compare
        >>> base = torch.arange(600.0).reshape(2, 30, 10).sin()
        >>> result = compare(Logits(base), Logits(base + 0.01 * base.cos()))
        >>> result.rows, f"{result.kl.mean:.3g}", f"{result.top1.mean:.3g}"
        (60, '1.28e-06', '1')
    """
    job = prepare(
        base,
        other,
        kind=kind,
        other_kind=other_kind,
        labels=labels,
        documents=documents,
        mask=mask,
        measures=measures,
        top_k=top_k,
        block_rows=block_rows,
        align=align,
        limit=limit,
        worst=worst,
    )
    known = None if names is None else names_checked(names, job.base.rows.shape[-1])
    run(job)
    return job.result(known)


def run(job: Job, *, follow: Callable[[range], Iterable[int]] = iter, each: Callable[[], bool] | None = None) -> None:
    """Compare all rows that are left, chunk by chunk.

    Args:
        job: What to compare.
        follow: Shows the progress of the chunks.
        each: Called after each chunk; True ends the comparison.
    """
    step = job.chunk_rows()
    for start in follow(range(job.next_row, job.stop, step)):
        job.take(start, min(start + step, job.stop))
        if each is not None and each():
            return


def prepare(
    base: Source,
    other: Source | Sequence[Source],
    *,
    kind: Kind | None = None,
    other_kind: Kind | None = None,
    labels: Any = None,
    documents: Any = None,
    mask: Any = None,
    measures: Sequence[str] = MEASURES,
    top_k: int = 10,
    block_rows: int | None = None,
    align: Align | None = None,
    limit: int | None = None,
    worst: int = 10,
) -> Job:
    """Open everything and check that it fits; no row is read yet."""
    given: list[Any] = list(other) if isinstance(other, list | tuple) else [other]
    if not given:
        raise InputValueError("There is nothing to compare the base with: give at least one other.")
    first = open_side(base, kind, "base")
    roles = ["other"] if len(given) == 1 else [f"other {number}" for number in range(1, len(given) + 1)]
    others = [open_side(one, other_kind or kind, role) for one, role in zip(given, roles, strict=True)]
    for side in others:
        _check_shapes(first.rows, side.rows, align)
    total = row_count(first.rows)
    count = total if limit is None else min(total, limit)
    lead = first.rows.shape[:-1]
    if block_rows is None:
        block_rows = lead[-1] if len(lead) > 1 else min(max(total // 20, 1), _MAX_BLOCK_ROWS)
    if labels is None:
        labels = getattr(first.rows, "labels", None)
    # Short rows cost little, so that more of them are looked at.
    share = min(max(first.rows.shape[-1] // 256, 1), _TEMPERATURE_SHARE)
    sampled = min(max(count // share, _MIN_TEMPERATURE_ROWS), _MAX_TEMPERATURE_ROWS)
    every = max(-(-count // sampled), 1) if set(measures) != {"kl"} else 0
    if isinstance(first.rows, TeacherRows):  # all others together are one class, which no temperature describes
        every = 0
    accumulators = [
        KLAccumulator(
            measures=measures, top_k=top_k, block_rows=max(block_rows, 1), worst=worst, temperature_every=every
        )
        for _ in others
    ]
    return Job(
        base=first,
        others=others,
        count=count,
        block_rows=max(block_rows, 1),
        accumulators=accumulators,
        labels=_one_per_row("labels", labels, total, integers=True),
        documents=_one_per_row("documents", documents, total, integers=True),
        mask=_one_per_row("mask", mask, total),
        align=align,
        paired={(a, b): Summary() for b in range(len(others)) for a in range(b)},
        stop=count,
    )


def open_side(source: Source, kind: str | None, role: str) -> Side:
    """A tensor or a file as rows of a known kind."""
    if isinstance(source, View):
        tensor = source.tensor.detach().movedim(source.dim, -1) if source.tensor.dim() else source.tensor.reshape(1)
        shaped = tensor if tensor.dim() > 1 else tensor.reshape(1, -1)
        return Side(TensorRows(role, shaped), lambda rows: source.with_tensor(rows, dim=-1))
    if is_teacher(source):
        if role != "base":
            raise InputValueError(
                explain_problem(
                    "A teacher of top classes is compared as the base: it does not say what the others hold.",
                    got=f"{source} as {role}",
                    instead="the teacher first, then files of whole rows",
                )
            )
        return Side(TeacherRows(cast(str, source)), Logits)
    if hasattr(source, "read") and hasattr(source, "labels"):  # logits that a model computes
        return Side(cast(Rows, source), Logits)
    if not isinstance(source, str | Path):
        raise InputTypeError(
            explain_problem(
                "compare() takes views of tensors, or files.",
                got=f"a {type(source).__name__}",
                expected=f"Logits, LogProbs, Probs, Counts, or a path ending in {', '.join(FILE_ENDINGS)}",
                instead="compare(Logits(a), Logits(b))",
            )
        )
    rows = open_rows(source)
    if hasattr(rows, "labels"):  # llama.cpp's codes are log-probabilities, normalised again because they were rounded
        return Side(rows, Logits)
    if kind not in KINDS:
        looks = _guess(rows.read(0, min(row_count(rows), 4)))
        raise InputValueError(
            explain_problem(
                f"A file does not say what its numbers are; those of {source} look like {looks}.",
                got=f"kind={kind!r}" if kind else f"an array of shape {rows.shape}",
                expected=", ".join(KINDS),
                instead=f'--as {looks}, or kind="{looks}" in Python',
            )
        )
    view = KINDS[kind]
    return Side(rows, lambda tensor: view(tensor if tensor.is_floating_point() else tensor.double()))


def _check_shapes(base: Rows, other: Rows, align: Align | None) -> None:
    if base.shape[-1] != other.shape[-1] and align is None:
        raise ShapeError(
            explain_problem(
                "Base and other have different numbers of classes: another vocabulary, or padding of the last layer.",
                got=f"{base.name}: {base.shape[-1]} classes, {other.name}: {other.shape[-1]}",
                expected="as many",
                instead='--align truncate, or align="truncate" in Python, if the first classes are the same',
            )
        )
    if row_count(base) != row_count(other):
        raise ShapeError(
            explain_problem(
                "Base and other have different numbers of rows.",
                got=f"{base.name}: shape {tuple(base.shape)}, {other.name}: shape {tuple(other.shape)}",
                expected="one row of each for every token",
            )
        )


def _one_per_row(name: str, values: Any, count: int, *, integers: bool = False) -> Tensor | None:
    if values is None:
        return None
    if isinstance(values, str | Path):
        rows = open_rows(values)
        values = rows.read(0, row_count(rows))
    tensor = torch.as_tensor(values).detach().cpu().reshape(-1)
    if len(tensor) != count:
        raise ShapeError(f"{name} has {len(tensor)} entries for {count} rows.")
    if integers and (tensor.is_floating_point() or tensor.dtype == torch.bool):
        raise InputTypeError(f"{name} are integers, one per row; got {tensor.dtype}.")
    return tensor if integers else tensor.bool()


def _add_difference(summary: Summary, first: dict[str, np.ndarray], second: dict[str, np.ndarray]) -> None:
    """Add KL of the second minus KL of the first, in the rows that both have."""
    if not first or not second:
        return
    _, a, b = np.intersect1d(first["row"], second["row"], return_indices=True)
    one, two = first["kl"][a], second["kl"][b]
    both = np.isfinite(one) & np.isfinite(two)
    summary.add(two[both] - one[both], first["block"][a][both])


def _guess(rows: Tensor) -> str:
    """What the rows of a file look like."""
    rows = rows.double()
    if rows.numel() == 0:
        return "logits"
    if bool((rows >= 0).all()):
        if bool(((rows.sum(-1) - 1).abs() < 0.02).all()):
            return "probs"
        return "counts" if bool((rows == rows.round()).all()) else "logits"
    return "log-probs" if bool((rows.logsumexp(-1).abs() < 0.02).all()) else "logits"
