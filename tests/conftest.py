"""What every test may rely on."""

from collections.abc import Iterator

import hypothesis
import pytest
from torch.distributions import Distribution

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
