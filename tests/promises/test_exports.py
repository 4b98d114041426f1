"""`kullback.__all__` is sorted, complete and true: every name of `__init__.pyi` exists."""

from types import ModuleType

import pytest

import kullback

ROOMS = [name for name in kullback.__all__ if isinstance(getattr(kullback, name), ModuleType)]


def test_all_is_sorted_and_without_repetition():
    assert kullback.__all__ == sorted(set(kullback.__all__))


@pytest.mark.parametrize("name", kullback.__all__)
def test_every_public_name_resolves(name):
    value = getattr(kullback, name)
    assert getattr(value, "__name__", name).rpartition(".")[2] == name


def test_dir_lists_the_public_names_only():
    assert dir(kullback) == kullback.__all__


def test_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="kl_loss"):
        kullback.kl_loss  # noqa: B018


@pytest.mark.parametrize("room", ROOMS)
def test_rooms_have_a_sorted_all_that_resolves(room):
    module = getattr(kullback, room)
    assert module.__all__ == sorted(set(module.__all__))
    assert all(hasattr(module, name) for name in module.__all__)
