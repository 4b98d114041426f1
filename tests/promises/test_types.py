"""A type checker accepts right calls and refuses bare tensors, mixed arguments and names that do not exist."""

import pytest

mypy_api = pytest.importorskip("mypy.api")

RIGHT = """
import torch
from torch.distributions import Gamma, LogNormal
import kullback as kb
a = torch.zeros(3)
kb.kl(kb.Logits(a), kb.Probs(a.softmax(-1)), reduction="mean")
kb.js(kb.Counts(a + 1), kb.LogProbs(a.log_softmax(-1)))
kb.renyi(Gamma(a + 1, a + 1), LogNormal(a, a + 1), 0.5)
kb.entropy(kb.Logits(a))
kb.estimate_kl([kb.Samples(a)], (kb.Samples(a) for _ in range(1)))
kb.estimate_kl(kb.Samples(a), Gamma(1.0, 1.0))
"""
WRONG = """
import torch
from torch.distributions import Normal
import kullback as kb
a = torch.zeros(3)
kb.kl(a, kb.Logits(a))
kb.kl(kb.Logits(a), Normal(0.0, 1.0))
kb.entropy(a)
kb.kl_loss(a)
kb.estimate_kl(a, a)
"""


@pytest.mark.slow
def test_mypy_reads_the_public_names(tmp_path):
    (tmp_path / "right.py").write_text(RIGHT)
    (tmp_path / "wrong.py").write_text(WRONG)
    out, err, _ = mypy_api.run(["--strict", "--no-incremental", "--cache-dir", str(tmp_path / "cache"), str(tmp_path)])
    assert not err
    assert "right.py" not in out
    lines = {int(line.split(":")[1]) for line in out.splitlines() if "wrong.py:" in line and ": error:" in line}
    assert lines == {6, 7, 8, 9, 10}
