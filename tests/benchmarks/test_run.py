"""The runner from registration to report; nothing here depends on how long anything takes."""

import json

import pytest
import torch

from benchmarks import environment, registry, run
from benchmarks.registry import Case, discover


@pytest.fixture
def cases(monkeypatch):
    """An empty registry, which the command line sees too."""
    found: dict[str, Case] = {}
    monkeypatch.setattr(registry, "REGISTRY", found)
    monkeypatch.setattr(run, "discover", lambda: found)
    return found


def double_case(kullback=lambda x: 2 * x):
    @registry.case("double", group="toy", sizes={"3": 3, "5": 5}, rtol=1e-6)
    def double(size):
        """Twice the input."""
        return torch.arange(1.0, size + 1)

    double.truth(lambda x: 2 * x.double())
    double.contender("kullback")(kullback)
    double.contender("right")(lambda x: x + x)
    return double


def rows_of(case, **options):
    return {row.contender: row for row in run.run_size(case, "3", repeats=3, min_seconds=0.0, **options)}


def test_right_contenders_are_timed_and_compared(cases):
    rows = rows_of(double_case())
    assert [row.status for row in rows.values()] == ["ok", "ok"]
    assert rows["kullback"].ratio == (1.0, 1.0, 1.0)
    assert rows["right"].ratio.low <= rows["right"].ratio.median <= rows["right"].ratio.high
    assert rows["right"].seconds.median > 0


@pytest.mark.parametrize(
    ("kullback", "status", "note"),
    [
        (lambda x: 2.001 * x, "wrong", "wrong result: relative error 5.0e-04 (allowed 1e-06)"),
        (lambda x: 2 * x / (x > 1), "wrong", "wrong result: relative error inf (allowed 1e-06)"),
        (lambda x: 2 * x[:2], "wrong", "wrong result: shape (2,) instead of (3,)"),
        (lambda x: x.no_such_name, "failed", "failed: AttributeError: 'Tensor' object has no attribute 'no_such_name'"),
    ],
)
def test_a_wrong_kullback_gets_no_ratio_and_fails_the_run(cases, kullback, status, note, capsys):
    rows = rows_of(double_case(kullback))
    assert (rows["kullback"].status, rows["kullback"].note) == (status, note)
    assert all(row.ratio is None for row in rows.values())
    assert run.main(["--size", "3", "--repeats", "2"]) == 1
    printed = capsys.readouterr()
    assert "Speed-ups refused" in printed.out
    assert f"double, 3: kullback: {note}" in printed.err


def test_only_the_second_call_is_judged_because_it_is_what_gets_timed(cases):
    calls = []

    def decays(x):
        calls.append(1)
        return 2 * x if len(calls) == 1 else 3 * x

    assert rows_of(double_case(decays))["kullback"].status == "wrong"


def test_a_wrong_baseline_is_labelled_and_still_timed(cases):
    case = double_case()
    case.contender("sloppy")(lambda x: 2.5 * x)
    sloppy = rows_of(case)["sloppy"]
    assert sloppy.note == "wrong result: relative error 2.5e-01 (allowed 1e-06)"
    assert sloppy.seconds is not None
    assert sloppy.ratio is not None
    assert run.main(["--size", "3", "--repeats", "2"]) == 0


def test_missing_and_failing_peers_never_stop_a_run(cases, capsys):
    case = double_case()
    called = []
    case.contender("absent", needs=("torch", "no_such_package_here"))(called.append)
    case.contender("too old", needs=("torch:no_such_name",))(called.append)
    case.contender("broken")(lambda x: 1 / 0)
    rows = rows_of(case)
    assert rows["absent"].note.startswith("missing: no_such_package_here cannot be imported: No module named")
    assert rows["too old"].note == "missing: torch has no no_such_name"
    assert rows["broken"].note == "failed: ZeroDivisionError: division by zero"
    assert all(rows[name].seconds is None for name in ("absent", "too old", "broken"))
    assert not called
    assert run.main(["--repeats", "2"]) == 0
    assert "missing: torch has no no_such_name" in capsys.readouterr().out


def test_a_missing_kullback_leaves_the_baselines_without_ratios(cases):
    case = double_case()
    del case.contenders["kullback"]
    case.contender("kullback", needs=("kullback:no_such_name",))(lambda x: x)
    rows = rows_of(case)
    assert rows["kullback"].status == "missing"
    assert rows["right"].seconds is not None
    assert rows["right"].ratio is None


