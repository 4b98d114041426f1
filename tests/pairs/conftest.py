"""Runs each contract test for each of a module's CASES; transforms of most cases are slow."""

import pytest

# Tracing takes Dynamo one to forty seconds a formula.
TRACED_IN_EVERY_RUN = {"Normal-Normal", "Bernoulli-Bernoulli", "Gamma-Gamma", "Categorical-Categorical"}
TRANSFORMS = ("test_second_derivative", "test_forward_mode", "test_vmap")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "case" in metafunc.fixturenames:
        metafunc.parametrize("case", metafunc.module.CASES, ids=str)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        case = getattr(item, "callspec", None) and item.callspec.params.get("case")
        if not case:
            continue
        slow_to_trace = "compiles" in item.name and str(case) not in TRACED_IN_EVERY_RUN
        one_of_many = item.name.startswith(TRANSFORMS) and item.module.CASES.index(case) % 4
        if slow_to_trace or one_of_many:
            item.add_marker(pytest.mark.slow)
