"""The seeds' statements are complete, and what is expected to fail fails for a reason that still holds."""

import pytest

from tests.seeds import test_seed_000_codemia, test_seed_001_geeksforgeeks, test_seed_002_torchjs
from tests.seeds.rooms import PENDING, is_there, states

MODULES = {"S000": test_seed_000_codemia, "S001": test_seed_001_geeksforgeeks, "S002": test_seed_002_torchjs}


def shown(module):
    tests = [value for name, value in vars(module).items() if name.startswith("test_")]
    assert all(hasattr(test, "statements") for test in tests), "a test without a statement"
    return {number for test in tests for number in test.statements}


@pytest.mark.parametrize("seed", MODULES)
def test_every_statement_has_a_test_and_every_test_a_statement(seed):
    module = MODULES[seed]
    assert shown(module) == set(module.STATEMENTS)


@pytest.mark.parametrize("seed", MODULES)
def test_numbers_are_consecutive(seed):
    numbers = list(MODULES[seed].STATEMENTS)
    assert numbers == [f"{seed}-{i:02}" for i in range(1, len(numbers) + 1)]


@pytest.mark.parametrize("name", PENDING)
def test_pending_names_are_really_missing(name):
    assert not is_there(name), f"kullback.{name} is here now: remove its line from PENDING in tests/seeds/rooms.py"


def test_is_there_follows_dots():
    assert is_there("kernels.status")
    assert not is_there("kernels.no_such_name")
    assert not is_there("no_such_room.kl")


def test_a_pending_name_makes_a_strict_expected_failure_that_names_its_room(monkeypatch):
    monkeypatch.setitem(PENDING, "no_such_name", "attic")

    @states("S999-01", needs=("kernels", "no_such_name"))
    def waiting():
        raise AssertionError

    @states("S999-02", needs=("kernels",))
    def ready():
        raise AssertionError

    (mark,) = waiting.pytestmark
    assert mark.name == "xfail"
    assert mark.kwargs["strict"] is True
    assert mark.kwargs["reason"] == "needs kullback.no_such_name (attic room)"
    assert not hasattr(ready, "pytestmark")
