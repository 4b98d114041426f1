"""Runs each contract test for each of a module's CASES."""

import pytest

from tests.pairs.contract import SLOW_TO_TRACE


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "case" in metafunc.fixturenames:
        metafunc.parametrize("case", metafunc.module.CASES, ids=str)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        case = getattr(item, "callspec", None) and item.callspec.params.get("case")
        if not case or "compiles" not in item.name:
            continue
        if item.module.__name__.endswith("test_positive") or {case.p.__name__, case.q.__name__} & SLOW_TO_TRACE:
            item.add_marker(pytest.mark.slow)