def test_a_case_without_truth_is_refused(cases):
    case = double_case()
    case.truth_of = None
    with pytest.raises(ValueError, match="has no truth"):
        rows_of(case)


def test_names_are_unique(cases):
    case = double_case()
    with pytest.raises(ValueError, match="already registered"):
        double_case()
    with pytest.raises(ValueError, match="already has a contender"):
        case.contender("right")(lambda x: x)


def test_json_schema(cases, tmp_path):
    double_case().contender("absent", needs=("no_such_package_here",))(lambda x: x)
    assert run.main(["--repeats", "2", "--json", str(tmp_path / "run.json")]) == 0
    document = json.loads((tmp_path / "run.json").read_text(), parse_constant=pytest.fail)
    assert set(document) == {"schema", "ok", "environment", "rows"}
    assert (document["schema"], document["ok"]) == (1, True)
    assert set(document["environment"]) == {
        "threads", "cores", "load_average", "cpu", "cpu_capability", "platform", "python", "torch", "kullback",
        "kernels", "transparent_huge_pages", "THP_MEM_ALLOC_ENABLE",
    }  # fmt: skip
    assert [(row["size"], row["contender"]) for row in document["rows"]] == [
        (size, name) for size in ("3", "5") for name in ("kullback", "right", "absent")
    ]
    keys = {"case", "group", "size", "contender", "status", "note", "seconds", "ratio", "error", "peak_bytes"}
    for row in document["rows"]:
        assert set(row) == keys
        if row["status"] == "ok":
            assert set(row["seconds"]) == set(row["ratio"]) == {"median", "low", "high", "iqr"}
        else:
            assert row["seconds"] is row["ratio"] is row["error"] is None


def test_infinite_errors_are_strict_json(cases, tmp_path):
    double_case(lambda x: x / 0)
    run.main(["--repeats", "1", "--size", "3", "--json", str(tmp_path / "run.json")])
    document = json.loads((tmp_path / "run.json").read_text(), parse_constant=pytest.fail)
    assert document["rows"][0]["error"] == "inf"
    assert document["ok"] is False


def test_markdown(cases, tmp_path, capsys):
    double_case().contender("a|b")(lambda x: 3 * x)
    assert run.main(["--repeats", "2", "--size", "3", "--markdown", str(tmp_path / "run.md")]) == 0
    text = (tmp_path / "run.md").read_text()
    assert text.strip() == capsys.readouterr().out.strip()
    assert "- transparent huge pages: " in text
    assert "## double (toy)\n\nTwice the input.\n" in text
    table = [line for line in text.splitlines() if line.startswith("|")]
    assert len(table) == 2 + 3
    assert len({line.replace("\\|", "").count("|") for line in table}) == 1
    assert table[0].split(" | ")[4].strip() == "time ÷ kullback"
    assert "1.00 (1.00 to 1.00)" in table[2]
    assert "a\\|b" in table[4]
    assert "wrong result: relative error 5.0e-01" in table[4]


def test_selection(cases, capsys):
    double_case()
    assert run.main(["--list"]) == 0
    assert "double" in capsys.readouterr().out
    assert run.main(["--group", "other"]) == 2
    assert run.main(["--case", "other"]) == 2
    assert run.main(["--size", "5", "--repeats", "1"]) == 0
    assert "| 3 " not in capsys.readouterr().out


def test_no_progress_when_standard_error_is_not_a_terminal(cases, capsys):
    double_case()
    run.main(["--repeats", "1"])
    assert capsys.readouterr().err == ""


@pytest.mark.slow
def test_cases_are_found_by_being_in_the_folder():
    found = discover()
    assert "row-kl-logits" in found
    assert all(case.truth_of and case.sizes and "kullback" in case.contenders for case in found.values())


def test_huge_pages_and_processor_are_read_from_the_kernel(tmp_path):
    setting = tmp_path / "enabled"
    setting.write_text("always [madvise] never\n")
    assert environment.transparent_huge_pages(setting) == "madvise"
    assert environment.transparent_huge_pages(tmp_path / "absent") == "unknown"
    cpu = tmp_path / "cpuinfo"
    cpu.write_text("processor\t: 0\nmodel name\t: Some Chip @ 3 GHz\n")
    assert environment.cpu_model(cpu) == "Some Chip @ 3 GHz"
    assert environment.cpu_model(tmp_path / "absent")
