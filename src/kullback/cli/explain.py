"""`kullback explain P Q`: two distributions written as text, or two files of arrays."""

from __future__ import annotations

from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from kullback._core.errors import InputValueError, explain_problem
from kullback.cli.options import (
    ABOVE_THRESHOLD,
    NO_ROUTE,
    OK,
    Base,
    Bits,
    Debug,
    Html,
    Json,
    Plot,
    Width,
    emit,
    unit_base,
)

if TYPE_CHECKING:
    from torch import Tensor

    from kullback.diagnose.explanation import Explanation

EPILOG = """Examples:

\b
kullback explain "Normal(0, 1)" "StudentT(3, 0, 1)"
kullback explain "N([0, 1], 1)" "Laplace(0, 1/2)" --bits
kullback explain "0.3*Normal(0, 1) + 0.7*Normal(4, 1)" "Normal(2, 2)" --plot mixture.svg
kullback explain teacher.npy student.npy --as logits --labels vocabulary.txt --html report.html
kullback explain run.npz:p run.npz:q --as probs --fail-above 0.05

Exit status: 0, 1 no route, 2 usage, 3 KL(p || q) above --fail-above.
"""
_MAX_LABELS = 1 << 26  # bytes


class Reading(str, Enum):
    """What the numbers of a file are."""

    LOGITS = "logits"
    LOG_PROBS = "log-probs"
    PROBS = "probs"
    COUNTS = "counts"
    SAMPLES = "samples"


def command(  # noqa: PLR0917 - typer reads the parameters as options
    p: Annotated[
        str,
        typer.Argument(
            help='The first distribution, such as "Normal(0, 1)"; or a file: .npy, .npz, .safetensors, .csv, .parquet.'
        ),
    ],
    q: Annotated[str, typer.Argument(help="The second.")],
    reading: Annotated[Reading | None, typer.Option("--as", help="What the numbers in the files are.")] = None,
    q_reading: Annotated[Reading | None, typer.Option("--q-as", help="What those of q are, if not the same.")] = None,
    dim: Annotated[int, typer.Option("--dim", help="The class dimension of the arrays.")] = -1,
    labels: Annotated[
        Path | None, typer.Option("--labels", metavar="FILE", help="Names of the classes, one per line.")
    ] = None,
    top: Annotated[int, typer.Option("--top", metavar="N", help="How many terms to list.", min=1, max=1000)] = 8,
    fail_above: Annotated[
        float | None,
        typer.Option("--fail-above", metavar="X", help="Exit with 3 if KL(p || q), its mean over rows, is larger."),
    ] = None,
    bits: Bits = False,
    base: Base = None,
    json: Json = False,
    html: Html = None,
    plot: Plot = None,
    width: Width = None,
    debug: Debug = False,
) -> int:
    """Show what stands behind a divergence.

    Both directions with a picture, the terms that dominate, findings, and how it was computed.

    Distributions are written as in torch, with numbers or lists: Normal(0, 1), Dirichlet([1, 2, 3]),
    Bernoulli(logits=2), mixtures with weights. KL(p || q) takes its expectation under p, the first argument.

    Files are .npy, .npz, .safetensors, .csv, .tsv or .parquet, and --as says what their numbers are.
    """
    del debug
    from kullback.diagnose.explain import explain

    unit = unit_base(bits, base)
    first, second = _sides(p, q, (reading, q_reading or reading), dim)
    explanation = explain(first, second, labels=read_labels(labels), base=unit, top=top)
    emit(explanation.page, explanation.to_dict, json=json, html=html, plot=plot, width=width)
    return _status(explanation, fail_above)


def _status(explanation: Explanation, fail_above: float | None) -> int:
    if not explanation.directions:
        return OK
    value = explanation.directions[0].value
    if value is None:
        return NO_ROUTE
    mean = explanation.scaled(float(value.double().mean())) if value.numel() else 0.0
    return ABOVE_THRESHOLD if fail_above is not None and mean > fail_above else OK


def _sides(p: str, q: str, readings: tuple[Reading | None, Reading | None], dim: int) -> tuple[Any, Any]:
    """What both arguments are: views of files, or distributions; samples in a file go with either."""
    from kullback.diagnose.notation import parse_distribution

    files = [_names_a_file(text) for text in (p, q)]
    if files[0] != files[1] and readings[files.index(True)] is not Reading.SAMPLES:
        raise InputValueError(
            explain_problem(
                "One argument is a file and the other is not.",
                got=f"{p} and {q}",
                expected="two of a kind, or a file of samples beside a distribution",
                instead="--as samples",
            )
        )
    given = next((reading for reading in readings if reading is not None), None)
    if not any(files) and given is not None:
        raise InputValueError(
            explain_problem("--as is for files; these are expressions.", got=f"--as {given.value}", instead="no --as")
        )
    found = [
        _view(text, reading, dim) if is_file else parse_distribution(text)
        for text, reading, is_file in zip((p, q), readings, files, strict=True)
    ]
    return found[0], found[1]


def _names_a_file(text: str) -> bool:
    from kullback.cli.columns import names_a_table

    return names_a_table(text) or ".safetensors" in text.lower()


def _read(text: str) -> Tensor:
    """The numbers of a file of any kind that a command reads."""
    from kullback.cli.columns import read_columns
    from kullback.comparison.readers import open_rows, row_count

    if ".safetensors" not in text.lower():
        return read_columns(text, None)
    rows = open_rows(text)
    return rows.read(0, row_count(rows)).reshape(rows.shape)


def _view(text: str, reading: Reading | None, dim: int) -> Any:
    from kullback.tensors.views import Counts, Logits, LogProbs, Probs, Samples

    tensor = _read(text)
    if reading is None:
        raise InputValueError(
            explain_problem(
                f"A file does not say what its numbers are; those of {text} look like {_guess(tensor)}.",
                got=f"an array of shape {tuple(tensor.shape)}",
                expected="logits, log-probs, probs, counts or samples",
                instead=f"--as {_guess(tensor)}",
            )
        )
    if reading is Reading.SAMPLES:
        return Samples(tensor)
    views = {
        Reading.LOGITS: Logits,
        Reading.LOG_PROBS: LogProbs,
        Reading.PROBS: Probs,
        Reading.COUNTS: Counts,
    }
    return views[reading](tensor, dim=dim)


def _guess(tensor: Tensor) -> str:
    """What the last dimension of an array looks like."""
    rows = tensor.double()
    if rows.numel() == 0 or rows.dim() == 0:
        return "samples"
    if bool((rows >= 0).all()):
        if bool(((rows.sum(-1) - 1).abs() < 0.02).all()):
            return "probs"
        return "counts" if bool((rows == rows.round()).all()) else "logits"
    return "log-probs" if bool((rows.logsumexp(-1).abs() < 0.02).all()) else "logits"


def read_labels(path: Path | None) -> list[str] | None:
    """The lines of a file of labels."""
    if path is None:
        return None
    try:
        if path.stat().st_size > _MAX_LABELS or not path.is_file():
            raise InputValueError(f"{path} is too large for labels, or not a file.")
        return path.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError as error:
        raise InputValueError(
            explain_problem(f"{path} cannot be read: {error.strerror or error}.", instead="--labels FILE")
        ) from error
