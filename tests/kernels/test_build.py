"""Where no compiler is found the build still gives a wheel, and that wheel works."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
uv = shutil.which("uv")


@pytest.mark.skipif(uv is None, reason="needs uv to build a wheel")
@pytest.mark.skipif(not (ROOT / "csrc").is_dir(), reason="the native sources are not part of this installation")
@pytest.mark.slow
def test_without_a_compiler_the_wheel_is_pure_and_works(tmp_path):
    source = tmp_path / "source"
    source.mkdir()
    for name in ("pyproject.toml", "CMakeLists.txt", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source)
    for name in ("csrc", "src"):
        shutil.copytree(ROOT / name, source / name, ignore=shutil.ignore_patterns("__pycache__"))
    environment = {**os.environ, "CC": "/nowhere/cc", "CXX": "/nowhere/c++"}
    command = [uv, "build", "--wheel", "--quiet", "--out-dir", str(tmp_path / "dist"), str(source)]
    built = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if "error sending request" in built.stderr or "Failed to fetch" in built.stderr:
        pytest.skip("the build requirements cannot be fetched here")
    assert built.returncode == 0, built.stderr
    (wheel,) = (tmp_path / "dist").glob("*.whl")
    assert wheel.name.endswith("-py3-none-any.whl")
    installed = tmp_path / "installed"
    with zipfile.ZipFile(wheel) as archive:
        assert not [name for name in archive.namelist() if "libkullback" in name]
        archive.extractall(installed)
    # -S: without the .pth files through which an editable install would answer first.
    code = (
        f"import sys; sys.path[1:1] = [{str(installed)!r}, {sysconfig.get_path('purelib')!r}];"
        "import kullback, torch; s = kullback.kernels.status();"
        "v = kullback.special.kl_div(torch.tensor(1.0, dtype=torch.float64), 1 + 1e-10);"
        "print(kullback.__file__); print(s.implementation); print(s.reason); print(f'{v:.12e}')"
    )
    done = subprocess.run([sys.executable, "-S", "-c", code], capture_output=True, text=True, check=True)
    place, implementation, reason, value = done.stdout.splitlines()
    assert Path(place).is_relative_to(installed)
    assert implementation == "reference"
    assert "not built" in reason
    assert value == "5.000000827070e-21"
