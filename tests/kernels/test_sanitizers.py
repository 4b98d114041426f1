"""The native sources under AddressSanitizer and UndefinedBehaviorSanitizer, driven from C++."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

SOURCES = Path(__file__).parents[2] / "csrc"
FLAGS = ["-std=c++17", "-O1", "-g", "-fsanitize=address,undefined", "-fno-sanitize-recover=all"]
# The library uses whichever OpenMP runtime is in the process; nothing in the driver refers to one by itself.
THREADS = ["-Wl,--no-as-needed", "-lgomp", "-pthread"]
DRIVERS = ["sanitize_driver.cpp", "sanitize_pairs.cpp", "sanitize_rows.cpp"]


@pytest.mark.skipif(shutil.which("g++") is None, reason="no g++ to build the sanitized library with")
@pytest.mark.skipif(not SOURCES.is_dir(), reason="the native sources are not part of this installation")
@pytest.mark.slow  # two minutes of compiling each, for code that changes seldom
@pytest.mark.parametrize("driver", DRIVERS)
def test_no_access_out_of_bounds_and_no_undefined_behaviour(tmp_path, driver):
    program = tmp_path / "driver"
    names = ["api.cpp", "dispatch.cpp", "memory.cpp", "parallel.cpp", "kernels.cpp", "rows/api.cpp", "rows/rows.cpp"]
    names += ["pairs/api.cpp", "pairs/pairs.cpp"]
    sources = [Path(__file__).with_name(driver), *(SOURCES / name for name in names)]
    flags = [*FLAGS, f"-I{SOURCES}", "-DKULLBACK_SET=baseline"]
    command = ["g++", *flags, *map(str, sources), *THREADS, "-ldl", "-o", str(program)]
    built = subprocess.run(command, capture_output=True, text=True, check=False)
    if "libasan" in built.stderr or "libubsan" in built.stderr:
        pytest.skip("the sanitizer runtimes are not installed")
    assert built.returncode == 0, built.stderr
    environment = {**os.environ, "ASAN_OPTIONS": "detect_leaks=0"}
    done = subprocess.run([str(program)], capture_output=True, text=True, check=False, env=environment)
    assert done.returncode == 0, done.stdout + done.stderr
    assert " 0 failures" in done.stdout
    assert "gomp" in done.stdout, "the driver ran without an OpenMP runtime"
