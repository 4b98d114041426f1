"""Files of all kinds are read, comments silence, rewrites keep the meaning, and hostile files end in a reason."""

import json
import re
import subprocess
import sys

import pytest
import torch

from kullback.lint import lint_paths, lint_source
from kullback.lint.fix import fixed_text, rewrite
from kullback.lint.output import as_github, as_json, as_sarif, as_text
from kullback.lint.settings import SettingsError, read_settings
from kullback.lint.sources import UnreadableError

WRONG = "import torch.nn.functional as F\nloss = F.kl_div(F.softmax(x, -1), y, reduction='sum')\n"


def test_nothing_imports_torch():
    code = "import sys, kullback.lint, kullback.lint.output, kullback.lint.settings; print('torch' in sys.modules)"
    assert subprocess.check_output([sys.executable, "-c", code], text=True).strip() == "False"


def test_the_place_is_marked(tmp_path):
    file = tmp_path / "a.py"
    file.write_text("# π\n" + WRONG.replace("F.softmax", "'π' and F.softmax").replace("'π' and ", ""), encoding="utf-8")
    report = lint_paths([str(tmp_path)])
    assert [(f.code, f.line, f.column) for f in report.findings] == [("KL002", 3, 17)]
    lines = as_text(report).split("\n")
    assert lines[2].strip() == "^" * len("F.softmax(x, -1)")
    assert lines[1].index("F.softmax(") == lines[2].index("^")


def test_columns_count_characters_not_bytes():
    finding = lint_source(WRONG.replace("loss", "потеря"))[0]
    assert finding.column == len("потеря = F.kl_div(") + 1


@pytest.mark.parametrize(
    ("comment", "codes"),
    [
        ("# kullback: ignore[KL002]", []),
        ("# kullback: ignore", []),
        ("# kullback: ignore[KL010, KL002]", ["KL000"]),
        ("# kullback: ignore[KL010]", ["KL002", "KL000"]),
        ("# a note about kullback: nothing", ["KL002"]),
    ],
)
def test_comments_silence_and_unused_ones_are_reported(comment, codes):
    assert [f.code for f in lint_source(WRONG.rstrip("\n") + "  " + comment)] == codes


def test_a_comment_in_a_string_silences_nothing():
    assert [f.code for f in lint_source(WRONG + 's = "# kullback: ignore"')] == ["KL002"]


def test_a_comment_on_any_line_of_the_call_counts():
    code = WRONG.replace("F.softmax(x, -1)", "\n    F.softmax(x, -1)  # kullback: ignore[KL002]\n")
    assert lint_source(code) == []


def test_notebooks_are_read_cell_by_cell(tmp_path):
    cells = [
        {"cell_type": "markdown", "source": ["# title"]},
        {
            "cell_type": "code",
            "source": ["%matplotlib inline\n", "!pip install torch\n", "import torch.nn.functional as F"],
        },
        {"cell_type": "code", "source": "%%bash\nls"},
        {"cell_type": "code", "source": ["y = 1\n", "F.kl_div(F.softmax(x, -1), y, reduction='sum')"]},
    ]
    file = tmp_path / "a.ipynb"
    file.write_text(json.dumps({"cells": cells}))
    (finding,) = lint_paths([str(file)]).findings
    assert (finding.code, finding.cell, finding.line) == ("KL002", 3, 2)
    assert "cell 3:2:" in as_text(lint_paths([str(file)]))


@pytest.mark.parametrize(
    "content",
    [
        b"import torch\nx = F.kl_div(",
        b"import torch, kl_div\n\x00",
        b"# coding: nonsense\nimport torch",
        b"\xff\xfe\x00torch kl_div",
        b"import torch\nkl_div = " + b"(" * 5000 + b")" * 5000,
        b"import torch\nkl_div = a" + b".b" * 30_000,
        b"import torch\nkl_div = " + b"1" * 10_000,
        b"import torch # kl_div\n" * 200_000,
    ],
)
def test_hostile_files_are_named_and_skipped(tmp_path, content):
    file = tmp_path / "a.py"
    file.write_bytes(content)
    (tmp_path / "b.py").write_text(WRONG)
    report = lint_paths([str(tmp_path)])
    assert [f.path for f in report.findings] == [str(tmp_path / "b.py")]
    assert [path for path, _ in report.skipped] == [str(file)]
    assert "skipped: " in as_text(report)


