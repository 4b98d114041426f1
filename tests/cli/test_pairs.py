"""`kullback pairs`."""

import json

from kullback import coverage, kl_method
from kullback.cli.main import main
from kullback.diagnose import matrix
from kullback.pairs.table import examples


def test_the_table_has_a_mark_for_every_pair_of_numbers(capsys):
    assert main(["pairs"]) == 0
    out = capsys.readouterr().out
    univariate = sorted(f.__name__ for f, example in examples().items() if not example.event_shape)
    first = out.split("\n\n")[0].splitlines()
    assert [line[3:].split()[0] for line in first[2:]] == univariate
    for line in first[2:]:
        assert len(line[3:].split()) == 1 + len(univariate), line
    number = univariate.index("Normal")
    assert first[2 + number].split()[2 + number] == "C"
    assert first[2 + number].split()[2 + univariate.index("Exponential")] == "∞"


def test_the_table_fits_a_terminal_and_its_numbers_stand_over_their_columns(capsys):
    assert main(["pairs"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) < 80
    tens, units = lines[:2]
    start = units.index("1")
    read = [int((tens[at : at + 1] + units[at]).strip()) for at in range(start, len(units), 2)]
    assert read == list(range(1, len(read) + 1))


def test_one_family_is_listed_with_its_formulas(capsys):
    assert main(["pairs", "--p", "Normal", "--q", "Laplace"]) == 0
    line = capsys.readouterr().out
    assert line.startswith("Normal ‖ Laplace  closed form")
    assert line.splitlines()[1].strip() == "kl_normal_laplace in src/kullback/pairs/closed/normal.py"
    assert main(["pairs", "--p", "StudentT", "--q", "Laplace"]) == 0
    assert "integral in src/kullback/divergences/kl.py" in capsys.readouterr().out
    assert main(["pairs", "--p", "Wishart"]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 2, "pairs of one event shape only"


def test_json_says_the_same_as_the_library(capsys):
    assert main(["pairs", "--json"]) == 0
    cells = {(c["p"], c["q"]): c for c in json.loads(capsys.readouterr().out)}
    names = {p for p, _ in cells}
    for pair in coverage():
        if {pair.p, pair.q} <= names:  # the others are rules for base classes
            assert cells[pair.p, pair.q]["method"] == pair.method
    assert set(next(iter(cells.values()))) == {"p", "q", "method", "source", "function"}


def test_missing_lists_exactly_what_has_no_route(capsys):
    assert main(["pairs", "--missing", "--json"]) == 0
    known = {family.__name__: example for family, example in examples().items()}
    missing = {(c["p"], c["q"]) for c in json.loads(capsys.readouterr().out)}
    every = {(c.p, c.q) for c in matrix.cells()}
    assert missing == {(p, q) for p, q in every if kl_method(known[p], known[q]) is None}


def test_missing_says_so_if_nothing_is(capsys):
    assert main(["pairs", "--p", "Normal", "--q", "Normal", "--missing"]) == 0
    assert capsys.readouterr().out == "Every pair has a route.\n"


def test_an_unknown_family_is_an_error(capsys):
    assert main(["pairs", "--p", "Gauss"]) == 2
    assert "Normal" in capsys.readouterr().err
    assert main(["pairs", "--p", "Expnential"]) == 2
    assert "--p Exponential" in capsys.readouterr().err


def test_names_are_found_in_any_case(capsys):
    assert main(["pairs", "--p", "studentt", "--q", "NORMAL"]) == 0
    assert capsys.readouterr().out.startswith("StudentT ‖ Normal  ")


def test_lines_are_cut_at_the_width_of_a_terminal(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    assert main(["pairs", "--p", "Beta"]) == 0
    assert max(map(len, capsys.readouterr().out.splitlines())) > 80, "all of it where nobody reads on a terminal"
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    assert main(["pairs", "--p", "Beta"]) == 0
    out = capsys.readouterr().out
    assert max(map(len, out.splitlines())) == 80
    assert "…" in out


def test_functions_are_importable_names():
    for cell in matrix.cells():
        if cell.function:
            module, _, name = cell.function.rpartition(".")
            assert hasattr(__import__(module, fromlist=["_"]), name), cell
