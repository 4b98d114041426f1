"""`kullback pairs`."""

import json

from kullback import coverage, kl_method
from kullback.cli.main import main
from kullback.diagnose import matrix
from kullback.pairs.families import examples


def test_the_table_has_a_mark_for_every_pair_of_numbers(capsys):
    assert main(["pairs"]) == 0
    out = capsys.readouterr().out
    univariate = sorted(f.__name__ for f, example in examples().items() if not example.event_shape)
    first = out.split("\n\n")[0].splitlines()
    assert [line[3:].split()[0] for line in first[1:]] == univariate
    for line in first[1:]:
        assert len(line[3:].split()) == 1 + len(univariate), line
    number = univariate.index("Normal")
    assert first[1 + number].split()[2 + number] == "C"
    assert first[1 + number].split()[2 + univariate.index("Exponential")] == "∞"


def test_one_family_is_listed_with_its_formulas(capsys):
    assert main(["pairs", "--p", "Normal", "--q", "Laplace"]) == 0
    line = capsys.readouterr().out
    assert line.startswith("Normal ‖ Laplace  closed form")
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


def test_functions_are_importable_names():
    for cell in matrix.cells():
        if cell.function:
            module, _, name = cell.function.rpartition(".")
            assert hasattr(__import__(module, fromlist=["_"]), name), cell
