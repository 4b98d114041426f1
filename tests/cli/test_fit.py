"""`kullback fit`: expressions, files, rankings, errors."""

import json

import numpy as np
import pytest

from kullback.cli.main import main

TWO_BUMPS = "0.5*Normal(-2, 0.6) + 0.5*Normal(2, 0.6)"


def test_expression(capsys):
    assert main(["fit", TWO_BUMPS, "Normal"]) == 0
    assert "0.555156" in capsys.readouterr().out


def test_reverse_as_json(capsys):
    assert main(["fit", TWO_BUMPS, "normal", "--direction", "reverse", "--json"]) == 0
    record = json.loads(capsys.readouterr().out)
    assert record["kl"] == pytest.approx(0.691836, abs=1e-5)
    assert len(record["optima"]) == 3


def test_files(tmp_path, capsys):
    x = np.random.default_rng(0).gamma(2.0, 1.0, 300)
    np.save(tmp_path / "x.npy", x)
    (tmp_path / "x.csv").write_text("time\n" + "\n".join(map(str, x)))
    for name in ("x.npy", "x.csv"):
        assert main(["fit", str(tmp_path / name), "Gamma", "Exponential", "Normal"]) == 0
        assert capsys.readouterr().out.splitlines()[1].startswith("Gamma")
    (tmp_path / "table.csv").write_text("place,time\n" + "\n".join(f"here,{each}" for each in x))
    assert main(["fit", str(tmp_path / "table.csv"), "Gamma", "Normal", "--columns", "time"]) == 0
    assert capsys.readouterr().out.splitlines()[1].startswith("Gamma")
    np.save(tmp_path / "c.npy", np.array([5, 10, 7, 3]))
    assert main(["fit", str(tmp_path / "c.npy"), "Poisson", "--as", "counts"]) == 0
    assert "rate" in capsys.readouterr().out


def test_picture(tmp_path):
    pytest.importorskip("matplotlib").use("Agg")
    target = tmp_path / "fit.png"
    assert main(["fit", "Gamma(2, 1)", "Weibull", "--plot", str(target)]) == 0
    assert target.stat().st_size > 1000


@pytest.mark.parametrize(
    "arguments",
    [
        ["Normal(0, 1)", "Norml"],
        ["Cauchy(0, 1)", "Normal"],
        ["missing.csv", "Normal"],
        ["Normal(0, 1)", "Normal", "--direction", "sideways"],
        ["Normal(0, 1)", "Normal", "--plot", "x.exe"],
    ],
)
def test_errors_are_one_line(arguments, capsys):
    assert main(["fit", *arguments]) == 2
    assert len(capsys.readouterr().err.strip().splitlines()) == 1


def test_damaged_text(tmp_path, capsys):
    (tmp_path / "x.csv").write_text("1,2\n3\n")
    assert main(["fit", str(tmp_path / "x.csv"), "Normal"]) == 2
    (tmp_path / "y.csv").write_text("1\nabc\n")
    assert main(["fit", str(tmp_path / "y.csv"), "Normal"]) == 2
    assert "row 2 of column 0 holds 'abc', not a number" in capsys.readouterr().err
    (tmp_path / "z.txt").write_text("1 2\n3 abc\n")
    assert main(["fit", str(tmp_path / "z.txt"), "Normal"]) == 2
    assert "Line 2" in capsys.readouterr().err
