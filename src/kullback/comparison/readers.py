"""Rows from files that nobody vouches for, a chunk at a time; `compare.py` asks `open_rows`.

`.npy`, `.npz`, `.safetensors` (and its sharded index) and llama.cpp's logits file. No pickle is ever read, and the
sizes that a header claims are checked against the file before anything is mapped. A chunk is mapped for itself and
let go after use, so that memory does not grow with the file.
"""

from __future__ import annotations

import contextlib
import math
import mmap
import os
import tempfile
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import BinaryIO, Literal, NamedTuple, NoReturn, Protocol, cast

import numpy as np
import torch
from torch import Tensor

from kullback._core.errors import InputValueError, explain_problem

TABLE_ENDINGS = (".csv", ".tsv", ".parquet")  # read by `tables.py`
FILE_ENDINGS = (".npy", ".npz", ".safetensors", ".safetensors.index.json")
_PICKLED = (".pt", ".pth", ".bin", ".pkl", ".pickle", ".ckpt", ".joblib")
_MAX_HEADER = 10_000
_MAX_UNPACKED = 1 << 34  # bytes of a compressed member of a .npz, which goes to a temporary file
_MAX_DIMENSIONS = 8
_MADV_POPULATE_READ = 22
_TORCH_DTYPES = {
    "f8": torch.float64, "f4": torch.float32, "f2": torch.float16, "i8": torch.int64, "i4": torch.int32,
    "i2": torch.int16, "i1": torch.int8, "u1": torch.uint8,
}  # fmt: skip


class Rows(Protocol):
    """A matrix of rows somewhere: its shape with all leading dimensions, and the rows from one number to another."""

    @property
    def name(self) -> str:
        """What it is called in reports."""

    @property
    def shape(self) -> tuple[int, ...]:
        """All dimensions, classes last."""

    def read(self, start: int, stop: int) -> Tensor:
        """Rows of shape (stop - start, classes)."""


class FileRows:
    """Rows that stand one after the other in a file, from an offset on."""

    def __init__(self, name: str, path: Path, offset: int, shape: tuple[int, ...], dtype: torch.dtype) -> None:
        self.name, self.shape, self.dtype = name, shape, dtype
        self._path, self._offset = path, offset

    def read(self, start: int, stop: int) -> Tensor:
        """Map these rows; the mapping ends with the tensor."""
        classes = self.shape[-1]
        count = (stop - start) * classes
        if count == 0:
            return torch.empty(stop - start, classes, dtype=self.dtype)
        begin = self._offset + start * classes * self.dtype.itemsize
        page = begin - begin % mmap.ALLOCATIONGRANULARITY
        length = begin - page + count * self.dtype.itemsize
        with self._path.open("rb") as file:
            if os.fstat(file.fileno()).st_size < page + length:
                refuse(self.name, "the file became shorter while it was read")
            if hasattr(os, "posix_fadvise"):  # the disk brings the next chunk while this one is compared
                os.posix_fadvise(file.fileno(), page + length, length, os.POSIX_FADV_WILLNEED)
            # A private mapping is writable, as torch wants it; the file stays as it is.
            mapped = mmap.mmap(file.fileno(), length, access=mmap.ACCESS_COPY, offset=page)
        with contextlib.suppress(
            AttributeError, OSError
        ):  # one call instead of a page fault every 64 KiB, from Linux 5.14
            mapped.madvise(_MADV_POPULATE_READ)
        return torch.frombuffer(mapped, dtype=self.dtype, count=count, offset=begin - page).reshape(-1, classes)


class ArrayRows:
    """Rows of a numpy array, which may be mapped, have another byte order or column order."""

    def __init__(self, name: str, array: np.ndarray) -> None:
        self.name, self.shape, self._array = name, array.shape, array

    def read(self, start: int, stop: int) -> Tensor:
        """A copy in the byte order of this machine."""
        lead = self._array.shape[:-1]
        if len(lead) == 1:
            part = self._array[start:stop]
        else:
            part = self._array[np.unravel_index(np.arange(start, stop), lead)]
        part = np.ascontiguousarray(part)
        return torch.from_numpy(part.astype(part.dtype.newbyteorder("="), copy=True))


