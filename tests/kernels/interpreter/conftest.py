"""Triton kernels on the CPU, in Triton's interpreter; run by `tests/kernels/test_triton_interpreter.py`.

By hand: TRITON_INTERPRET=1 KULLBACK_DEVICES=cpu=triton pytest tests/kernels/interpreter
"""

from __future__ import annotations

import os

import pytest

READY = os.environ.get("TRITON_INTERPRET") == "1" and "cpu=triton" in os.environ.get("KULLBACK_DEVICES", "")


def pytest_collection_modifyitems(items):
    for item in items:
        if not READY and "/interpreter/" in item.path.as_posix():
            item.add_marker(pytest.mark.skip(reason="needs TRITON_INTERPRET=1 KULLBACK_DEVICES=cpu=triton"))


@pytest.fixture(autouse=True)
def _triton_did_not_fail():
    from kullback.kernels.device_rows import op

    yield
    assert op._failures == {}
