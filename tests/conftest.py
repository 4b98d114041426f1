"""What every test may rely on."""

import os
from collections import Counter
from collections.abc import Iterator

import hypothesis
import pytest
import torch
from torch.distributions import Distribution

# One process per core (`-n auto`) already keeps every core busy: threads of two of them would wait for each other.
if "PYTEST_XDIST_WORKER" in os.environ:
    torch.set_num_threads(1)

# Workers and processes of tests keep what they have compiled: without it each spends two seconds on compiling torch.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

# The same examples in every run: a check that is green for one clone is green for the next.
hypothesis.settings.register_profile("repeatable", derandomize=True)
hypothesis.settings.load_profile("repeatable")


@pytest.fixture(autouse=True)
def _torch_validates_its_arguments() -> Iterator[None]:
    """The first use of `torch.compile` switches torch's own argument validation off for the whole process.

    Restored here, so that what a test sees does not depend on which tests ran before it.
    """
    Distribution.set_default_validate_args(True)
    yield
    Distribution.set_default_validate_args(True)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Of a test marked `sample(n)`, mark all but every n-th of its cases slow: `-m slow` runs the others."""
    seen: Counter[tuple[str, str]] = Counter()
    for item in items:
        mark = item.get_closest_marker("sample")
        if mark is not None:
            test = item.path.as_posix(), getattr(item, "originalname", item.name)
            if seen[test] % mark.args[0]:
                item.add_marker(pytest.mark.slow)
            seen[test] += 1