class TensorRows:
    """Rows of a tensor in memory."""

    def __init__(self, name: str, tensor: Tensor) -> None:
        self.name, self.shape = name, tuple(tensor.shape)
        self._rows = tensor.detach().reshape(-1, tensor.shape[-1])

    def read(self, start: int, stop: int) -> Tensor:
        """A part of the tensor."""
        return self._rows[start:stop]


class ConcatenatedRows:
    """Several matrices of the same width, one after the other: the shards of a file."""

    def __init__(self, name: str, parts: Sequence[Rows]) -> None:
        self.name, self._parts = name, parts
        self._starts = [0]
        for part in parts:
            self._starts.append(self._starts[-1] + row_count(part))
        self.shape = (self._starts[-1], parts[0].shape[-1])

    def read(self, start: int, stop: int) -> Tensor:
        """Rows that may span parts."""
        found = []
        for part, first, last in zip(self._parts, self._starts, self._starts[1:], strict=False):
            if start < last and stop > first:
                found.append(part.read(max(start, first) - first, min(stop, last) - first))
        return found[0] if len(found) == 1 else torch.cat(found)


def row_count(rows: Rows) -> int:
    """How many rows there are."""
    return math.prod(rows.shape[:-1])


def open_rows(text: str | Path) -> Rows:
    """The rows of a file, or of one array in it: `file.npz:name`, `file.safetensors:name`.

    Raises:
        InputValueError: If there is no such file, or it is not an array of numbers of the size that it claims.
    """
    path, member = _split(str(text))
    ending = _ending(path)
    if ending in _PICKLED:
        refuse(str(text), f"{ending} files may hold code that runs when they are read", "a .safetensors or .npy file")
    if not path.is_file():
        refuse(str(text), "there is no such file" if not path.exists() else "it is not a regular file")
    try:
        if ending == ".npy":
            with path.open("rb") as file:
                return _rows_of(str(text), path, _npy_header(str(text), file, 0, path.stat().st_size))
        if ending == ".npz":
            return _open_npz(str(text), path, member)
        if ending in (".safetensors", ".json"):
            from kullback.comparison.safetensors_file import open_index, open_safetensors

            opened = open_index if ending == ".json" else open_safetensors
            return opened(str(text), path, member)
        from kullback.comparison.llama_cpp import is_llama_cpp, open_llama_cpp

        if is_llama_cpp(path):
            return open_llama_cpp(str(text), path)
    except InputValueError:
        raise
    except Exception as error:  # noqa: BLE001 - a damaged header ends in a tokenizer, an archive in zlib, and more
        refuse(str(text), f"it is damaged: {str(error).partition(chr(10))[0] or type(error).__name__}")
    tables = (
        "; kullback.comparison.drift.compare_tables(base, other) reads tables"
        if str(text).lower().endswith(TABLE_ENDINGS)
        else ""
    )
    return refuse(str(text), f"{ending or 'this'} is no format that compare reads", ", ".join(FILE_ENDINGS) + tables)


def _split(text: str) -> tuple[Path, str]:
    """The path, and the name of an array after a colon."""
    lower = text.lower()
    for ending in (".npz:", ".safetensors.index.json:", ".safetensors:"):
        if ending in lower:
            at = lower.index(ending) + len(ending) - 1
            return Path(text[:at]), text[at + 1 :]
    return Path(text), ""


def _ending(path: Path) -> str:
    return path.suffix.lower()


class _Header(NamedTuple):
    """What stands before an array: where its numbers begin, their shape and dtype, and whether columns come first."""

    begin: int
    shape: tuple[int, ...]
    dtype: np.dtype
    fortran: bool


