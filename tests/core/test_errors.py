"""The error tree: every error is a KullbackError and the builtin a user would catch."""

import pytest

import kullback
from kullback._core import errors

BUILTINS = {
    "InputTypeError": TypeError,
    "InputValueError": ValueError,
    "NoRouteError": NotImplementedError,
    "RegistrationError": ValueError,
    "ShapeError": ValueError,
    "UnavailableError": RuntimeError,
}


@pytest.mark.parametrize(("name", "builtin"), BUILTINS.items())
def test_each_error_is_also_its_builtin(name, builtin):
    error = getattr(kullback, name)
    assert issubclass(error, kullback.KullbackError)
    assert issubclass(error, builtin)


def test_the_tree_in_the_docstring_is_the_tree():
    classes = {n for n, v in vars(errors).items() if isinstance(v, type)}
    assert classes == {"KullbackError", "KullbackWarning", *BUILTINS}
    assert all(name in errors.__doc__ for name in classes)


def test_warning_is_filtered_like_any_user_warning():
    assert issubclass(kullback.KullbackWarning, UserWarning)


def test_explanation_leaves_out_what_is_not_said():
    assert errors.explain_problem("No.", instead="yes()") == "No.\n  write:    yes()"
