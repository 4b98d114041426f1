"""`kullback fit TARGET FAMILY…`: the nearest member of a family to a distribution, or to data."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from kullback._core.errors import InputValueError, explain_problem
from kullback._core.files import write_whole
from kullback.cli.explain import Reading
from kullback.cli.options import OK, Columns, Debug, Json, column_names

if TYPE_CHECKING:
    from kullback.fit import Projection

EPILOG = """Examples:

\b
kullback fit "0.5*Normal(-2, 0.6) + 0.5*Normal(2, 0.6)" Normal
kullback fit "0.5*Normal(-2, 0.6) + 0.5*Normal(2, 0.6)" Normal --direction reverse --plot fit.png
kullback fit waiting_times.npy Gamma Weibull LogNormal
kullback fit visits.csv Poisson NegativeBinomial --columns visits
kullback fit histogram.npy Poisson NegativeBinomial --as counts --json
kullback fit points.npy "Mixture(MultivariateNormal, 3)"

Exit status: 0, 1 no fit converged, 2 usage.
"""
_PLOTS = (".png", ".svg", ".pdf")
_MAX_TEXT = 1 << 28  # bytes


def command(  # noqa: PLR0917 - typer reads the parameters as options
    target: Annotated[
        str,
        typer.Argument(
            help='A distribution such as "Gamma(2, 1)"; or a .npy, .npz, .csv, .tsv, .parquet or .txt file.'
        ),
    ],
    families: Annotated[
        list[str], typer.Argument(metavar="FAMILY...", help="Names such as Normal; several are ranked.")
    ],
    direction: Annotated[
        str, typer.Option("--direction", help="forward: KL(target || fit); reverse: KL(fit || target).")
    ] = "forward",
    reading: Annotated[
        Reading, typer.Option("--as", help="What the numbers of a file are: each row one sample, or classes.")
    ] = Reading.SAMPLES,
    columns: Columns = None,
    criterion: Annotated[str | None, typer.Option("--by", help="Rank by kl, aic or bic.")] = None,
    seed: Annotated[int, typer.Option("--seed", help="Of random starts.", min=0)] = 0,
    plot: Annotated[
        Path | None, typer.Option("--plot", metavar="FILE", help="Also draw target and best fit: .png, .svg or .pdf.")
    ] = None,
    json: Json = False,
    debug: Debug = False,
) -> int:
    """Find the nearest member of a family by KL divergence.

    Of data the forward direction is maximum likelihood. Several families are ranked: by AIC for data, else by KL.
    """
    del debug
    from kullback.fit import project
    from kullback.report.machine import to_json

    if plot is not None and plot.suffix.lower() not in _PLOTS:
        raise InputValueError(
            explain_problem(
                "A plot is written as PNG, SVG or PDF, by the ending of its name.",
                got=str(plot),
                instead=f"--plot {plot.stem or 'fit'}.png",
            )
        )
    chosen: Any = families if len(families) > 1 else families[0]
    result = project(_read(target, reading, columns), chosen, direction=direction, criterion=criterion, seed=seed)  # type: ignore[call-overload]
    best: Projection = result.best if len(families) > 1 else result
    if json:
        print(to_json(result.to_dict()))
    else:
        print(result)
        if best is not result:
            print(f"\n{best}")
    if plot is not None:
        _draw(best, plot)
    return OK if best.converged else 1


def _read(text: str, reading: Reading, columns: str | None) -> Any:
    from kullback.cli.columns import names_a_table, read_columns
    from kullback.tensors.views import Counts, Logits, LogProbs, Probs, Samples

    if Path(text).suffix.lower() == ".txt":
        tensor = _read_text(Path(text))
    elif names_a_table(text):
        tensor = read_columns(text, column_names(columns))
    else:
        from kullback.diagnose.notation import parse_distribution

        return parse_distribution(text)
    if reading is Reading.SAMPLES:
        return Samples(tensor)
    views = {Reading.LOGITS: Logits, Reading.LOG_PROBS: LogProbs, Reading.PROBS: Probs, Reading.COUNTS: Counts}
    return views[reading](tensor)


def _read_text(path: Path) -> Any:
    """Numbers in lines, separated by commas or spaces; a first line of names is skipped."""
    import torch

    try:
        if not path.is_file() or path.stat().st_size > _MAX_TEXT:
            raise InputValueError(f"{path} cannot be read: there is no such file, or it is too large.")
        lines = [line for line in path.read_text(encoding="utf-8", errors="replace").splitlines() if line.strip()]
    except OSError as error:
        raise InputValueError(f"{path} cannot be read: {error.strerror or error}.") from error
    rows: list[list[float]] = []
    for number, line in enumerate(lines, start=1):
        cells = line.replace(",", " ").replace(";", " ").split()
        try:
            row = [float(cell) for cell in cells]
        except ValueError:
            if number == 1:
                continue
            raise InputValueError(
                explain_problem(f"Line {number} of {path} does not hold numbers.", got=line[:60], expected="1.5, 2.0")
            ) from None
        if rows and len(row) != len(rows[0]):
            raise InputValueError(
                explain_problem(f"Line {number} of {path} has {len(row)} numbers.", expected=f"{len(rows[0])}")
            )
        rows.append(row)
    tensor = torch.tensor(rows, dtype=torch.float64)
    return tensor[:, 0] if tensor.dim() == 2 and tensor.shape[1] == 1 else tensor


def _draw(best: Projection, path: Path) -> None:
    figure = best.plot()
    try:
        write_whole(path, lambda beside: figure.savefig(beside, dpi=150))
    except OSError as error:
        raise InputValueError(f"{path} cannot be written: {error.strerror or error}.") from error
    print(f"wrote {path}", file=sys.stderr)
