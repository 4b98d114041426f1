"""`kullback compare BASE OTHER…`: how far models, files or tables are from a base."""

from __future__ import annotations

import contextlib
import math
import signal
import sys
import threading
import time
from collections.abc import Iterable, Iterator
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from kullback._core.errors import InputValueError, explain_problem
from kullback.cli.options import ABOVE_THRESHOLD, OK, USAGE, Debug, Html, Json, Plot, Width, emit

if TYPE_CHECKING:
    from kullback.comparison.compare import Job

EPILOG = """Examples:

\b
kullback compare base.npy quantised.npy --as logits
kullback compare base.safetensors q4.safetensors q8.safetensors --as logits --html report.html
kullback compare base.npz:logits other.npz:logits --as logits --labels tokens.npy
kullback compare base.npy other.npy --as logits --fail-over mean=0.05 --fail-over q99=1
kullback compare ./teacher student.npy --as logits
kullback compare ./model ./model-int8 --text corpus.txt --context 512
kullback compare january.csv february.csv --fail-over drifted=0
torchrun --nproc-per-node=4 -m kullback compare base.npy other.npy --as logits

Exit status: 0, 2 usage, 3 a figure is over --fail-over, 130 interrupted.
"""
_SAVE_SECONDS = 20.0
_INTERRUPTED = 130


class Kind(str, Enum):
    """What the numbers of a file are."""

    LOGITS = "logits"
    LOG_PROBS = "log-probs"
    PROBS = "probs"
    COUNTS = "counts"
    SAMPLES = "samples"


class Align(str, Enum):
    """What to do about different numbers of classes."""

    PAD = "pad"
    TRUNCATE = "truncate"


