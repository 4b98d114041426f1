"""`compare` and the readers: formats, chunks, damaged files, several others, the page."""

import json
import struct
import zipfile

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

import kullback as kb
from kullback import Logits, compare
from kullback.comparison.readers import open_rows


@pytest.fixture
def arrays():
    generator = torch.Generator().manual_seed(1)
    base = 2 * torch.randn(6, 15, 33, generator=generator)
    return base, base + 0.3 * torch.randn(6, 15, 33, generator=generator)


def expected(a, b):
    return float(kb.kl(Logits(a.double()), Logits(b.double())).mean())


def test_formats_give_the_same_rows(tmp_path, arrays):
    a, b = arrays
    truth = expected(a, b)
    np.save(tmp_path / "a.npy", a.numpy())
    np.save(tmp_path / "fortran.npy", np.asfortranarray(b.reshape(90, 33).numpy()))
    np.save(tmp_path / "big.npy", b.numpy().astype(">f4"))
    np.savez(tmp_path / "b.npz", other=np.zeros(3), logits=b.numpy())
    np.savez_compressed(tmp_path / "c.npz", logits=b.numpy())
    save_file({"logits": b}, tmp_path / "b.safetensors")
    save_file({"logits": a, "other": b}, tmp_path / "two.safetensors")
    flat = b.reshape(90, 33)
    save_file({"logits.0": flat[:40].contiguous()}, tmp_path / "part-1.safetensors")
    save_file({"logits.1": flat[40:].contiguous()}, tmp_path / "part-2.safetensors")
    index = {"weight_map": {"logits.1": "part-2.safetensors", "logits.0": "part-1.safetensors"}}
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps(index))
    for name in ("fortran.npy", "big.npy", "b.npz:logits", "c.npz", "b.safetensors", "model.safetensors.index.json"):
        result = compare(tmp_path / "a.npy", str(tmp_path / name), kind="logits")
        assert result.rows == 90
        assert result.kl.mean == pytest.approx(truth, rel=1e-5), name
    with pytest.raises(kb.InputValueError, match=r"two.safetensors:logits"):
        open_rows(tmp_path / "two.safetensors")


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
def test_dtypes_of_files(tmp_path, arrays, dtype):
    a, b = (t.to(dtype) for t in arrays)
    save_file({"x": a}, tmp_path / "a.safetensors")
    save_file({"x": b}, tmp_path / "b.safetensors")
    result = compare(tmp_path / "a.safetensors", tmp_path / "b.safetensors", kind="logits")
    assert result.kl.mean == pytest.approx(expected(a, b), rel=1e-5)


def test_chunks_do_not_change_a_digit(tmp_path, arrays, monkeypatch):
    a, b = arrays
    whole = compare(Logits(a), Logits(b)).to_dict()
    monkeypatch.setattr("kullback.comparison.compare._CHUNK_BYTES", 33 * 4 * 7)
    assert compare(Logits(a), Logits(b)).to_dict() == whole


def test_blocks_are_contexts_and_labels_give_the_perplexity_ratio(arrays):
    a, b = arrays
    labels = torch.arange(90) % 33
    result = compare(Logits(a), Logits(b), labels=labels)
    assert result.kl.blocks == 6
    losses = [torch.nn.functional.cross_entropy(t.reshape(90, 33).double(), labels) for t in (a, b)]
    assert result.perplexity_ratio == pytest.approx(float((losses[1] - losses[0]).exp()), rel=1e-5)


def test_several_others_are_compared_row_by_row(arrays):
    a, b = arrays
    result = compare(Logits(a), [Logits(b), Logits(a + 0.5 * (b - a))])
    (pair,) = result.paired
    assert pair.difference.mean == pytest.approx(result.others[1].measures["kl"].mean - result.kl.mean, rel=1e-9)
    assert pair.difference.high < 0.05
    text = str(result)
    assert "Paired differences" in text
    assert "<table>" in result._repr_html_()


