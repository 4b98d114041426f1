"""The Triton kernels without a GPU: in Triton's interpreter, which has to be chosen before Triton is imported."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

pytest.importorskip("triton")

ENVIRONMENT = {**os.environ, "TRITON_INTERPRET": "1", "KULLBACK_DEVICES": "cpu=triton"}


def run_in_interpreter(*arguments):
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "tests/kernels/interpreter", *arguments]
    done = subprocess.run(command, env=ENVIRONMENT, check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-8000:] + done.stderr[-2000:]


def test_kernels_in_the_interpreter():
    run_in_interpreter()


@pytest.mark.slow
def test_all_kernels_in_the_interpreter():
    run_in_interpreter("-m", "slow")
