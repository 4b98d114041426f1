"""A batch that is answered in portions has the values and derivatives of the batch as a whole."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable

import pytest
import torch
from torch import Tensor
from torch import distributions as d
from torch.distributions import Distribution

from kullback import kl
from kullback.pairs import portions

Make = Callable[[Tensor], tuple[Distribution, Distribution]]


def ones(*shape: int) -> Tensor:
    return torch.ones(shape, dtype=torch.float64)


PAIRS: dict[str, Make] = {
    "student_t": lambda x: (d.StudentT(3 + x, x, 1 + x * x), d.StudentT(4 * ones(2, 1), ones(1), 1.5 * ones(1))),
    "normal_cauchy": lambda x: (d.Normal(x, 1 + x * x), d.Cauchy(x.flip(-1), 2 * ones(3))),
    "counts by logits": lambda x: (d.Poisson(1 + x * x), d.NegativeBinomial(3 * ones(1), logits=x[:, :1])),
    "mixture": lambda x: (
        d.MixtureSameFamily(d.Categorical(logits=torch.stack([x, -x], -1)), d.Normal(torch.stack([x, 3 * x], -1), 1.0)),
        d.Laplace(x, 2.0),
    ),
    "concrete": lambda x: (
        d.RelaxedOneHotCategorical(0.7 * ones(), logits=torch.stack([x, -x, x * x], -1)),
        d.RelaxedOneHotCategorical(1.1 * ones(), logits=torch.stack([-x, x * x, x], -1)),
    ),
    "a map with numbers of its own": lambda x: (
        d.TransformedDistribution(d.Normal(x, 1.0), [d.AffineTransform(x, 1 + x * x)]),
        d.Gumbel(x, 2.0),
    ),
}


def derivatives(make: Make) -> tuple[Tensor, Tensor, Tensor]:
    x = torch.linspace(-1.2, 1.3, 6, dtype=torch.float64).reshape(2, 3).requires_grad_()
    value = kl(*make(x))
    assert value.shape == (2, 3)
    weights = torch.arange(1.0, 7.0, dtype=torch.float64).reshape(2, 3)
    (first,) = torch.autograd.grad((weights * value).sum(), x, create_graph=True)
    (second,) = torch.autograd.grad((weights.flip(0) * first).sum(), x)
    return value.detach(), first.detach(), second


@pytest.mark.parametrize("name", PAIRS)
def test_same_answer_and_derivatives(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = derivatives(PAIRS[name])
    monkeypatch.setattr(portions, "_PORTION", 4)
    for found, expected in zip(derivatives(PAIRS[name]), whole, strict=True):
        torch.testing.assert_close(found, expected, rtol=1e-8, atol=1e-10)


def test_a_batch_of_one_kind_of_parameter_stays_of_that_kind(monkeypatch: pytest.MonkeyPatch) -> None:
    """torch keeps given logits under two names and adds probabilities when asked for them."""
    logits = torch.linspace(-40.0, 40.0, 7, dtype=torch.float64)
    p, q = d.NegativeBinomial(2 * ones(7), logits=logits), d.NegativeBinomial(3 * ones(1), logits=-logits)
    whole = kl(p, q)
    assert p.probs.shape == q.probs.shape == (7,)
    monkeypatch.setattr(portions, "_PORTION", 2)
    torch.testing.assert_close(kl(p, q), whole, rtol=1e-10, atol=0.0)


def test_only_parameters_are_kept_for_the_backward_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(portions, "_PORTION", 16)
    loc = torch.linspace(-1.0, 1.0, 64, dtype=torch.float64, requires_grad=True)
    kept = 0

    def count(tensor: Tensor) -> Tensor:
        nonlocal kept
        kept += tensor.numel()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(count, lambda tensor: tensor):
        value = kl(d.Normal(loc, 1.0), d.Cauchy(ones(64), ones(64)))
    assert value.requires_grad
    assert kept < 20 * 64


def test_a_first_integral_does_not_wait_for_sympy() -> None:
    """torch.broadcast_shapes imports it, for seconds, whatever the shapes are."""
    code = (
        "import sys, torch, kullback\n"
        "from torch.distributions import Cauchy, Laplace\n"
        "p, q = Laplace(torch.zeros(3, 1), 1.0), Cauchy(torch.zeros(2), 1.0)\n"
        "kullback.kl(p, q), kullback.js(p, q)\n"
        "sys.exit('sympy' in sys.modules)\n"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