def test_llama_cpp_file(tmp_path):
    context, vocabulary, chunks = 8, 13, 3
    tokens = np.arange(context * chunks, dtype=np.int32) % vocabulary
    generator = np.random.default_rng(0)
    rows = chunks * (context - 1 - context // 2)
    logits = generator.normal(size=(rows, vocabulary)).astype(np.float32) * 2
    content = b"_logits_" + struct.pack("<3i", context, vocabulary, chunks) + tokens.tobytes()
    for row in logits:
        log_p = row - np.log(np.exp(row).sum())
        scale = np.float32((log_p.max() - log_p.min()) / 65535)
        codes = np.rint((log_p - log_p.min()) / scale).astype(np.uint16)
        padded = np.zeros(2 * ((vocabulary + 1) // 2), np.uint16)
        padded[:vocabulary] = codes
        content += struct.pack("<2f", scale, log_p.min()) + padded.tobytes()
    (tmp_path / "base.kld").write_bytes(content)
    np.save(tmp_path / "q.npy", logits)
    result = compare(tmp_path / "base.kld", tmp_path / "q.npy", kind="logits")
    assert result.rows == rows
    assert 0 <= result.kl.mean < 1e-8
    assert result.perplexity_ratio == pytest.approx(1, abs=1e-3)
    (tmp_path / "short.kld").write_bytes(content[:-4])
    with pytest.raises(kb.InputValueError, match="promises"):
        open_rows(tmp_path / "short.kld")


def write_zip_with_false_size(path):
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("x.npy", b"\x93NUMPY\x01\x00")


DAMAGED = {
    "empty.npy": lambda path: path.write_bytes(b""),
    "cut.npy": lambda path: (np.save(path, np.zeros((4, 5))), path.write_bytes(path.read_bytes()[:-8])),
    "objects.npy": lambda path: np.save(path, np.array([{}], dtype=object), allow_pickle=True),
    "text.npy": lambda path: np.save(path, np.array(["a"])),
    "short.safetensors": lambda path: path.write_bytes(b"\x05"),
    "huge.safetensors": lambda path: path.write_bytes(struct.pack("<Q", 1 << 60) + b"{}"),
    "list.safetensors": lambda path: path.write_bytes(struct.pack("<Q", 2) + b"[]"),
    "offsets.safetensors": lambda path: path.write_bytes(
        struct.pack("<Q", 64) + b'{"x":{"dtype":"F32","shape":[9,9],"data_offsets":[0,324]}}'.ljust(64)
    ),
    "negative.safetensors": lambda path: path.write_bytes(
        struct.pack("<Q", 64) + b'{"x":{"dtype":"F32","shape":[-1,9],"data_offsets":[0,0]}}'.ljust(64)
    ),
    "up.safetensors.index.json": lambda path: path.write_text('{"weight_map": {"x": "../../etc/passwd"}}'),
    "no.safetensors.index.json": lambda path: path.write_text("[1]"),
    "bad.npz": lambda path: path.write_bytes(b"PK"),
    "false.npz": write_zip_with_false_size,
    "model.pt": lambda path: path.write_bytes(b""),
    "what.txt": lambda path: path.write_text("hello"),
}


@pytest.mark.parametrize("name", DAMAGED)
def test_damaged_files_are_refused_in_words(tmp_path, name):
    DAMAGED[name](tmp_path / name)
    with pytest.raises(kb.InputValueError, match="cannot be read"):
        open_rows(tmp_path / name)


def test_wrong_calls_say_what_to_write(tmp_path, arrays):
    a, b = arrays
    np.save(tmp_path / "a.npy", a.numpy())
    np.save(tmp_path / "p.npy", a.softmax(-1).numpy())
    np.save(tmp_path / "wide.npy", np.zeros((6, 15, 40), np.float32))
    with pytest.raises(kb.InputValueError, match="--as probs"):
        compare(tmp_path / "p.npy", tmp_path / "p.npy")
    with pytest.raises(kb.ShapeError, match="33 classes"):
        compare(tmp_path / "a.npy", tmp_path / "wide.npy", kind="logits")
    assert compare(tmp_path / "a.npy", tmp_path / "wide.npy", kind="logits", align="truncate").rows == 90
    with pytest.raises(kb.ShapeError, match="rows"):
        compare(Logits(a), Logits(b[:5]))
    with pytest.raises(kb.InputTypeError, match="Logits"):
        compare(a, b)
    with pytest.raises(kb.ShapeError, match="labels"):
        compare(Logits(a), Logits(b), labels=torch.zeros(3, dtype=torch.long))
    with pytest.raises(kb.InputValueError, match="no such file"):
        compare("nowhere.npy", "nowhere.npy", kind="logits")


def test_errors_name_the_file_and_the_row(tmp_path, monkeypatch):
    rows = np.full((20, 8), 0.125, np.float32)
    rows[13, 2] = -1
    np.save(tmp_path / "p.npy", rows)
    monkeypatch.setattr("kullback.comparison.compare._CHUNK_BYTES", 8 * 4 * 5)
    with pytest.raises(kb.InputValueError, match=r"From row 10 on, where p is .*p.npy, q is .*p\[3\] has a negative"):
        compare(tmp_path / "p.npy", tmp_path / "p.npy", kind="probs")


def test_tables_are_sent_to_compare_tables(tmp_path):
    (tmp_path / "a.csv").write_text("x\n1\n")
    with pytest.raises(kb.InputValueError, match="compare_tables"):
        compare(tmp_path / "a.csv", tmp_path / "a.csv")
