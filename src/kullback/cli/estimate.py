"""`kullback estimate P Q`: KL from files of samples or counts, or of distributions that can only be sampled."""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, Annotated, Any

import typer

from kullback._core.errors import InputValueError, explain_problem
from kullback.cli.options import (
    ABOVE_THRESHOLD,
    OK,
    Base,
    Bits,
    Columns,
    Debug,
    Html,
    Json,
    Width,
    column_names,
    emit,
    unit_base,
)

if TYPE_CHECKING:
    from torch import Tensor

    from kullback.estimators import Estimate
    from kullback.report.page import Page

EPILOG = """Examples:

\b
kullback estimate x.npy y.npy
kullback estimate reference.csv current.csv --columns age,income --fail-above 0.1
kullback estimate before.parquet after.parquet --columns visits --as categories
kullback estimate x.npy "Normal(0, 1)"
kullback estimate x.npy y.npy --as counts --json

Exit status: 0, 1 no route, 2 usage, 3 lower end of the interval above --fail-above.
"""


class Reading(str, Enum):
    """What the numbers of the files are."""

    SAMPLES = "samples"
    CATEGORIES = "categories"
    COUNTS = "counts"


def command(  # noqa: PLR0917 - typer reads the parameters as options
    p: Annotated[str, typer.Argument(help="A .npy, .npz, .csv, .tsv or .parquet file; or a distribution.")],
    q: Annotated[str, typer.Argument(help="The second.")],
    reading: Annotated[
        Reading | None,
        typer.Option("--as", help="samples: one draw per row; categories: whole numbers to count; counts: counted."),
    ] = None,
    columns: Columns = None,
    method: Annotated[str, typer.Option("--method", help="One of the methods of estimate_kl.")] = "auto",
    confidence: Annotated[float, typer.Option("--confidence", metavar="C", help="Coverage of the interval.")] = 0.95,
    seed: Annotated[int, typer.Option("--seed", metavar="N", help="Of whatever is random.", min=0)] = 0,
    fail_above: Annotated[
        float | None,
        typer.Option("--fail-above", metavar="X", help="Exit with 3 if the whole interval lies above X."),
    ] = None,
    bits: Bits = False,
    base: Base = None,
    json: Json = False,
    html: Html = None,
    width: Width = None,
    debug: Debug = False,
) -> int:
    """Estimate KL(p || q) with a standard error and an interval.

    Files hold one draw per row. Whole numbers are counted as categories, other numbers are read as draws of a density;
    --as says otherwise.
    """
    del debug
    import math

    import torch

    from kullback.cli.columns import names_a_table, read_columns
    from kullback.diagnose.notation import parse_distribution
    from kullback.estimators import estimate_kl

    unit = unit_base(bits, base)
    picked = column_names(columns)
    sides: list[Any] = [
        read_columns(text, picked) if names_a_table(text) else parse_distribution(text) for text in (p, q)
    ]
    tensors = [side for side in sides if isinstance(side, torch.Tensor)]
    if reading is None:
        reading = Reading.CATEGORIES if tensors and all(map(_whole, tensors)) else Reading.SAMPLES
    views = [_view(side, reading) if isinstance(side, torch.Tensor) else side for side in sides]
    generator = torch.Generator().manual_seed(seed)
    estimate = estimate_kl(views[0], views[1], method=method, confidence=confidence, generator=generator)
    if getattr(estimate.value, "numel", lambda: 1)() != 1:
        raise InputValueError(
            explain_problem("The command estimates one pair at a time.", got="a batch", expected="one distribution")
        )
    scale = 1.0 if unit is None else 1 / math.log(unit)
    page = _page(estimate, p, q, scale, "nats" if unit is None else "bits" if unit == 2 else f"units of log {unit:g}")
    emit(page, estimate.to_dict, json=json, html=html, plot=None, width=width)
    return ABOVE_THRESHOLD if fail_above is not None and scale * float(estimate.low) > fail_above else OK


def _whole(tensor: Tensor) -> bool:
    return bool((tensor == tensor.round()).all())


def _view(tensor: Tensor, reading: Reading) -> Any:
    from kullback.tensors.views import Counts, Samples

    if reading is Reading.COUNTS:
        return Counts(tensor)
    if reading is Reading.SAMPLES:
        return Samples(tensor)
    if not _whole(tensor):
        raise InputValueError(
            explain_problem(
                "Categories are whole numbers.",
                got=f"{float(tensor[tensor != tensor.round()][0]):g}",
                instead="--as samples",
            )
        )
    return Samples(tensor.long())


def _page(estimate: Estimate, p: str, q: str, scale: float, unit: str) -> Page:
    from kullback.report.page import Finding, Page, Section, Table

    numbers = [scale * float(number) for number in (estimate.value, estimate.stderr, estimate.low, estimate.high)]
    rows: list[list[str | float]] = [["KL(p ‖ q)", *numbers]]
    heading = [unit, "standard error", "low", "high"]
    summary = Table(["", *heading], rows, note=f"{estimate.method}; interval of {estimate.confidence:.4g}")
    known = [[name.replace("_", " "), _shown(value)] for name, value in estimate.diagnostics.items()]
    findings = [Finding("estimate-warning", "warning", text) for text in estimate.warnings]
    draws = " and ".join(map(str, estimate.n))
    return Page(
        f"KL(p ‖ q) ≈ {numbers[0]:.4g} ± {numbers[1]:.2g} {unit}",
        [
            Section("Estimate", [f"p = {p}, q = {q}, n = {draws}", summary, *findings]),
            Section("Diagnostics", [Table(["", "value"], known)]),
        ],
    )


def _shown(value: Any) -> str | float:
    if isinstance(value, tuple):
        return ", ".join(f"{float(end):.6g}" for end in value)
    return value if isinstance(value, str | float | int) else str(value)