@pytest.mark.parametrize(
    "content", [b"{", b"[]", b'{"cells": 3}', b'{"cells": [{"cell_type": "code"}]}', b"[" * 100_000]
)
def test_broken_notebooks_are_named(tmp_path, content):
    file = tmp_path / "a.ipynb"
    file.write_bytes(content)
    assert len(lint_paths([str(file)]).skipped) == 1


def test_many_conditional_assignments_end():
    """Without memory of what was resolved this takes exponential time."""
    body = "".join(f"if c{i}:\n    p = p.detach()\n    q = q2 = p\n" for i in range(300))
    lint_source(f"import torch.nn.functional as F\np = F.softmax(x, 1)\n{body}F.kl_div(p, y, reduction='sum')")


def test_a_loop_of_links_ends(tmp_path):
    (tmp_path / "a.py").write_text(WRONG)
    (tmp_path / "loop").symlink_to(tmp_path, target_is_directory=True)
    assert len(lint_paths([str(tmp_path)]).findings) == 1


def test_names_that_refer_to_each_other_end():
    assert (
        lint_source(
            "import torch.nn.functional as F\nfor i in z:\n    a = b\n    b = a\nF.kl_div(a, b, reduction='sum')"
        )
        == []
    )


def test_machine_formats(tmp_path):
    file = tmp_path / "a,b.py"
    file.write_text(WRONG)
    report = lint_paths([str(file)])
    found = json.loads(as_json(report))
    assert [f["code"] for f in found["findings"]] == ["KL002"]
    sarif = json.loads(as_sarif(report))
    assert sarif["version"] == "2.1.0"
    assert sarif["runs"][0]["results"][0]["ruleId"] == "KL002"
    assert re.match(r"::error file=.*a%2Cb.py,line=2,col=17,", as_github(report))


def test_rewrites_parse_and_give_the_same_numbers(tmp_path):
    code = (
        "import torch, torch.nn.functional as F\n"
        "def f(x, y):\n"
        "    π = torch.log(F.softmax(x, dim=-1))\n"
        "    z = torch.log(torch.softmax(y, -1))\n"
        "    return F.kl_div(π, y.softmax(-1), size_average=False), z, x.softmax(0).log()\n"
    )
    file = tmp_path / "a.py"
    file.write_text(code, encoding="utf-8")
    report = lint_paths([str(file)])
    assert "+    π = F.log_softmax(x, dim=-1)" in rewrite(report, write=False)
    assert file.read_text(encoding="utf-8") == code
    rewrite(report, write=True)
    after = file.read_text(encoding="utf-8")
    assert after == fixed_text(code, report.findings)
    assert 'reduction="sum"' in after
    assert "x.log_softmax(0)" in after
    before_names, after_names = {}, {}
    exec(code, before_names)
    exec(after, after_names)
    x, y = torch.randn(3, 4, dtype=torch.float64), torch.randn(3, 4, dtype=torch.float64)
    with pytest.warns(UserWarning, match="size_average"):
        expected = before_names["f"](x, y)
    for old, new in zip(expected, after_names["f"](x, y), strict=True):
        torch.testing.assert_close(old, new)


def test_windows_line_ends_are_left_alone(tmp_path):
    file = tmp_path / "a.py"
    file.write_bytes(b"import torch\r\ny = torch.log(torch.softmax(x, 1))\r\n")
    report = lint_paths([str(file)])
    assert [f.code for f in report.findings] == ["KL022"]
    assert rewrite(report, write=True) == ""


def test_settings_come_from_the_nearest_pyproject(tmp_path):
    (tmp_path / "pyproject.toml").write_text(
        '[tool.kullback.lint]\nselect = ["KL00"]\nignore = ["KL002"]\nexclude = ["gen_*"]\n'
    )
    (tmp_path / "sub").mkdir()
    settings = read_settings(tmp_path / "sub")
    codes = [rule.code for rule in settings.rules]
    assert "KL001" in codes
    assert "KL002" not in codes
    assert "KL010" not in codes
    assert settings.exclude == ("gen_*",)
    assert "KL025" in [rule.code for rule in read_settings(tmp_path, select=["ALL"]).rules]
    assert "KL025" not in [rule.code for rule in read_settings(tmp_path / "sub", select=[], ignore=[]).rules]
    with pytest.raises(SettingsError, match="KL999"):
        read_settings(tmp_path, select=["KL999"])
    (tmp_path / "pyproject.toml").write_text("[tool.kullback.lint]\nselekt = 1\n")
    with pytest.raises(SettingsError, match="selekt"):
        read_settings(tmp_path)


def test_a_source_that_does_not_parse_is_an_error():
    with pytest.raises(UnreadableError, match="line 2"):
        lint_source("import torch\nkl_div(")
