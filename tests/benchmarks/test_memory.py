"""Peak memory is measured, not guessed."""

import sys
from pathlib import Path

import pytest
import torch

from benchmarks.memory import in_subprocess, peak_growth

pytestmark = pytest.mark.skipif(
    sys.platform != "linux" or not Path("/proc/self/clear_refs").exists(), reason="reads /proc"
)


def test_growth_counts_what_a_call_allocates_beyond_its_input():
    state = torch.ones(2**24)  # 64 MB
    assert peak_growth(lambda x: x.sum(), state) < 16e6
    assert 60e6 < peak_growth(lambda x: (x + 1).sum(), state) < 80e6


@pytest.mark.slow
def test_a_subprocess_that_fails_gives_the_reason():
    reason = in_subprocess("no-such-case", "1", "kullback", threads=1)
    assert reason == "KeyError: 'no-such-case'"
