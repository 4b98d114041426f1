"""`kullback compare` as a user calls it: exit status, JSON, HTML, limits, resume."""

import json
from pathlib import Path

import numpy as np
import pytest

from kullback.cli.main import main
from kullback.comparison import compare as module


@pytest.fixture
def files(tmp_path):
    generator = np.random.default_rng(0)
    base = generator.normal(size=(4, 16, 50)).astype(np.float32) * 2
    np.save(tmp_path / "a.npy", base)
    np.save(tmp_path / "b.npy", base + 0.2 * generator.normal(size=base.shape).astype(np.float32))
    np.save(tmp_path / "labels.npy", generator.integers(0, 50, 64))
    return [str(tmp_path / "a.npy"), str(tmp_path / "b.npy")]


def test_json_html_and_limits(files, tmp_path, capsys):
    report = tmp_path / "report.html"
    labels = str(tmp_path / "labels.npy")
    options = ["--as", "logits", "--json", "--html", str(report), "--labels", labels, "--fail-over", "mean=10"]
    assert main(["compare", *files, *options]) == 0
    record = json.loads(capsys.readouterr().out)
    other = record["others"][0]
    assert other["rows"] == 64
    assert 0 < other["kl"]["median"] < other["kl"]["q99"] <= other["kl"]["max"]
    assert other["perplexity_ratio"] > 0
    assert report.read_text().count("<svg") >= 3
    assert main(["compare", *files, "--as", "logits", "--fail-over", "mean=1e-9"]) == 3
    assert "over 1e-09" in capsys.readouterr().err
    assert main(["compare", *files, "--as", "logits", "--fail-over", "nonsense=1"]) == 2
    assert main(["compare", *files, "--as", "logits", "--fail-over", "mean"]) == 2
    assert main(["compare", *files]) == 2
    assert "--as logits" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["report.html", "figures.svg"])
def test_a_stop_while_a_report_is_written_leaves_the_one_before(name, files, tmp_path, monkeypatch):
    report = tmp_path / name
    report.write_text("the one before")
    there = set(tmp_path.iterdir())
    write = Path.open

    def stopped(path, mode="r", *rest, **options):
        if "w" in mode and path.suffix == report.suffix:
            write(path, mode, *rest, **options).close()
            raise KeyboardInterrupt
        return write(path, mode, *rest, **options)

    monkeypatch.setattr(Path, "open", stopped)
    monkeypatch.setattr("matplotlib.figure.Figure.savefig", lambda self, path, **options: path.open("wb"))
    option = "--html" if name.endswith("html") else "--plot"
    assert main(["compare", *files, "--as", "logits", option, str(report)]) == 130
    assert report.read_text() == "the one before"
    assert set(tmp_path.iterdir()) == there


def test_a_limit_does_not_hold_where_rows_or_columns_were_left_out(files, tmp_path, capsys):
    damaged = np.load(files[1])
    damaged[2, 3] = np.nan
    np.save(tmp_path / "nan.npy", damaged)
    options = [files[0], str(tmp_path / "nan.npy"), "--as", "logits"]
    assert main(["compare", *options]) == 0
    assert main(["compare", *options, "--fail-over", "mean=10"]) == 3
    assert "1 of 64 rows hold NaN" in capsys.readouterr().err
    (tmp_path / "full.csv").write_text("a,b\n" + "1,2\n" * 50)
    (tmp_path / "empty.csv").write_text("a,b\n" + "1,\n" * 50)
    tables = [str(tmp_path / "full.csv"), str(tmp_path / "empty.csv")]
    assert main(["compare", *tables, "--fail-over", "drifted=0"]) == 3
    assert "no values" in capsys.readouterr().err


def test_ctrl_c_prints_what_is_known_and_resume_continues(files, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(module, "_CHUNK_BYTES", 4 * 50 * 10)
    assert main(["compare", *files, "--as", "logits", "--json"]) == 0
    whole = json.loads(capsys.readouterr().out)
    state = tmp_path / "state.json"
    take = module.Job.take

    def interrupted(job, start, stop):
        if start >= 30:
            raise KeyboardInterrupt
        take(job, start, stop)

    with monkeypatch.context() as patch:
        patch.setattr(module.Job, "take", interrupted)
        assert main(["compare", *files, "--as", "logits", "--json", "--resume", str(state)]) == 130
    partial = json.loads(capsys.readouterr().out)
    assert partial["others"][0]["rows"] == 30
    assert not partial["complete"]
    assert main(["compare", *files[::-1], "--as", "logits", "--resume", str(state)]) == 2
    assert main(["compare", *files, "--as", "logits", "--json", "--resume", str(state)]) == 0
    assert json.loads(capsys.readouterr().out) == whole
    assert not state.exists()


def test_a_report_that_cannot_be_written_keeps_the_saved_state(files, tmp_path, capsys, monkeypatch):
    state = tmp_path / "state.json"
    monkeypatch.setattr("kullback.cli.compare._SAVE_SECONDS", -1.0)

    def fail(*_, **__):
        raise OSError("no space left")

    with monkeypatch.context() as patch:
        patch.setattr("kullback.cli.compare.emit", fail)
        assert main(["compare", *files, "--as", "logits", "--resume", str(state)]) != 0
    assert state.exists()
    assert main(["compare", *files, "--as", "logits", "--json", "--resume", str(state)]) == 0
    assert "continued at row" in capsys.readouterr().err
    assert not state.exists()


def test_odd_input_is_an_error_of_usage(files, tmp_path, capsys):
    nothing, nested = tmp_path / "nothing.npy", tmp_path / "nested.json"
    np.save(nothing, np.empty((4, 0), np.float32))
    nested.write_text("[" * 200_000)
    assert main(["compare", str(nothing), str(nothing), "--as", "logits"]) == 2
    assert main(["compare", *files, "--as", "logits", "--resume", str(nested)]) == 2
    assert main(["compare", *files, "--as", "logits", "--block", "1" + "0" * 30]) == 2
    assert "run again with --debug" not in capsys.readouterr().err
