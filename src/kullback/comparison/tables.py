"""Columns of .csv and .parquet files, and of arrays of samples; for `drift.py`."""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from kullback._core.errors import InputTypeError, InputValueError, UnavailableError, explain_problem
from kullback.comparison.readers import open_rows, refuse, row_count
from kullback.tensors.views import Samples

TABLE_ENDINGS = (".csv", ".tsv", ".parquet")
_MISSING = {"", "na", "n/a", "nan", "null", "none"}
_MAX_FIELD = 1 << 20
Table = dict[str, np.ndarray]  # float64 with NaN where missing; or text with None where missing


def is_table(source: object) -> bool:
    """Whether a file is a table, by its ending."""
    return isinstance(source, str | Path) and str(source).lower().endswith(TABLE_ENDINGS)


def read_table(source: Any, limit: int | None = None) -> Table:
    """The columns of a table: a file, a mapping of columns, a DataFrame, or `Samples`.

    Raises:
        InputValueError: If the file is damaged or has no columns.
        UnavailableError: For .parquet without the extra `tables`.
    """
    if isinstance(source, Samples):
        return _of_array(source.tensor.detach().double().cpu().numpy())
    if isinstance(source, str | Path):
        path = Path(source)
        if not path.is_file():
            refuse(str(source), "there is no such file")
        ending = path.suffix.lower()
        if ending == ".parquet":
            columns = _read_parquet(path, limit)
        elif ending in (".csv", ".tsv"):
            columns = _read_csv(path, "\t" if ending == ".tsv" else ",", limit)
        else:
            rows = open_rows(source)
            count = row_count(rows) if limit is None else min(limit, row_count(rows))
            array = rows.read(0, count).double().numpy()
            return _of_array(array.reshape(-1) if len(rows.shape) == 2 and rows.shape[0] == 1 else array)
    elif isinstance(source, Mapping) or hasattr(source, "columns"):
        columns = {
            str(name): list(source[name]) for name in (source if isinstance(source, Mapping) else source.columns)
        }
    else:
        raise InputTypeError(
            explain_problem(
                "A table is a file, a mapping of columns, a DataFrame or Samples.",
                got=f"a {type(source).__name__}",
                expected=f"a path ending in {', '.join(TABLE_ENDINGS)}, or Samples(tensor)",
            )
        )
    if not columns:
        raise InputValueError(f"{source} has no columns.")
    return {name: _column(values) for name, values in columns.items()}


def _of_array(array: np.ndarray) -> Table:
    array = array.reshape(len(array), -1)
    return {f"column {number}": array[:, number] for number in range(array.shape[1])}


def _read_csv(path: Path, delimiter: str, limit: int | None) -> dict[str, list[Any]]:
    before = csv.field_size_limit(_MAX_FIELD)
    try:
        with path.open(newline="", encoding="utf-8-sig", errors="replace") as file:
            lines = csv.reader(file, delimiter=delimiter)
            names = next(lines, [])
            if len(set(names)) != len(names):
                refuse(str(path), f"two columns have the same name among {names[:8]}")
            columns: list[list[Any]] = [[] for _ in names]
            for number, line in enumerate(lines):
                if number == limit:
                    break
                if not line:
                    continue
                if len(line) != len(names):
                    refuse(str(path), f"line {lines.line_num} has {len(line)} fields under {len(names)} columns")
                for column, value in zip(columns, line, strict=True):
                    column.append(value)
    except csv.Error as error:
        refuse(str(path), f"line {lines.line_num}: {error}")
    finally:
        csv.field_size_limit(before)
    return dict(zip(names, columns, strict=True))


def _read_parquet(path: Path, limit: int | None) -> dict[str, list[Any]]:
    try:
        from pyarrow import parquet  # type: ignore[import-untyped]
    except ImportError as error:
        raise UnavailableError('Parquet files need the extra "tables": pip install "kullback[tables]".') from error
    try:
        table = parquet.read_table(path)
    except (OSError, ValueError) as error:
        refuse(str(path), f"it is damaged: {str(error).partition(chr(10))[0]}")
    table = table if limit is None else table.slice(0, limit)
    return {str(name): table.column(name).to_pylist() for name in table.column_names}


def _column(values: Sequence[Any]) -> np.ndarray:
    """Numbers with NaN where missing if every value is a number, else text with None where missing."""
    plain = [None if v is None or (isinstance(v, str) and v.strip().lower() in _MISSING) else v for v in values]
    if all(v is None or not isinstance(v, bool | np.bool_) for v in plain):
        try:
            return np.array([np.nan if v is None else float(v) for v in plain], dtype=np.float64)
        except (TypeError, ValueError):
            pass
    return np.array([None if v is None else str(v) for v in plain], dtype=object)
