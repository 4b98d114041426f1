"""What the commands share: options, exit statuses, errors in one line, and where a page goes."""

from __future__ import annotations

import codecs
import os
import re
import shutil
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from kullback._core.errors import InputValueError, explain_problem
from kullback._core.files import write_whole

if TYPE_CHECKING:
    from kullback.report.page import Page

OK, NO_ROUTE, USAGE, ABOVE_THRESHOLD, INTERNAL = 0, 1, 2, 3, 70

Json = Annotated[bool, typer.Option("--json", help="JSON for machines instead of text.")]
Html = Annotated[Path | None, typer.Option("--html", metavar="FILE", help="Also write a self-contained HTML report.")]
Plot = Annotated[
    Path | None, typer.Option("--plot", metavar="FILE", help="Also write the figures: .png, .svg or .pdf.")
]
Bits = Annotated[bool, typer.Option("--bits", help="Show bits; the same as --base 2.")]
Base = Annotated[float | None, typer.Option("--base", metavar="B", help="Show units of log B instead of nats.")]
Columns = Annotated[
    str | None, typer.Option("--columns", metavar="A,B", help="Columns of .csv, .tsv and .parquet files.")
]
Width = Annotated[int | None, typer.Option("--width", metavar="N", help="Columns of the text.", min=20, max=10_000)]
Debug = Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")]

# What stands in for a character that a terminal cannot write.
_PLAIN = str.maketrans("−–×·✗█│─└▏▎▍▌▋▊▉≈¹", "--x*x#|-+|||||||~1") | str.maketrans(
    {
        "‖": "||",
        "±": "+-",
        "…": "...",
        "→": "->",
        "≤": "<=",
        "≥": ">=",
        "½": "1/2",
        "²": "^2",
        "⁻": "^-",
        "ˣ": "^x",
        "√": "sqrt",
    }
    | {"∞": "inf", "∫": "integral ", "Σ": "sum ", "σ": "sigma", "μ": "mu", "Δ": "delta ", "φ": "phi", "λ": "lambda"}
)


def column_names(columns: str | None) -> list[str] | None:
    """The names that --columns lists; None for all columns."""
    return None if columns is None else [name.strip() for name in columns.split(",")]


def unit_base(bits: bool, base: float | None) -> float | None:
    """The base that --bits and --base ask for."""
    if bits and base not in (None, 2):
        raise InputValueError(
            explain_problem(
                "--bits and --base contradict each other.", got=f"--bits --base {base:g}", instead="--base 2"
            )
        )
    return 2.0 if bits else base


def emit(
    page: Page,
    record: Callable[[], Mapping[str, Any]],
    *,
    json: bool,
    html: Path | None,
    plot: Path | None,
    width: int | None,
) -> None:
    """Write a page where the options say: files first, then JSON or text on standard output."""
    if html is not None:
        from kullback.report.html import page_to_html

        content = page_to_html(page)
        _write(html, lambda: write_whole(html, lambda beside: beside.write_text(content, encoding="utf-8")))
    if plot is not None:
        from kullback.report.plots import save_figures

        if not page.figures():
            raise InputValueError("There is nothing to draw for this pair; leave --plot out.")
        _write(plot, lambda: save_figures(page.figures(), plot, title=page.title))
    if json:
        from kullback.report.machine import to_json

        print(to_json(record()))
    else:
        print(_as_text(page, width), end="")


def _as_text(page: Page, width: int | None) -> str:
    from kullback.report.terminal import page_to_text

    if not sys.stdout.isatty():
        return page_to_text(page, width=width)
    pictures = "utf" in (sys.stdout.encoding or "").lower()
    color = not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
    columns = width or shutil.get_terminal_size().columns
    return page_to_text(page, width=columns, figures=pictures, color=color)


def _write(path: Path, write: Callable[[], object]) -> None:
    try:
        write()
    except OSError as error:
        raise InputValueError(
            explain_problem(f"{path} cannot be written: {error.strerror or error}.", instead="another FILE")
        ) from error
    print(f"wrote {path}", file=sys.stderr)


def one_line(error: BaseException) -> str:
    r"""An error as one line: the problem, and in parentheses what came, what was expected and what to write.

    Example:
        >>> one_line(ValueError("scale is negative.\n  got:      -1\n  write:    Normal(0, 1)"))
        'scale is negative. (got: -1; write: Normal(0, 1))'
    """
    first, *rest = [line.strip() for line in str(error).splitlines() if line.strip()] or [type(error).__name__]
    details = "; ".join(re.sub(r"^(\w+:)\s+", r"\1 ", line) for line in rest)
    text = f"{first} ({details})" if details else first
    return "".join(char if char.isprintable() else repr(char)[1:-1] for char in text)


def write_any_encoding() -> None:
    """Let standard output and error replace what their encoding lacks, instead of failing in the middle."""
    codecs.register_error("kullback-plain", _replace)
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None and "utf" not in (stream.encoding or "").lower():
            reconfigure(errors="kullback-plain")


def _replace(error: UnicodeError) -> tuple[str, int]:
    assert isinstance(error, UnicodeEncodeError)
    plain = error.object[error.start : error.end].translate(_PLAIN)
    return plain.encode("ascii", "replace").decode("ascii"), error.end
