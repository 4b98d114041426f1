"""Columns of .csv and .parquet files as tensors, for the commands that read samples; other files go to `arrays.py`."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from kullback._core.errors import InputValueError, explain_problem
from kullback._core.extras import import_extra
from kullback.cli.arrays import names_a_file, read_tensor

if TYPE_CHECKING:
    import numpy as np
    from torch import Tensor

TABLE_FILES = (".csv", ".tsv", ".parquet")
_MAX_CSV_BYTES = 1 << 31


def names_a_table(text: str) -> bool:
    """Whether an argument is a file of numbers.

    Example:
        >>> names_a_table("x.csv"), names_a_table("x.npy"), names_a_table("Normal(0, 1)")
        (True, True, False)
    """
    return text.lower().endswith(TABLE_FILES) or names_a_file(text)


def read_columns(text: str, columns: list[str] | None) -> Tensor:
    """The draws in a file: one row per draw, one column per coordinate.

    Args:
        text: A .csv, .tsv, .parquet, .npy or .npz file.
        columns: Names of the columns to take, in this order; None takes all. Only for .csv, .tsv and .parquet.

    Raises:
        InputValueError: If the file is missing, damaged, or holds something else than numbers.
    """
    import torch

    suffix = Path(text).suffix.lower()
    if suffix not in TABLE_FILES:
        if columns is not None:
            _refuse(text, "its columns have no names", "no --columns, or a .csv or .parquet file")
        return read_tensor(text)
    if not Path(text).is_file():
        _refuse(text, "there is no such file", "")
    array = _read_parquet(text, columns) if suffix == ".parquet" else _read_csv(text, columns)
    return torch.from_numpy(array[:, 0].copy() if array.shape[1] == 1 else array)


def _read_csv(text: str, columns: list[str] | None) -> np.ndarray:
    import numpy as np

    path = Path(text)
    if path.stat().st_size > _MAX_CSV_BYTES:
        _refuse(text, f"it has more than {_MAX_CSV_BYTES} bytes", "a .npy or .parquet file")
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            reader = csv.reader(file, delimiter="\t" if path.suffix.lower() == ".tsv" else ",")
            rows = [row for row in reader if row]
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        _refuse(text, str(error), "a .csv file in UTF-8")
    if not rows:
        _refuse(text, "it is empty", "")
    names = None if _is_numbers(rows[0]) else [name.strip() for name in rows.pop(0)]
    width = len(names) if names is not None else len(rows[0])
    longer = next((number for number, row in enumerate(rows) if len(row) > width), None)
    if longer is not None:
        _refuse(
            text, f"row {longer + 1} has {len(rows[longer])} cells and the first line {width}", "one cell per column"
        )
    picked = _places(text, names, columns, width)
    values = np.empty((len(rows), len(picked)), dtype=np.float64)
    for number, row in enumerate(rows):
        for place, column in enumerate(picked):
            cell = row[column].strip() if column < len(row) else ""
            try:
                values[number, place] = float(cell)
            except ValueError:
                name = names[column] if names else str(column)
                shown = repr(cell[:40]) if cell else "nothing"
                _refuse(text, f"row {number + 1} of column {name} holds {shown}, not a number", "--columns A,B")
    return values


def _is_numbers(row: list[str]) -> bool:
    try:
        [float(cell) for cell in row]
    except ValueError:
        return False
    return True


def _places(text: str, names: list[str] | None, columns: list[str] | None, width: int) -> list[int]:
    if columns is None:
        return list(range(width))
    known = names if names is not None else [str(place) for place in range(width)]
    missing = [column for column in columns if column not in known]
    if missing:
        _refuse(text, f"it has no column {missing[0]!r}, only {', '.join(known[:12])}", f"--columns {known[0]}")
    return [known.index(column) for column in columns]


def _read_parquet(text: str, columns: list[str] | None) -> np.ndarray:
    import numpy as np

    parquet = import_extra("pyarrow.parquet", extra="tables", purpose="Parquet files need")
    try:
        known = parquet.read_schema(text).names
        names = [known[place] for place in _places(text, known, columns, len(known))]
        table = parquet.read_table(text, columns=names)
        parts = [table.column(name).to_numpy().astype(np.float64) for name in names]
    except InputValueError:
        raise
    except (ValueError, TypeError) as error:
        _refuse(text, f"a column is not numbers: {str(error).partition(chr(10))[0]}", "--columns A,B")
    except Exception as error:  # noqa: BLE001 - a damaged file ends in many kinds of errors of Arrow
        _refuse(text, f"it is damaged: {str(error).partition(chr(10))[0]}", "")
    return np.stack(parts, 1) if parts else np.empty((0, 0))


def _refuse(text: str, why: str, instead: str) -> NoReturn:
    raise InputValueError(explain_problem(f"{text[:120]} cannot be read: {why}.", instead=instead))
