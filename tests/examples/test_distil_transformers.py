"""The example of distillation with transformers runs, learns, and both of its losses give the same curve."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLE = Path(__file__).parents[2] / "examples" / "distil_transformers.py"


@pytest.mark.slow
def test_both_losses_learn_the_same():
    pytest.importorskip("transformers")
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, str(EXAMPLE), "10"], env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    curves = [line.split("KL in nats")[1] for line in done.stdout.splitlines() if "KL in nats" in line]
    first, last = (
        [float(curve.split(name)[1].split(",")[0]) for curve in curves] for name in ("first step", "last step")
    )
    assert first[0] == pytest.approx(first[1], rel=1e-3)
    assert last[0] < 0.9 * first[0]
    assert last[1] < 0.9 * first[1]
