"""KL(LogisticNormal ‖ ·): a bijection of independent normals."""

import torch
from torch.distributions import LogisticNormal, Normal

from kullback.pairs.dispatch import kl_divergence, kl_method


def test_is_the_divergence_of_the_normals():
    loc = torch.tensor([[0.5, -1.0], [2.0, 1e3]], dtype=torch.float64)
    scale = torch.tensor([1.5, 1e-3], dtype=torch.float64)
    p, q = LogisticNormal(loc, scale), LogisticNormal(loc * (1 + 1e-9), scale * (1 - 1e-9))
    want = kl_divergence(Normal(loc, scale), Normal(loc * (1 + 1e-9), scale * (1 - 1e-9))).sum(-1)
    torch.testing.assert_close(kl_divergence(p, q), want, rtol=1e-14, atol=0)
    assert kl_method(p, q) == "closed form"
    assert kl_divergence(p, p).tolist() == [0.0, 0.0]
