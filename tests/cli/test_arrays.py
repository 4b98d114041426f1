"""Files from anywhere: read if they are arrays of numbers, refused in one sentence if not."""

import contextlib
import io
import pickle
import struct
import zipfile

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from kullback import InputValueError
from kullback.cli.arrays import read_tensor


def header(description, version=b"\x01\x00"):
    text = description.encode("latin1") + b"\n"
    return b"\x93NUMPY" + version + struct.pack("<H", len(text)) + text


def refused(path, match):
    with pytest.raises(InputValueError, match=match):
        read_tensor(str(path))


@pytest.mark.parametrize("dtype", ["<f4", ">f8", "<f2", "<i4", "|u1"])
@pytest.mark.parametrize("order", ["C", "F"])
def test_numbers_of_any_order(tmp_path, dtype, order):
    array = np.arange(6).reshape(2, 3).astype(dtype, order=order)
    np.save(tmp_path / "a.npy", array)
    assert read_tensor(str(tmp_path / "a.npy")).tolist() == array.tolist()


def test_pickles_are_never_read(tmp_path):
    class Harm:
        def __reduce__(self):
            return (pytest.fail, ("code of a file was run",))

    np.save(tmp_path / "a.npy", np.array([Harm()], dtype=object), allow_pickle=True)
    refused(tmp_path / "a.npy", "pickles")
    (tmp_path / "b.npy").write_bytes(pickle.dumps(Harm()))
    refused(tmp_path / "b.npy", "damaged")
    torch.save(torch.zeros(3), tmp_path / "c.pt")
    refused(tmp_path / "c.pt", r"\.pt files may hold code")
    np.savez(tmp_path / "d.npz", np.array([Harm()], dtype=object))
    refused(tmp_path / "d.npz", "pickles")


def test_sizes_that_lie(tmp_path):
    path = tmp_path / "a.npy"
    np.save(path, np.zeros((4, 5)))
    path.write_bytes(path.read_bytes()[:-8])
    refused(path, "promises 160 bytes")
    path.write_bytes(header("{'descr': '<f8', 'fortran_order': False, 'shape': (1000000000000, 1000000), }"))
    refused(path, "promises")
    path.write_bytes(header("{'descr': '<f8', 'fortran_order': False, 'shape': (-1,), }") + bytes(8))
    refused(path, "not possible")
    path.write_bytes(b"\x93NUMPY\x02\x00" + struct.pack("<I", 1 << 31) + b"{")
    refused(path, "damaged")
    path.write_bytes(header("{'descr': '<f8', 'fortran_order': False, 'shape': (" + "1," * 20000 + ")}"[:40000]))
    refused(path, "cannot be read")


def test_archives(tmp_path):
    path = tmp_path / "a.npz"
    np.savez_compressed(path, x=np.ones(3), y=np.zeros(2))
    assert read_tensor(f"{path}:x").tolist() == [1, 1, 1]
    refused(path, "holds 2 arrays: x, y")
    refused(f"{path}:z", "holds 2 arrays")
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("x.npy", header("{'descr': '<f8', 'fortran_order': False, 'shape': (8,), }") + bytes(1 << 20))
    refused(path, "promises 64 bytes")
    path.write_bytes(b"PK\x03\x04 nothing")
    refused(path, "damaged")


def test_things_that_are_no_files(tmp_path):
    refused(tmp_path / "missing.npy", "no such file")
    (tmp_path / "folder.npy").mkdir()
    refused(tmp_path / "folder.npy", "not a regular file")
    (tmp_path / "a.txt").write_text("1 2 3")
    refused(tmp_path / "a.txt", "only .npy and .npz")
    np.save(tmp_path / "s.npy", np.array(["a"]))
    refused(tmp_path / "s.npy", "not numbers")


def valid() -> bytes:
    file = io.BytesIO()
    np.save(file, np.arange(6.0))
    return file.getvalue()


@settings(max_examples=150, deadline=None)
@given(at=st.integers(0, 175), byte=st.integers(0, 255), cut=st.integers(0, 176))
def test_damaged_files_are_refused_or_read(tmp_path_factory, at, byte, cut):
    content = bytearray(valid())
    content[at] = byte
    path = tmp_path_factory.getbasetemp() / "fuzz.npy"
    path.write_bytes(bytes(content[: max(cut, 1)] if cut < 100 else content))
    with contextlib.suppress(InputValueError):
        assert read_tensor(str(path)).numel() <= 48
