"""Code that inductor generates gives the same values and gradients: one closed form, one integral."""

import pytest
import torch
from torch.distributions import Distribution, Laplace, RelaxedBernoulli

from kullback.pairs.dispatch import kl_divergence

pytestmark = pytest.mark.slow


@pytest.mark.parametrize(
    ("family", "names"), [(Laplace, ("loc", "scale")), (RelaxedBernoulli, ("temperature", "logits"))]
)
def test_generated_code_agrees(family, names, monkeypatch):
    monkeypatch.setattr(Distribution, "_validate_args", False)
    torch.compiler.reset()

    def divergence(*values):
        p, q = (family(**dict(zip(names, side, strict=True))) for side in (values[:2], values[2:]))
        return kl_divergence(p, q)

    given = [torch.tensor(x, dtype=torch.float64) for x in ([0.5, 2.0], [1.25, 0.75], [0.75, 2.5], [1.0, 1e-3])]
    results = []
    for function in (divergence, torch.compile(divergence, fullgraph=True)):
        leaves = [x.clone().requires_grad_() for x in given]
        value = function(*leaves)
        results.append((value.detach(), *torch.autograd.grad(value.sum(), leaves)))
    for eager, compiled in zip(*results, strict=True):
        torch.testing.assert_close(compiled, eager, rtol=1e-12, atol=1e-15)
