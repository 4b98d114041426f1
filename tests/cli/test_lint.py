"""`kullback lint` on the command line: output, exit statuses, rewrites, rule pages."""

import io
import json

import pytest

from kullback.cli.main import main

WRONG = "import torch.nn.functional as F\nloss = F.kl_div(F.softmax(x, -1), y, reduction='sum')\n"
REWRITABLE = "import torch\ny = torch.log(torch.softmax(x, 1))\n"


@pytest.fixture
def wrong(tmp_path):
    file = tmp_path / "a.py"
    file.write_text(WRONG)
    return str(file)


def test_findings_give_status_1_and_the_source_line(wrong, capsys):
    assert main(["lint", wrong]) == 1
    out = capsys.readouterr().out
    assert f"{wrong}:2:17: KL002 error: " in out
    assert "                ^^^^^^^^^^^^^^^^" in out
    assert "1 file checked: 1 error" in out


def test_nothing_found_gives_status_0(tmp_path, capsys):
    (tmp_path / "a.py").write_text("import torch\n")
    assert main(["lint", str(tmp_path)]) == 0
    assert "nothing found" in capsys.readouterr().out


def test_standard_input(capsys, monkeypatch):
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(WRONG.encode())))
    assert main(["lint", "-", "--format", "json"]) == 1
    assert json.loads(capsys.readouterr().out)["findings"][0]["path"] == "<stdin>"


def test_select_and_ignore(wrong):
    assert main(["lint", wrong, "--ignore", "KL002"]) == 0
    assert main(["lint", wrong, "--select", "KL001,KL01"]) == 0


def test_diff_changes_nothing_and_fix_does(tmp_path, capsys):
    file = tmp_path / "a.py"
    file.write_text(REWRITABLE)
    assert main(["lint", str(file), "--diff"]) == 1
    assert "+y = torch.log_softmax(x, 1)" in capsys.readouterr().out
    assert file.read_text() == REWRITABLE
    assert main(["lint", str(file), "--fix"]) == 0
    assert file.read_text() == "import torch\ny = torch.log_softmax(x, 1)\n"


def test_explain_prints_the_page(capsys):
    assert main(["lint", "--explain", "kl010"]) == 0
    out = capsys.readouterr().out
    assert "Wrong:" in out
    assert "Right, in kullback:" in out


@pytest.mark.parametrize(
    "arguments", [[], ["nowhere.py"], ["--explain", "KL999"], [".", "--format", "xml"], [".", "--select", "KL9"]]
)
def test_wrong_calls_give_status_2_and_one_line(arguments, capsys):
    assert main(["lint", *arguments]) == 2
    assert len(capsys.readouterr().err.strip().split("\n")) == 1