def _npy_header(name: str, file: BinaryIO, offset: int, size: int) -> _Header:
    """The header of an array of the .npy format that begins at `offset` and is `size` bytes long with its header."""
    from numpy.lib import format as npy

    file.seek(offset)
    version = npy.read_magic(file)
    if version not in ((1, 0), (2, 0)):
        refuse(name, f"its format version {version} is not supported", "numpy.save with a current numpy")
    read = npy.read_array_header_1_0 if version == (1, 0) else npy.read_array_header_2_0
    shape, fortran, dtype = read(file, max_header_size=_MAX_HEADER)
    if dtype.hasobject or dtype.kind not in "fiu" or dtype.subdtype is not None or dtype.itemsize > 8:
        refuse(name, f"it holds {dtype}, not numbers; objects are pickles and are never read", "an array of float32")
    check_shape(name, shape)
    begin = file.tell()
    wanted, there = math.prod(shape) * dtype.itemsize, size - (begin - offset)
    if wanted != there:
        refuse(name, f"its header promises {wanted} bytes of shape {tuple(shape)} and {there} follow")
    return _Header(begin, tuple(shape) if len(shape) > 1 else (1, *shape), dtype, fortran)


def _rows_of(name: str, path: Path, header: _Header) -> Rows:
    """The rows that a header describes."""
    begin, shape, dtype, fortran = header
    known = _TORCH_DTYPES.get(dtype.str[1:])
    if known is not None and dtype.isnative and not fortran:
        return FileRows(name, path, begin, shape, known)
    if math.prod(shape) == 0:
        return ArrayRows(name, np.empty(shape, dtype))
    order: Literal["F", "C"] = "F" if fortran else "C"
    return ArrayRows(name, np.memmap(path, dtype=dtype, mode="r", offset=begin, shape=shape, order=order))


def _open_npz(name: str, path: Path, member: str) -> Rows:
    with zipfile.ZipFile(path) as archive:
        names = [info.filename for info in archive.infolist()]
        wanted = f"{member}.npy" if member else names[0] if len(names) == 1 else ""
        if wanted not in names:
            shown = ", ".join(one.removesuffix(".npy") for one in names[:8])
            first = f"{path}:{names[0].removesuffix('.npy')}" if names else ""
            refuse(name, f"it holds {len(names)} arrays: {shown}", first)
        info = archive.getinfo(wanted)
        if info.compress_type == zipfile.ZIP_STORED and not info.flag_bits & 1:
            with path.open("rb") as file:
                file.seek(info.header_offset)
                local = file.read(30)
                begin = info.header_offset + 30 + int.from_bytes(local[26:28], "little")
                begin += int.from_bytes(local[28:30], "little")
                return _rows_of(name, path, _npy_header(name, file, begin, info.file_size))
        if info.file_size > _MAX_UNPACKED:
            refuse(name, f"{wanted} claims {info.file_size} bytes when unpacked", "a .npy file")
        return _unpacked(name, archive, info)


def _unpacked(name: str, archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> Rows:
    """A compressed array, unpacked to a temporary file that is mapped; it goes away with the rows."""
    with tempfile.TemporaryFile() as file, archive.open(info) as source:
        while block := source.read(1 << 20):
            file.write(block)
            if file.tell() > info.file_size:
                refuse(name, f"{info.filename} unpacks to more than the {info.file_size} bytes that it claims")
        file.flush()
        size = file.tell()
        header = _npy_header(name, cast(BinaryIO, file), 0, size)
        if math.prod(header.shape) == 0:
            return ArrayRows(name, np.empty(header.shape, header.dtype))
        mapped = mmap.mmap(file.fileno(), size, access=mmap.ACCESS_COPY)
    flat = np.frombuffer(mapped, header.dtype, offset=header.begin)
    return ArrayRows(name, flat.reshape(header.shape, order="F" if header.fortran else "C"))


def check_shape(name: str, shape: Sequence[int]) -> None:
    """Refuse shapes that no array of rows has."""
    if not 1 <= len(shape) <= _MAX_DIMENSIONS or any(length < 0 for length in shape) or shape[-1] == 0:
        refuse(name, f"its shape {tuple(shape)} is not one of rows and classes", "an array of shape (rows, classes)")


def refuse(name: str, why: str, instead: str = "") -> NoReturn:
    """Say what is wrong with a file."""
    shown = name if len(name) <= 120 else name[:120] + "…"
    raise InputValueError(explain_problem(f"{shown} cannot be read: {why}.", instead=instead))
