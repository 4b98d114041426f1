"""KL(Wishart ‖ ·)."""

import copy

import pytest
import torch
from torch.distributions import Distribution, Wishart

from kullback.pairs.dispatch import kl_divergence
from tests.pairs.contract import *  # noqa: F403
from tests.pairs.contract import close, read_table, tensors

pytestmark = pytest.mark.filterwarnings("ignore:Low df values")
# torch's constructor branches on values: a Wishart can be made neither under vmap nor while compiling. The tests at the
# end of this file exchange the parameters of one that was made before.
del test_vmap_agrees_with_batching, test_compiles_in_one_graph  # noqa: F821
CASES = [Case(Wishart, Wishart, gradient_floor=1e-6)]  # noqa: F405


def double(value):
    return torch.tensor(value, dtype=torch.float64)


@pytest.mark.parametrize("name", ["covariance_matrix", "precision_matrix"])
@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float64, 1e-12), (torch.float32, 1e-6)])
def test_matrices_as_given(name, dtype, tolerance):
    for row in read_table("Wishart", f"Wishart_{name}"):
        if dtype == torch.float32 and not row["float32"]:
            continue
        params = {side: tensors(row[side], dtype, grad=True) for side in "pq"}
        value = kl_divergence(*(Wishart(**given) for given in params.values()))
        assert close(value.item(), float(row["kl"]), tolerance, dtype), row
        value.backward()
        for key, text in row["gradient"].items():
            side, parameter = key.split(".")
            wanted = double([[float(v) for v in line] for line in text] if isinstance(text, list) else float(text))
            found = params[side][parameter].grad.double()
            limit = (1e-9 if dtype == torch.float64 else 1e-5) * float(wanted.abs().max())
            torch.testing.assert_close(found, wanted, rtol=0, atol=limit, msg=lambda m, key=key: f"{key}: {m}")


def distribution(df, scale_tril):
    """A Wishart of these parameters, without its constructor."""
    made = copy.copy(Wishart(double(5.0), scale_tril=torch.eye(2, dtype=torch.float64)))
    made.df, made._unbroadcasted_scale_tril = df, scale_tril
    return made


DF = double([3.0, 4.5, 1e6])
TRIL = double([[[1.0, 0.0], [0.5, 2.0]], [[2.0, 0.0], [-1.0, 0.5]], [[1.0, 0.0], [1e-3, 1.0]]])


def to_q(df, scale_tril):
    eye = torch.eye(2, dtype=torch.float64)
    return kl_divergence(distribution(df, scale_tril), distribution(double(4.0), eye))


def test_vmap_agrees_with_batching_of_given_distributions():
    mapped = torch.vmap(to_q)(DF, TRIL)
    looped = torch.stack([to_q(df, scale_tril) for df, scale_tril in zip(DF, TRIL, strict=True)])
    torch.testing.assert_close(mapped, looped, rtol=1e-12, atol=0)
    gradients = torch.vmap(torch.func.grad(to_q, argnums=(0, 1)))(DF, TRIL)
    leaves = DF.clone().requires_grad_(), TRIL.clone().requires_grad_()
    torch.stack([to_q(df, scale_tril) for df, scale_tril in zip(*leaves, strict=True)]).sum().backward()
    torch.testing.assert_close(gradients[0], leaves[0].grad, rtol=1e-10, atol=0)
    torch.testing.assert_close(gradients[1].tril(), leaves[1].grad.tril(), rtol=1e-10, atol=1e-12)


@pytest.mark.slow
def test_distributions_made_before_compile_in_one_graph(monkeypatch):
    monkeypatch.setattr(Distribution, "_validate_args", False)
    torch.compiler.reset()
    p, q = distribution(DF[0], TRIL[0]), distribution(DF[1], TRIL[1])
    compiled = torch.compile(kl_divergence, fullgraph=True, backend="eager")
    torch.testing.assert_close(compiled(p, q), kl_divergence(p, q), rtol=1e-13, atol=0)


def test_batch_shapes_broadcast():
    """Each element is what it is alone, whichever side has the dimension."""
    p = [Wishart(df, scale_tril=factor) for df, factor in zip(DF, TRIL, strict=True)]
    q = [Wishart(double(df), scale_tril=TRIL[1]) for df in (2.5, 40.0)]
    left = Wishart(DF[:, None], scale_tril=TRIL[:, None])
    right = Wishart(double([2.5, 40.0]), scale_tril=TRIL[1].expand(2, 2, 2))
    alone = torch.stack([torch.stack([kl_divergence(a, b) for b in q]) for a in p])
    torch.testing.assert_close(kl_divergence(left, right), alone, rtol=1e-13, atol=0)
    torch.testing.assert_close(kl_divergence(left.expand([3, 2]), q[0]), alone[:, :1].expand(3, 2), rtol=1e-13, atol=0)
