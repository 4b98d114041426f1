"""Find and load the native library, and say which implementation is live and why.

The library is torch-free C++ with a C ABI (see `csrc/`), opened with ctypes once, on first use. Three things can
keep it out: `KULLBACK_NATIVE=0` in the environment, a build without a compiler, and a stale build.
"""

from __future__ import annotations

import ctypes
import functools
import os
import sys
from pathlib import Path
from typing import NamedTuple

ABI_VERSION = 18

_FILE_NAMES = {"win32": "libkullback_native.dll", "darwin": "libkullback_native.dylib"}


class Status(NamedTuple):
    """Which kernels run.

    Attributes:
        implementation: `"native"` or `"reference"` (pure torch).
        reason: Why, in one sentence.
        instruction_set: `"baseline"`, `"avx2"` or `"avx512"`; empty for the reference. `KULLBACK_ISA` forces one.
        threads: How many threads a large tensor uses, `torch.get_num_threads()` or 1.
        parallel_runtime: Path of the OpenMP runtime that runs them; empty if everything runs on the calling thread.
        devices: What computes divergences of tensors on other devices.
    """

    implementation: str
    reason: str
    instruction_set: str = ""
    threads: int = 1
    parallel_runtime: str = ""
    devices: str = ""

    def __str__(self) -> str:
        elsewhere = f"; other devices: {self.devices}" if self.devices else ""
        if self.implementation == "reference":
            return f"reference kernels: {self.reason}{elsewhere}"
        runtime = self.parallel_runtime or "no OpenMP runtime of torch's was found, or this process was forked"
        live = f"native kernels: {self.reason}, {self.instruction_set}, {self.threads} thread(s) ({runtime})"
        return live + elsewhere


class _Loaded(NamedTuple):
    library: ctypes.CDLL | None
    reason: str


@functools.cache
def _load() -> _Loaded:
    if os.environ.get("KULLBACK_NATIVE", "1") == "0":
        return _Loaded(None, "KULLBACK_NATIVE=0 is set in the environment")
    name = _FILE_NAMES.get(sys.platform, "libkullback_native.so")
    path = next((p for p in _candidates(name) if p.is_file()), None)
    if path is None:
        return _Loaded(None, f"{name} was not built with this installation (no C++ compiler at build time?)")
    try:
        library = ctypes.CDLL(str(path))
    except OSError as error:
        return _Loaded(None, f"{name} could not be loaded: {error}")
    found = int(library.kullback_abi_version())
    if found != ABI_VERSION:
        return _Loaded(None, f"{name} speaks ABI {found}, this package ABI {ABI_VERSION}: reinstall kullback")
    _declare(library)
    return _Loaded(library, f"{name} is loaded")


def _declare(library: ctypes.CDLL) -> None:
    """Argument and result types of the exported functions (`csrc/api.cpp`)."""
    pointer, integer, long = ctypes.c_void_p, ctypes.c_int32, ctypes.c_int64
    library.kullback_instruction_set.restype = ctypes.c_char_p
    library.kullback_parallel_runtime.restype = ctypes.c_char_p
    library.kullback_function_index.argtypes = [ctypes.c_char_p]
    library.kullback_elementwise.argtypes = [
        *(integer, integer, long),
        *(pointer, pointer, pointer, pointer),
        *(integer, pointer),
    ]
    for rows in (library.kullback_rows_forward, library.kullback_rows_backward):
        rows.argtypes = [ctypes.c_char_p]
        rows.restype = long
    library.kullback_pair_index.argtypes = [ctypes.c_char_p]
    pairs = library.kullback_pair_forward, library.kullback_pair_backward, library.kullback_pair_together
    dirichlet = library.kullback_dirichlet_forward, library.kullback_dirichlet_backward
    for pair in (*pairs, *dirichlet):
        pair.argtypes = [ctypes.c_char_p]


def _candidates(name: str) -> list[Path]:
    """In every folder of this package: an editable install keeps its build products apart from its sources."""
    import kullback.kernels

    return [Path(folder) / "lib" / name for folder in kullback.kernels.__path__]


def library() -> ctypes.CDLL | None:
    """The native library, or None where the pure-torch reference has to do."""
    return _load().library


def status() -> Status:
    """Which implementation of the kernels is live, and why.

    Example:
        >>> import kullback
        >>> kullback.kernels.status().implementation in {"native", "reference"}
        True
    """
    import torch

    from kullback.kernels.device_rows.op import describe

    library, reason = _load()
    if library is None:
        return Status("reference", reason, devices=describe())

    runtime = library.kullback_parallel_runtime().decode()
    threads = torch.get_num_threads() if runtime else 1
    return Status("native", reason, library.kullback_instruction_set().decode(), threads, runtime, describe())
