"""`kullback.__all__` is sorted, complete and true; static readers and the lazy tables agree."""

import ast
from pathlib import Path

import pytest

import kullback

SOURCE = Path(kullback.__file__).read_text(encoding="utf-8")


def test_all_is_sorted_and_without_repetition():
    assert kullback.__all__ == sorted(set(kullback.__all__))


@pytest.mark.parametrize("name", kullback.__all__)
def test_every_public_name_resolves(name):
    value = getattr(kullback, name)
    assert getattr(value, "__name__", name).rpartition(".")[2] == name


def test_dir_lists_every_public_name():
    assert set(kullback.__all__) <= set(dir(kullback))


def test_names_for_type_checkers_are_the_names_at_run_time():
    block = next(n for n in ast.parse(SOURCE).body if isinstance(n, ast.If))
    imported = {alias.asname for node in block.body for alias in node.names}
    assert imported == set(kullback.__all__)


def test_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="no attribute 'kl_loss'"):
        kullback.kl_loss  # noqa: B018


@pytest.mark.parametrize("room", kullback._ROOMS)
def test_rooms_have_a_sorted_all_that_resolves(room):
    module = getattr(kullback, room)
    assert module.__all__ == sorted(set(module.__all__))
    assert all(hasattr(module, name) for name in module.__all__)
