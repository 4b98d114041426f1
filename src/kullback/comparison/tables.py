"""Columns of .csv and .parquet files, and of arrays of samples, some thousand rows at a time; for `drift.py`."""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from kullback._core.errors import InputTypeError, InputValueError, explain_problem
from kullback._core.extras import import_extra
from kullback.comparison.readers import TABLE_ENDINGS, open_rows, refuse, row_count
from kullback.tensors.views import Samples

_MISSING = {"", "na", "n/a", "nan", "null", "none"}
_MAX_FIELD = 1 << 20
_CHUNK_ROWS = 1 << 15
Chunk = dict[str, Any]  # values by column, as they were read: a list or an array of numbers


class TableSource(NamedTuple):
    """A table that can be read several times: its columns, and a function that gives it chunk by chunk."""

    names: Sequence[str]
    chunks: Callable[[], Iterator[Chunk]]


def is_table(source: object) -> bool:
    """Whether a file is a table, by its ending."""
    return isinstance(source, str | Path) and str(source).lower().endswith(TABLE_ENDINGS)


def open_table(source: Any, limit: int | None = None) -> TableSource:
    """A table: a file, a mapping of columns, a DataFrame, or `Samples`.

    Raises:
        InputValueError: If the file is damaged or has no columns.
        UnavailableError: For .parquet without the extra `tables`.
    """
    if isinstance(source, Samples):
        array = source.tensor.detach().double().cpu().numpy()
        return _whole(_of_array(array.reshape(len(array), -1)), limit)
    if isinstance(source, str | Path):
        path = Path(source)
        if not path.is_file():
            refuse(str(source), "there is no such file")
        ending = path.suffix.lower()
        if ending == ".parquet":
            table = _open_parquet(path, limit)
        elif ending in (".csv", ".tsv"):
            table = _open_csv(path, "\t" if ending == ".tsv" else ",", limit)
        else:
            return _open_array(source, limit)
    elif isinstance(source, Mapping) or hasattr(source, "columns"):
        names = source if isinstance(source, Mapping) else source.columns
        table = _whole({str(name): list(source[name]) for name in names}, limit)
    else:
        raise InputTypeError(
            explain_problem(
                "A table is a file, a mapping of columns, a DataFrame or Samples.",
                got=f"a {type(source).__name__}",
                expected=f"a path ending in {', '.join(TABLE_ENDINGS)}, or Samples(tensor)",
            )
        )
    if not table.names:
        raise InputValueError(f"{source} has no columns.")
    return table


def _whole(columns: Chunk, limit: int | None) -> TableSource:
    """A table in memory."""
    return TableSource(list(columns), lambda: iter([{name: values[:limit] for name, values in columns.items()}]))


def _of_array(array: np.ndarray) -> Chunk:
    return {f"column {number}": array[:, number] for number in range(array.shape[1])}


def _open_array(source: str | Path, limit: int | None) -> TableSource:
    """The columns of an array file; one row is a column of samples."""
    rows = open_rows(source)
    if row_count(rows) == 1:
        return _whole(_of_array(rows.read(0, 1).double().numpy().reshape(-1, 1)), limit)
    count = row_count(rows) if limit is None else min(limit, row_count(rows))
    step = max(_CHUNK_ROWS * 64 // max(rows.shape[-1], 1), 1)

    def chunks() -> Iterator[Chunk]:
        for start in range(0, count, step):
            yield _of_array(rows.read(start, min(start + step, count)).double().numpy())

    return TableSource([f"column {number}" for number in range(rows.shape[-1])], chunks)


def _open_csv(path: Path, delimiter: str, limit: int | None) -> TableSource:
    with path.open(newline="", encoding="utf-8-sig", errors="replace") as file:
        names = next(csv.reader(file, delimiter=delimiter), [])
    if len(set(names)) != len(names):
        refuse(str(path), f"two columns have the same name among {names[:8]}")

    def chunks() -> Iterator[Chunk]:
        before = csv.field_size_limit(_MAX_FIELD)
        try:
            with path.open(newline="", encoding="utf-8-sig", errors="replace") as file:
                lines = csv.reader(file, delimiter=delimiter)
                next(lines, None)
                held: list[list[str]] = []
                for number, line in enumerate(lines):
                    if number == limit:
                        break
                    if not line:
                        continue
                    if len(line) != len(names):
                        refuse(str(path), f"line {lines.line_num} has {len(line)} fields under {len(names)} columns")
                    held.append(line)
                    if len(held) == _CHUNK_ROWS:
                        yield dict(zip(names, zip(*held, strict=True), strict=True))
                        held = []
                if held:
                    yield dict(zip(names, zip(*held, strict=True), strict=True))
        except csv.Error as error:
            refuse(str(path), f"line {lines.line_num}: {error}")
        finally:
            csv.field_size_limit(before)

    return TableSource(names, chunks)


def _open_parquet(path: Path, limit: int | None) -> TableSource:
    parquet = import_extra("pyarrow.parquet", extra="tables", purpose="Parquet files need")
    try:
        names = [str(name) for name in parquet.ParquetFile(path).schema_arrow.names]
    except (OSError, ValueError) as error:
        refuse(str(path), f"it is damaged: {str(error).partition(chr(10))[0]}")

    def chunks() -> Iterator[Chunk]:
        left = limit
        try:
            for batch in parquet.ParquetFile(path).iter_batches(_CHUNK_ROWS):
                part = batch if left is None else batch.slice(0, left)
                if part.num_rows == 0:
                    return
                yield {name: part.column(number).to_pylist() for number, name in enumerate(names)}
                left = None if left is None else left - part.num_rows
        except (OSError, ValueError) as error:
            refuse(str(path), f"it is damaged: {str(error).partition(chr(10))[0]}")

    return TableSource(names, chunks)


def column_values(values: Any, *, as_text: bool = False) -> np.ndarray:
    """Float64 with NaN where missing if every value is a number (and no text is wanted), else text and None."""
    if isinstance(values, np.ndarray) and values.dtype == np.float64 and not as_text:
        return values
    plain = [None if v is None or (isinstance(v, str) and v.strip().lower() in _MISSING) else v for v in values]
    if not as_text and all(v is None or not isinstance(v, bool | np.bool_) for v in plain):
        try:
            return np.array([np.nan if v is None else float(v) for v in plain], dtype=np.float64)
        except (TypeError, ValueError):
            pass
    return np.array([None if v is None else _text(v) for v in plain], dtype=object)


def _text(value: Any) -> str | None:
    if isinstance(value, float):
        return f"{value:g}" if np.isfinite(value) else None
    return str(value)
