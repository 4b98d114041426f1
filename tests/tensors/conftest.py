"""Every statement about tensors holds with the native kernels and with the reference."""

from __future__ import annotations

import contextlib

import pytest

from kullback.kernels import native
from kullback.kernels.native_rows import reference_only


@pytest.fixture(autouse=True, scope="module", params=["native", "reference"])
def implementation(request):
    if request.param == "native" and native.library() is None:
        pytest.skip(native.status().reason)
    with reference_only() if request.param == "reference" else contextlib.nullcontext():
        yield request.param
