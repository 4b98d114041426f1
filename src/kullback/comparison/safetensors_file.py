"""Tensors of .safetensors files, mapped by their offsets, and of the index of a sharded one; for `readers.py`."""

from __future__ import annotations

import json
import math
import re
from pathlib import Path
from typing import Any

import torch

from kullback.comparison.readers import ConcatenatedRows, FileRows, Rows, check_shape, refuse

_MAX_HEADER = 100_000_000  # as the format has it
_DTYPES = {
    "F64": torch.float64, "F32": torch.float32, "F16": torch.float16, "BF16": torch.bfloat16, "I64": torch.int64,
    "I32": torch.int32, "I16": torch.int16, "I8": torch.int8, "U8": torch.uint8,
}  # fmt: skip


def open_safetensors(name: str, path: Path, member: str) -> Rows:
    """One tensor of a file, or several numbered ones in the order of their numbers."""
    return _choose(name, {key: (path, key) for key in _header(name, path)[1]}, member)


def open_index(name: str, path: Path, member: str) -> Rows:
    """The tensors of a sharded file, from its index: {"weight_map": {tensor: file}}."""
    if path.stat().st_size > _MAX_HEADER:
        refuse(name, "its index is too large")
    index = json.loads(path.read_text(encoding="utf-8"))
    weights = index.get("weight_map") if isinstance(index, dict) else None
    if not isinstance(weights, dict):
        refuse(name, "it has no weight_map", "the index.json of a sharded safetensors file")
    places: dict[str, tuple[Path, str]] = {}
    for key, file in weights.items():
        if not isinstance(file, str) or Path(file).name != file:
            refuse(name, f"tensor {key} is said to be in {file!r}, which is no file beside the index")
        places[key] = (path.parent / file, key)
    return _choose(name, places, member)


def _choose(name: str, places: dict[str, tuple[Path, str]], member: str) -> Rows:
    """The tensor of that name; without a name the only one, or all if they differ in a number only."""
    if member:
        if member not in places:
            refuse(name, f"it has no tensor {member!r} but {', '.join(list(places)[:8])}")
        return _tensor(name, *places[member])
    if not places:
        refuse(name, "it holds no tensors")
    if len({re.sub(r"\d+", "#", key) for key in places}) > 1:
        shown = ", ".join(list(places)[:8])
        refuse(name, f"it holds {len(places)} tensors: {shown}", f"{name}:{next(iter(places))}")
    ordered = sorted(places, key=lambda key: [int(number) for number in re.findall(r"\d+", key)])
    parts = [_tensor(f"{name}:{key}", *places[key]) for key in ordered]
    if len({part.shape[-1] for part in parts}) > 1:
        refuse(name, f"its tensors have different widths: {sorted({part.shape[-1] for part in parts})}")
    return parts[0] if len(parts) == 1 else ConcatenatedRows(name, parts)


def _tensor(name: str, path: Path, key: str) -> FileRows:
    if not path.is_file():
        refuse(name, f"there is no file {path.name}")
    begin, tensors = _header(name, path)
    if key not in tensors:
        refuse(name, f"{path.name} has no tensor {key!r}")
    about = tensors[key]
    dtype, shape, offsets = about.get("dtype"), about.get("shape"), about.get("data_offsets")
    if dtype not in _DTYPES:
        refuse(name, f"it holds {dtype}", "F32, F16 or BF16")
    if not _whole_numbers(shape) or not _whole_numbers(offsets) or len(offsets) != 2:
        refuse(name, f"its header says shape {shape!r}, offsets {offsets!r}")
    check_shape(name, shape)
    wanted = math.prod(shape) * _DTYPES[dtype].itemsize
    if offsets[1] - offsets[0] != wanted or begin + offsets[1] > path.stat().st_size:
        refuse(name, f"its header promises {wanted} bytes of shape {tuple(shape)}, and they are not there")
    shape = tuple(shape) if len(shape) > 1 else (1, *shape)
    return FileRows(name, path, begin + offsets[0], shape, _DTYPES[dtype])


def _header(name: str, path: Path) -> tuple[int, dict[str, Any]]:
    """Where the data begin, and what the header says of each tensor."""
    with path.open("rb") as file:
        length = int.from_bytes(file.read(8), "little")
        if not 2 <= length <= min(_MAX_HEADER, path.stat().st_size - 8):
            refuse(name, f"its header claims {length} bytes of a file of {path.stat().st_size}")
        header = json.loads(file.read(length))
    if not isinstance(header, dict):
        refuse(name, "its header is no JSON object")
    header.pop("__metadata__", None)
    if not all(isinstance(about, dict) for about in header.values()):
        refuse(name, "its header does not describe tensors")
    return 8 + length, header


def _whole_numbers(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(x, int) and not isinstance(x, bool) and x >= 0 for x in value)
