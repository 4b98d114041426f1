"""`kullback estimate`."""

import json

import numpy as np
import pytest

from kullback.cli.main import main


@pytest.fixture
def files(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    random = np.random.default_rng(0)
    x, y = random.normal(size=(400, 2)), random.normal((1.0, 0.0), size=(500, 2))
    np.save("x.npy", x[:, 0])
    np.save("y.npy", y[:, 0])
    for name, table in (("x.csv", x), ("y.csv", y)):
        np.savetxt(name, table, delimiter=",", header="shifted,same", comments="")
    return tmp_path


def test_npy_files(files, capsys):
    assert main(["estimate", "x.npy", "y.npy"]) == 0
    out = capsys.readouterr().out
    assert out.startswith("KL(p ‖ q) ≈ 0.")
    assert "nearest neighbours" in out


def test_columns_of_csv_files_and_json(files, capsys):
    assert main(["estimate", "x.csv", "y.csv", "--columns", "shifted", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["low"] < 0.5 < found["high"]
    assert main(["estimate", "x.csv", "y.csv", "--columns", "same", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["value"] == pytest.approx(0, abs=0.2)


def test_parquet_files(files, capsys):
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    for name, values in (("x.parquet", [0, 0, 1, 2] * 20), ("y.parquet", [0, 1, 1, 2] * 20)):
        parquet.write_table(pyarrow.table({"kind": values, "text": ["a"] * 80}), name)
    assert main(["estimate", "x.parquet", "y.parquet", "--columns", "kind", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["method"] == "zhang-grabchak"
    assert main(["estimate", "x.parquet", "y.parquet"]) == 2
    assert "not numbers" in capsys.readouterr().err


def test_samples_against_a_distribution_and_two_distributions(files, capsys):
    assert main(["estimate", "x.npy", "Normal(1, 1)", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["value"] == pytest.approx(0.5, abs=0.3)
    assert main(["estimate", "Normal(0, 1)", "Normal(1, 1)", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["value"] == pytest.approx(0.5)


def test_counts_and_bits(files, capsys):
    np.save("a.npy", np.array([50, 30, 20]))
    np.save("b.npy", np.array([10, 30, 60]))
    assert main(["estimate", "a.npy", "b.npy", "--as", "counts", "--bits"]) == 0
    assert "bits" in capsys.readouterr().out
    assert main(["estimate", "a.npy", "b.npy", "--as", "counts", "--fail-above", "0.1"]) == 3
    assert main(["estimate", "a.npy", "b.npy", "--as", "counts", "--fail-above", "9"]) == 0


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("", "empty"),
        ("a,b\n1,2\n3,x\n", "row 2 of column b holds 'x'"),
        ("a,b\n1,2\n3\n", "row 2 of column b holds nothing"),
        ("a\n1\nnan\n2\n", "NaN or infinity"),
    ],
)
def test_csv_files_that_cannot_be_used(files, capsys, content, words):
    (files / "bad.csv").write_text(content)
    assert main(["estimate", "bad.csv", "bad.csv"]) == 2
    assert words in capsys.readouterr().err


def test_wrong_names_are_refused(files, capsys):
    for arguments, words in (
        (["estimate", "none.csv", "y.csv"], "no such file"),
        (["estimate", "x.csv", "y.csv", "--columns", "z"], "no column 'z', only shifted, same"),
        (["estimate", "x.npy", "y.npy", "--columns", "z"], "no names"),
        (["estimate", "x.npy", "y.npy", "--method", "magic"], "No such method"),
        (["estimate", "x.npy", "y.npy", "--as", "categories"], "whole numbers"),
    ):
        assert main(arguments) == 2
        assert words in capsys.readouterr().err
