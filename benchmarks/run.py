"""Run the benchmarks: `python -m benchmarks.run --help`."""

from __future__ import annotations

import argparse
import math
import os
import sys
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.registry import SUBJECT, Case, discover

if TYPE_CHECKING:
    from benchmarks.report import Report, Row
    from benchmarks.timing import Clock

Tick = Callable[[str], None]
TIMED = {"ok", "wrong"}


def main(arguments: Sequence[str] | None = None) -> int:
    """Parse the command line, run, write; 1 if kullback was wrong or failed anywhere, 2 if nothing matched."""
    options = _parser().parse_args(arguments)
    if options.threads:
        os.environ["OMP_NUM_THREADS"] = str(options.threads)  # read by native libraries when they are loaded
        import torch

        torch.set_num_threads(options.threads)
    cases = [
        found
        for found in discover().values()
        if options.group in (None, found.group) and options.case in (None, found.name)
    ]
    if not cases:
        print("no case matches; --list shows all of them", file=sys.stderr)
        return 2
    if options.list:
        for found in cases:
            print(f"{found.group:<12} {found.name:<24} {', '.join(found.sizes)}\n{'':<12} {found.summary}")
        return 0
    repeats = 3 if options.quick else options.repeats
    report = run_cases(
        cases,
        repeats=repeats,
        size=options.size,
        memory=options.memory,
        progress=True,
        budget=options.budget,
        clock=time.process_time if options.processor_time else time.perf_counter,
    )
    markdown = report.to_markdown()
    print(markdown)
    if options.markdown:
        options.markdown.write_text(markdown)
    if options.json:
        options.json.write_text(report.to_json() + "\n")
    for row in report.refused:
        print(f"{row.case}, {row.size}: {row.contender}: {row.note}", file=sys.stderr)
    return 1 if report.refused else 0


def run_cases(
    cases: Sequence[Case],
    *,
    repeats: int,
    size: str | None = None,
    memory: bool = False,
    progress: bool = False,
    min_seconds: float = 5e-3,
    budget: float = math.inf,
    clock: Clock = time.perf_counter,
) -> Report:
    """Run cases at all their sizes (or the one labelled `size`) and collect the rows."""
    from rich.console import Console
    from rich.progress import Progress

    from benchmarks.environment import describe
    from benchmarks.report import Report

    report = Report(describe(), {found.name: found.summary for found in cases})
    jobs = [(found, label) for found in cases for label in found.sizes if size in (None, label)]
    # No refresh thread: it would run beside the code that is being timed.
    display = Progress(
        console=Console(stderr=True),
        auto_refresh=False,
        transient=True,
        disable=not (progress and sys.stderr.isatty()),
    )
    with display:
        task = display.add_task("", total=sum(len(found.contenders) for found, _ in jobs) * (repeats + 1))
        for found, label in jobs:

            def tick(name: str, title: str = f"{found.name}, {label}") -> None:
                display.update(task, advance=1, description=f"{title}: {name}", refresh=True)

            report.rows += run_size(
                found,
                label,
                repeats=repeats,
                memory=memory,
                tick=tick,
                min_seconds=min_seconds,
                budget=budget,
                clock=clock,
            )
    return report


def run_size(
    found: Case,
    label: str,
    *,
    repeats: int,
    memory: bool = False,
    tick: Tick = lambda _: None,
    min_seconds: float = 5e-3,
    budget: float = math.inf,
    clock: Clock = time.perf_counter,
) -> list[Row]:
    """Gate, warm up, time and compare all contenders of one case at one size."""
    import torch

    from benchmarks.memory import in_subprocess
    from benchmarks.report import Row
    from benchmarks.timing import interleave, ratio, spread

    state = found.setup(found.sizes[label])
    rows = {name: Row(found.name, found.group, label, name, "ok") for name in found.contenders}
    _pass_gate(found, state, rows, tick)
    runnable = {name: partial(found.contenders[name].run, state) for name, row in rows.items() if row.status in TIMED}
    samples = interleave(runnable, repeats=repeats, min_seconds=min_seconds, budget=budget, clock=clock, tick=tick)
    subject_is_right = SUBJECT in rows and rows[SUBJECT].status == "ok"
    for name, sample in samples.items():
        rows[name].seconds = spread(sample)
        if subject_is_right:
            rows[name].ratio = ratio(sample, samples[SUBJECT])
        if memory:
            rows[name].peak_bytes = in_subprocess(found.name, label, name, threads=torch.get_num_threads())
    return list(rows.values())


def _pass_gate(found: Case, state: Any, rows: dict[str, Row], tick: Tick) -> None:
    """Compare every contender with the truth and write status, error and note into its row.

    Each contender is run twice: the first call may compile or start threads, and the second is the one whose result a
    timed call returns, so it is the one that is judged.
    """
    from benchmarks.gate import judge

    if found.truth_of is None:
        raise ValueError(f"case {found.name!r} has no truth: nothing may be timed before it is known to be right")
    truth = found.truth_of(state)
    for name, contender in found.contenders.items():
        tick(name)
        row = rows[name]
        reason = contender.missing()
        if reason is not None:
            row.status, row.note = "missing", f"missing: {reason}"
            continue
        try:
            contender.run(state)
            result = contender.run(state)
        except Exception as error:  # noqa: BLE001 - a peer may fail in any way, and the run goes on
            row.status, row.note = "failed", f"failed: {type(error).__name__}: {str(error).partition(chr(10))[0]}"
            continue
        if contender.yardstick:
            row.note = "a yardstick, not this result"
            continue
        verdict = judge(result, truth, rtol=found.rtol, floor=found.floor, by_row=found.by_row)
        row.error, row.note = verdict.error, verdict.note
        row.status = "ok" if verdict.right else "wrong"


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.run", description="Time kullback beside its peers.")
    parser.add_argument("--list", action="store_true", help="list the cases and exit")
    parser.add_argument("--group", metavar="G", help="only the cases of this group")
    parser.add_argument("--case", metavar="C", help="only this case")
    parser.add_argument("--size", metavar="S", help="only the size with this label")
    parser.add_argument("--threads", metavar="N", type=int, help="torch threads (default: torch's own choice)")
    parser.add_argument("--repeats", metavar="R", type=int, default=15, help="rounds (default: 15)")
    parser.add_argument(
        "--budget", metavar="S", type=float, default=4.0, help="seconds a size, if five rounds fit (default: 4)"
    )
    parser.add_argument(
        "--processor-time",
        action="store_true",
        help="time of this process instead of the clock on the wall: for a busy machine, with --threads 1",
    )
    parser.add_argument("--quick", action="store_true", help="three rounds: a first look, in a fifth of the time")
    parser.add_argument("--memory", action="store_true", help="also measure peak memory, each in its own process")
    parser.add_argument("--json", metavar="F", type=Path, help="write the report as JSON")
    parser.add_argument("--markdown", metavar="F", type=Path, help="write the report as Markdown")
    return parser


if __name__ == "__main__":
    sys.exit(main())