def command(  # noqa: PLR0917 - typer reads the parameters as options
    base: Annotated[
        str, typer.Argument(help="The reference: .npy, .npz, .safetensors, .csv, .parquet, a teacher, a checkpoint.")
    ],
    others: Annotated[list[str], typer.Argument(metavar="OTHER...", help="One or several of the same kind.")],
    kind: Annotated[Kind | None, typer.Option("--as", help="What the numbers in the files are.")] = None,
    other_kind: Annotated[Kind | None, typer.Option("--other-as", help="What those of OTHER are, if not same.")] = None,
    labels: Annotated[
        Path | None, typer.Option("--labels", metavar="FILE", help="The right class of each row, for perplexities.")
    ] = None,
    names: Annotated[
        Path | None, typer.Option("--names", metavar="FILE", help="Names of the classes, one per line.")
    ] = None,
    documents: Annotated[
        Path | None, typer.Option("--documents", metavar="FILE", help="The document of each row, an integer.")
    ] = None,
    block: Annotated[
        int | None, typer.Option("--block", metavar="N", help="Rows of a block.", min=1, max=1 << 62)
    ] = None,
    measures: Annotated[
        str | None, typer.Option("--measures", metavar="LIST", help="Only these, e.g. kl,top1; kl alone is fastest.")
    ] = None,
    top_k: Annotated[int, typer.Option("--top-k", metavar="K", help="Classes of the overlap.", min=1)] = 10,
    align: Annotated[Align | None, typer.Option("--align", help="For different numbers of classes.")] = None,
    limit: Annotated[int | None, typer.Option("--limit", metavar="N", help="Compare only N rows.", min=1)] = None,
    worst: Annotated[int, typer.Option("--worst", metavar="N", help="Worst rows to list.", min=0, max=1000)] = 10,
    fail_over: Annotated[
        list[str] | None,
        typer.Option("--fail-over", metavar="NAME=X", help="Exit with 3 if mean, median, q99, max… is larger."),
    ] = None,
    text: Annotated[
        Path | None, typer.Option("--text", metavar="FILE", help="Run two checkpoints over this text.")
    ] = None,
    dtype: Annotated[str, typer.Option("--dtype", help="Of checkpoints: auto, float32, bfloat16, float16.")] = "auto",
    context: Annotated[int, typer.Option("--context", metavar="N", help="Tokens of a window.", min=2)] = 512,
    stride: Annotated[
        int | None, typer.Option("--stride", metavar="N", help="Tokens between windows; N of each are scored.", min=1)
    ] = None,
    columns: Annotated[
        str | None, typer.Option("--columns", metavar="LIST", help="Only these columns of tables.")
    ] = None,
    bins: Annotated[int, typer.Option("--bins", metavar="N", help="Bins of a column of numbers.", min=2)] = 10,
    neighbours: Annotated[
        bool, typer.Option("--neighbours", help="KL of columns of numbers by nearest neighbours, too.")
    ] = False,
    resume: Annotated[
        Path | None, typer.Option("--resume", metavar="FILE", help="Save the state there, and continue from it.")
    ] = None,
    json: Json = False,
    html: Html = None,
    plot: Plot = None,
    width: Width = None,
    debug: Debug = False,
) -> int:
    """Measure how far models are from a base, row by row.

    KL in both directions, Jensen-Shannon, total variation and agreement of the top classes; mean, quantiles and
    standard errors, worst rows and findings. Files are read in chunks and may be larger than the memory.
    """
    del debug
    from kullback.comparison.checkpoints import is_checkpoint
    from kullback.comparison.compare import prepare
    from kullback.comparison.distributed import join_ranks, leave_ranks, merge_ranks, share_rows, world
    from kullback.comparison.measures import MEASURES
    from kullback.comparison.saved import save_job
    from kullback.comparison.tables import is_table

    if kind is Kind.SAMPLES or is_table(base):
        return _tables(base, others, columns, bins, neighbours, limit, fail_over or [], json, html, plot, width)
    limits = parse_limits(fail_over or [])
    known: Any = None
    notes: list[str] = []
    sources: list[Any] = [base, *others]
    if text is not None or is_checkpoint(base):
        sources, known, notes = _open_checkpoints(base, others, text, dtype, context, stride)
    rank, size = world()
    job = prepare(
        sources[0],
        sources[1:],
        kind=None if kind is None else kind.value,
        other_kind=None if other_kind is None else cast(Any, other_kind.value),
        labels=labels,
        documents=documents,
        measures=MEASURES if measures is None else measures.split(","),
        top_k=top_k,
        block_rows=block,
        align=None if align is None else align.value,
        limit=limit,
        worst=worst,
    )
    known = known or _read_names(names, job.base.rows.shape[-1])
    if size > 1:
        share_rows(job, rank, size)
        resume = None if resume is None else resume.with_name(f"{resume.name}.{rank}-of-{size}")
        join_ranks()
    interrupted = _run(job, resume)
    if size > 1:
        if resume is not None:  # another process may have been interrupted, and rank 0 will hold the rows of all
            save_job(job, resume)
        # torchrun hands Ctrl-C on to every process: those that wait for the others must not leave.
        with _stop_signals(signal.SIG_IGN):
            interrupted = merge_ranks(job, rank, size, interrupted)
        leave_ranks()
    status = OK
    if not rank:
        result = job.result(known, notes)
        emit(result.page, result.to_dict, json=json, html=html, plot=plot, width=width)
        status = _INTERRUPTED if interrupted else judge(result.to_dict(), limits)
    if resume is not None and not interrupted:  # only now: a report that cannot be written must not cost the run
        resume.unlink(missing_ok=True)
    return status


def _open_checkpoints(  # noqa: PLR0917
    base: str, others: list[str], text: Path | None, dtype: str, context: int, stride: int | None
) -> tuple[list[Any], Any, list[str]]:
    from kullback.comparison.checkpoints import open_checkpoints

    if text is None:
        raise InputValueError(
            explain_problem("Checkpoints are compared on a text.", got="no --text", instead="--text corpus.txt")
        )
    first, rest, tokenizer, notes = open_checkpoints(base, others, text, dtype=dtype, context=context, stride=stride)
    return [first, *rest], tokenizer, notes


def _tables(  # noqa: PLR0917
    base: str,
    others: list[str],
    columns: str | None,
    bins: int,
    neighbours: bool,
    limit: int | None,
    fail_over: list[str],
    json: bool,
    html: Path | None,
    plot: Path | None,
    width: int | None,
) -> int:
    """Drift of tables, one other at a time; with several others each has its own FILE-1, FILE-2."""
    from kullback.comparison.drift import compare_tables

    status = OK
    for number, other in enumerate(others, 1):
        own = [
            path if path is None or len(others) == 1 else path.with_stem(f"{path.stem}-{number}")
            for path in (html, plot)
        ]
        result = compare_tables(
            base,
            other,
            columns=None if columns is None else columns.split(","),
            bins=bins,
            limit=limit,
            neighbours=neighbours,
        )
        emit(result.page, result.to_dict, json=json, html=own[0], plot=own[1], width=width)
        record = result.to_dict()
        figures = {**record["largest"], "mean": record["largest"]["kl"]}
        judged = {"name": other, "kl": figures, "findings": record["findings"]}
        status = max(status, judge({"others": [judged]}, parse_limits(fail_over)))
    return status


