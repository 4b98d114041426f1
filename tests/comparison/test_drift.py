"""Drift of tables: thresholds from χ², unseen categories apart, few false alarms, damaged files."""

import json

import numpy as np
import pytest
import torch

import kullback as kb
from kullback.cli.main import main
from kullback.comparison.drift import chi2_quantile, compare_tables


def test_chi2_quantiles_are_those_of_the_table():
    for share, degrees, expected in ((0.95, 1, 3.841459), (0.95, 9, 16.918978), (0.99, 99, 134.641617)):
        assert chi2_quantile(share, degrees) == pytest.approx(expected, rel=1e-6)


def test_threshold_of_a_hundred_rows_is_above_the_folklore_limit():
    generator = np.random.default_rng(0)
    column = compare_tables({"x": generator.normal(size=100)}, {"x": generator.normal(size=100)}).columns[0]
    assert column.threshold == pytest.approx(16.919 * 0.02, rel=1e-4)


def test_no_drift_gives_few_alarms_and_no_bias():
    generator = np.random.default_rng(1)
    results = [
        compare_tables({"x": generator.normal(size=500)}, {"x": generator.normal(size=700)}).columns[0]
        for _ in range(300)
    ]
    assert sum(column.drifted for column in results) / 300 < 0.09
    raw = np.mean([column.raw_psi for column in results])
    assert raw == pytest.approx(9 * (1 / 500 + 1 / 700), rel=0.12)


def test_a_shift_is_found_and_its_size_is_right():
    generator = np.random.default_rng(2)
    base, other = generator.normal(size=200_000), generator.normal(0.5, 1, size=200_000)
    column = compare_tables({"x": base}, {"x": other}, bins=100).columns[0]
    assert column.drifted
    assert column.psi == pytest.approx(0.25, rel=0.03)  # Jeffreys of two normals is δ²
    assert column.kl == pytest.approx(0.125, rel=0.05)


def test_unseen_categories_and_missing_values_stand_apart():
    base = {"c": ["a"] * 50 + ["b"] * 50, "only": [1] * 100}
    other = {"c": ["a"] * 50 + ["b"] * 40 + ["new"] * 7 + [None] * 3}
    result = compare_tables(base, other)
    column = result.columns[0]
    assert column.unseen == {"new": 7}
    assert column.kl < 0.05
    codes = {finding.code for finding in result.findings}
    assert {"unseen", "columns-differ", "missing"} <= codes


def test_files_and_samples(tmp_path, capsys):
    generator = np.random.default_rng(3)
    first, second = (tmp_path / name for name in ("a.csv", "b.csv"))
    for path, shift in ((first, 0.0), (second, 1.0)):
        lines = [f"{x + shift},{'red' if x > 0 else 'blue'}" for x in generator.normal(size=400)]
        path.write_text("x,color\n" + "\n".join(lines) + "\n")
    options = ["compare", str(first), str(second), "--json"]
    assert main(options) == 0
    record = json.loads(capsys.readouterr().out)
    assert [column["name"] for column in record["columns"] if column["drifted"]] == ["x"]
    assert main([*options, "--fail-over", "drifted=0"]) == 3
    assert main([*options, "--fail-over", "psi=50"]) == 0
    assert main(["compare", str(first), str(second), "--columns", "y"]) == 2
    import pyarrow
    from pyarrow import parquet

    parquet.write_table(pyarrow.table({"x": [1.0, 2.0], "c": ["a", "b"]}), tmp_path / "t.parquet")
    assert len(compare_tables(tmp_path / "t.parquet", tmp_path / "t.parquet").columns) == 2
    x = torch.randn(200, 3, generator=torch.Generator().manual_seed(0))
    assert len(compare_tables(kb.Samples(x), kb.Samples(x)).columns) == 3
    assert "columns drifted" in str(compare_tables(kb.Samples(x), kb.Samples(x)))


@pytest.mark.parametrize("content", ["", "a,a\n1,2\n", "a,b\n1\n", 'a\n"' + "x" * 2_000_000 + '"\n'])
def test_damaged_tables_are_refused(tmp_path, content):
    (tmp_path / "t.csv").write_text(content)
    with pytest.raises(kb.InputValueError):
        compare_tables(tmp_path / "t.csv", tmp_path / "t.csv")


def test_chunks_of_tables_do_not_change_a_figure(tmp_path, monkeypatch):
    generator = np.random.default_rng(4)
    lines = [f"{x},{int(10 * x)},{'abcd'[int(4 * x)]},{i % 3}.0" for i, x in enumerate(generator.random(700))]
    (tmp_path / "a.csv").write_text("x,n,c,few\n" + "\n".join(lines[:350]) + "\n")
    (tmp_path / "b.csv").write_text("x,n,c,few\n" + "\n".join(lines[350:]) + "\nna,,zebra,1\n")
    whole = compare_tables(tmp_path / "a.csv", tmp_path / "b.csv").to_dict()
    monkeypatch.setattr("kullback.comparison.tables._CHUNK_ROWS", 13)
    assert compare_tables(tmp_path / "a.csv", tmp_path / "b.csv").to_dict() == whole
    by_name = {column["name"]: column for column in whole["columns"]}
    assert by_name["c"]["unseen"] == {"zebra": 1}
    assert by_name["few"]["edges"] == ["0", "1", "2"]
    assert by_name["x"]["rows"] == (350, 350)
    monkeypatch.setattr("kullback.comparison.column_counts.MAX_SAMPLE", 100)
    thinned = compare_tables(tmp_path / "a.csv", tmp_path / "b.csv").columns[0]
    assert thinned.rows == (350, 350)
    assert thinned.bins == 10
    assert min(thinned.shares[0]) > 0.04  # edges of a hundred values still hold about a tenth each


def test_rare_categories_share_a_bin(monkeypatch):
    monkeypatch.setattr("kullback.comparison.column_counts._MAX_CATEGORIES", 3)
    base = {"c": ["a"] * 40 + ["b"] * 30 + ["c"] * 2 + ["d"] * 2 + ["e"]}
    other = {"c": ["a"] * 40 + ["b"] * 30 + ["d"] * 4 + ["new"]}
    column = compare_tables(base, other).columns[0]
    assert list(column.edges) == ["a", "b", "all other categories"]
    assert column.shares[0][2] == pytest.approx(5 / 75)
    assert column.shares[1][2] == pytest.approx(4 / 74)
    assert column.unseen == {"new": 1}


def test_neighbours_see_a_change_inside_a_bin():
    generator = np.random.default_rng(5)
    base, other = generator.normal(size=2000), generator.normal(0.5, 1, size=2000)
    column = compare_tables({"x": base}, {"x": other}, neighbours=True).columns[0]
    assert column.neighbour_kl is not None
    value, low, high = column.neighbour_kl
    assert low < 0.125 < high
    assert value == pytest.approx(0.125, abs=0.08)
