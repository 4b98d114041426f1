"""Arrays from files that nobody vouches for: .npy and .npz, without pickles, with sizes checked before reading."""

from __future__ import annotations

import math
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import IO, TYPE_CHECKING, NoReturn

from kullback._core.errors import InputValueError, explain_problem

if TYPE_CHECKING:
    import numpy as np
    from torch import Tensor

ARRAY_FILES = (".npy", ".npz")
_PICKLED = (".pt", ".pth", ".bin", ".pkl", ".pickle", ".ckpt", ".joblib")
_MAX_HEADER = 10_000
_MAX_UNPACKED = 1 << 32  # bytes of one array in a .npz: a small archive can unpack to any size
_MAX_DIMENSIONS = 8


def names_a_file(text: str) -> bool:
    """Whether an argument is a file rather than an expression: by its ending, or because it exists.

    Example:
        >>> names_a_file("p.npy"), names_a_file("a.npz:logits"), names_a_file("Normal(0, 1)")
        (True, True, False)
    """
    lower = text.lower()
    return lower.endswith((*ARRAY_FILES, *_PICKLED)) or ".npz:" in lower or _exists(text)


def read_tensor(text: str) -> Tensor:
    """The array in `file.npy`, `file.npz` (if it holds one) or `file.npz:name`, as a tensor.

    Raises:
        InputValueError: If there is no such file, or it is not an array of numbers of the size that it claims.
    """
    import numpy as np
    import torch

    path, _, member = text.partition(".npz:") if ".npz:" in text.lower() else (text, "", "")
    target = Path(f"{path}.npz" if member else path)
    suffix = target.suffix.lower()
    if suffix in _PICKLED:
        _refuse(
            text, f"{suffix} files may hold code that runs when they are read", 'numpy.save("p.npy", tensor.numpy())'
        )
    if not _exists(target):
        _refuse(text, "there is no such file", "")
    if not target.is_file():
        _refuse(text, "it is not a regular file", "")
    if suffix not in ARRAY_FILES:
        _refuse(text, "only .npy and .npz files are read", 'numpy.save("p.npy", tensor.numpy())')
    try:
        array = _read_npz(target, member, text) if suffix == ".npz" else _read_npy(target, text)
    except InputValueError:
        raise
    except Exception as error:  # noqa: BLE001 - a damaged header ends in a tokenizer, an archive in zlib, and more
        _refuse(text, f"it is damaged: {str(error).partition(chr(10))[0] or type(error).__name__}", "")
    if not array.dtype.isnative:
        array = array.astype(array.dtype.newbyteorder("="))
    if array.dtype.kind in "iu":
        array = array.astype(np.float64)
    if array.dtype.itemsize > 8:  # long double
        array = array.astype(np.float64)
    return torch.from_numpy(np.ascontiguousarray(array))


def _exists(path: str | Path) -> bool:
    try:
        return Path(path).exists()
    except (OSError, ValueError):  # too long for a name, or a NUL inside
        return False


def _read_npy(path: Path, text: str) -> np.ndarray:
    with path.open("rb") as file:
        return _read_stream(file, path.stat().st_size, text)


def _read_npz(path: Path, member: str, text: str) -> np.ndarray:
    with zipfile.ZipFile(path) as archive:
        names = [info.filename for info in archive.infolist()]
        wanted = f"{member}.npy" if member else names[0] if len(names) == 1 else ""
        if wanted not in names:
            shown = ", ".join(name.removesuffix(".npy") for name in names[:8])
            _refuse(
                text,
                f"it holds {len(names)} arrays: {shown}",
                f"{path}:{names[0].removesuffix('.npy')}" if names else "",
            )
        info = archive.getinfo(wanted)
        if info.file_size > _MAX_UNPACKED:
            _refuse(text, f"{wanted} claims {info.file_size} bytes, more than {_MAX_UNPACKED}", "a .npy file")
        with archive.open(info) as file:
            return _read_stream(file, info.file_size, text)


def _read_stream(file: IO[bytes], size: int, text: str) -> np.ndarray:
    """One array of the .npy format, read only after its header and its size agree."""
    import numpy as np
    from numpy.lib import format as npy

    version = npy.read_magic(file)
    readers: dict[tuple[int, int], Callable[..., tuple[tuple[int, ...], bool, np.dtype]]] = {
        (1, 0): npy.read_array_header_1_0,
        (2, 0): npy.read_array_header_2_0,
    }
    if version not in readers:
        _refuse(text, f"its format version {version} is not supported", "numpy.save with a current numpy")
    shape, fortran, dtype = readers[version](file, max_header_size=_MAX_HEADER)
    if dtype.hasobject or dtype.kind not in "fiu" or dtype.subdtype is not None:
        _refuse(text, f"it holds {dtype}, not numbers; objects are pickles and are never read", "an array of float32")
    if len(shape) > _MAX_DIMENSIONS or any(length < 0 for length in shape):
        _refuse(text, f"its shape {shape} is not possible", "")
    wanted, there = math.prod(shape) * dtype.itemsize, size - file.tell()
    if wanted != there:
        _refuse(text, f"its header promises {wanted} bytes of shape {shape} and {there} follow", "")
    content = file.read(wanted)
    if len(content) != wanted:
        _refuse(text, f"it ends after {len(content)} of {wanted} bytes", "")
    flat = np.frombuffer(bytearray(content), dtype=dtype)
    return flat.reshape(shape, order="F" if fortran else "C")


def _refuse(text: str, why: str, instead: str) -> NoReturn:
    shown = text if len(text) <= 120 else text[:120] + "…"
    raise InputValueError(explain_problem(f"{shown} cannot be read: {why}.", instead=instead))