def _run(job: Job, resume: Path | None) -> bool:
    """Compare the rows; whether Ctrl-C ended it: the first one ends it after a chunk, the second one at once."""
    from kullback.comparison.compare import run
    from kullback.comparison.saved import load_job, save_job

    if resume is not None and load_job(job, resume):
        print(f"continued at row {job.next_row} of {job.stop}", file=sys.stderr)
    saved, asked = time.monotonic(), False

    def save() -> bool:
        nonlocal saved
        if resume is not None and time.monotonic() - saved > _SAVE_SECONDS:
            save_job(job, resume)
            saved = time.monotonic()
        return asked

    def ask(number: int, _: Any) -> None:
        nonlocal asked
        asked = True
        signal.signal(number, signal.default_int_handler)

    try:
        with _stop_signals(ask):
            run(job, follow=_follow, each=save)
        interrupted = job.next_row < job.stop
    except KeyboardInterrupt:
        interrupted = True
    if interrupted:
        print(f"interrupted at row {job.next_row} of {job.stop}", file=sys.stderr)
        if resume is not None and _consistent(job):
            save_job(job, resume)
    return interrupted


@contextlib.contextmanager
def _stop_signals(handler: Any) -> Iterator[None]:
    """Handle Ctrl-C and a polite request to end so, where this is the main thread."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = [(number, signal.signal(number, handler)) for number in (signal.SIGINT, signal.SIGTERM)]
    try:
        yield
    finally:
        for number, old in before:
            signal.signal(number, old)


def _consistent(job: Job) -> bool:
    """Whether every other has seen the same rows; Ctrl-C may come in the middle of a chunk."""
    return all(a.first_row + a.seen == job.next_row for a in job.accumulators)


def _follow(starts: range) -> Iterable[int]:
    """Progress with rate and remaining time, where standard error is a terminal."""
    if not sys.stderr.isatty():
        return starts
    return _shown(starts)


def _shown(starts: range) -> Iterator[int]:
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (
        TextColumn("comparing"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("rows, {task.fields[rate]} rows/s,"),
        TimeRemainingColumn(),
    )
    began = time.monotonic()
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task("", total=starts.stop, completed=starts.start, rate="…")
        for start in starts:
            yield start
            done = min(start + starts.step, starts.stop)
            rate = (done - starts.start) / max(time.monotonic() - began, 1e-9)
            progress.update(task, completed=done, rate=f"{rate:,.0f}")


def parse_limits(texts: list[str]) -> dict[str, float]:
    """`NAME=X` pairs; NAME is a statistic of KL, or `measure.statistic`.

    Example:
        >>> parse_limits(["mean=0.05", "js.q99=0.1"])
        {'kl.mean': 0.05, 'js.q99': 0.1}
    """
    found = {}
    for text in texts:
        name, _, number = text.partition("=")
        try:
            limit = float(number)
        except ValueError:
            limit = float("nan")
        if not name or math.isnan(limit):
            raise InputValueError(
                explain_problem("--fail-over wants a name and a number.", got=text, instead="--fail-over mean=0.05")
            )
        found[name if "." in name else f"kl.{name}"] = limit
    return found


def judge(record: dict[str, Any], limits: dict[str, float]) -> int:
    """The exit status: 3 if a figure of any other is over its limit or not a number, or if rows were left out."""
    status = OK
    for other in record["others"]:
        for finding in other["findings"] if limits else ():
            if finding["severity"] == "error":
                print(f"{other['name']}: {finding['message']}", file=sys.stderr)
                status = ABOVE_THRESHOLD
        for name, limit in limits.items():
            measure, _, statistic = name.partition(".")
            value = other.get(measure, {}).get(statistic) if isinstance(other.get(measure), dict) else None
            if not isinstance(value, float | int):
                known = [key for key, number in other["kl"].items() if isinstance(number, float | int)]
                print(f"kullback: there is no {name} to compare with; there are {', '.join(known)}", file=sys.stderr)
                return USAGE
            if not value <= limit:
                print(f"{other['name']}: {name.removeprefix('kl.')} = {value:.6g} is over {limit:g}", file=sys.stderr)
                status = ABOVE_THRESHOLD
    return status


def _read_names(path: Path | None, classes: int) -> Any:
    from kullback.cli.explain import read_labels
    from kullback.comparison.page import names_checked

    return None if path is None else names_checked(read_labels(path), classes)
