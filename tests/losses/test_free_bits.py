"""Each variant of free bits against the formula of its paper, and its gradient below, at and above the threshold."""

import math

import pytest
import torch

from kullback.losses import free_bits

KL = torch.tensor([[0.1, 2.0, 0.3], [0.5, 0.0, 0.3]], dtype=torch.float64)


def by_loops(kl, nats, over):
    rows, columns = kl.shape
    if over == "dimension":
        return sum(max(nats, float(kl[b, j])) for b in range(rows) for j in range(columns)) / rows
    if over == "group":
        return sum(max(nats, sum(float(kl[b, j]) for b in range(rows)) / rows) for j in range(columns))
    if over == "sample":
        return sum(max(nats, float(kl[b].sum())) for b in range(rows)) / rows
    return max(nats, float(kl.sum()) / rows)


@pytest.mark.parametrize("over", ["dimension", "group", "sample", "batch"])
@pytest.mark.parametrize("nats", [0.0, 0.2, 0.5, 1.0, 5.0])
def test_value(over, nats):
    got = free_bits(KL, nats, over=over)
    assert got.item() == pytest.approx(by_loops(KL, nats, over), rel=1e-14)
    assert free_bits(KL, nats, over=over, reduction="sum").item() == pytest.approx(2 * got.item(), rel=1e-14)
    mask = torch.tensor([True, True, False])
    more = torch.cat([KL, torch.full((1, 3), math.nan, dtype=torch.float64)]).requires_grad_()
    masked = free_bits(more, nats, over=over, mask=mask)
    torch.testing.assert_close(masked, got)
    masked.backward()
    assert more.grad.isfinite().all()
    weight = torch.tensor([1.0, 3.0], dtype=torch.float64)
    repeated = torch.cat([KL[:1], KL[1:].expand(3, 3)])
    torch.testing.assert_close(free_bits(KL, nats, over=over, weight=weight), free_bits(repeated, nats, over=over))


@pytest.mark.parametrize(
    ("over", "below", "above"),
    [
        ("dimension", [[0, 1], [0, 0]], [[1, 1], [1, 1]]),
        ("group", [[0, 1], [0, 1]], [[1, 1], [1, 1]]),
        ("sample", [[1, 1], [0, 0]], [[1, 1], [1, 1]]),
        ("batch", [[1, 1], [1, 1]], [[1, 1], [1, 1]]),
    ],
)
def test_gradient(over, below, above):
    kl = torch.tensor([[0.1, 2.0], [0.3, 0.1]], dtype=torch.float64)
    for nats, want in ((0.5, below), (0.05, above)):
        leaf = kl.clone().requires_grad_()
        free_bits(leaf, nats, over=over).backward()
        assert (leaf.grad * 2).tolist() == want
    at = torch.full((2, 1), 0.5, dtype=torch.float64, requires_grad=True)
    free_bits(at, 0.5, over=over).backward()
    assert (at.grad * 2).tolist() == [[1], [1]]


def test_shapes_without_reduction_and_an_empty_mask():
    kl = torch.rand(4, 5, 3)
    shapes = {over: free_bits(kl, 0.1, over=over, reduction="none").shape for over in ("dimension", "group", "sample")}
    assert shapes == {"dimension": (4, 5, 3), "group": (3,), "sample": (4, 5)}
    for over in ("dimension", "group", "sample", "batch"):
        assert free_bits(kl, 0.1, over=over, mask=torch.zeros(4, 5, dtype=torch.bool)).item() == 0.0


@pytest.mark.parametrize("over", ["dimension", "group", "sample", "batch"])
def test_transforms(over):
    kl = torch.rand(3, 4, 2, dtype=torch.float64)
    got = torch.vmap(lambda k: free_bits(k, 0.4, over=over))(kl)
    torch.testing.assert_close(got, torch.stack([free_bits(k, 0.4, over=over) for k in kl]))
    compiled = torch.compile(lambda k: free_bits(k, 0.4, over=over), fullgraph=True, backend="eager")
    torch.testing.assert_close(compiled(kl), free_bits(kl, 0.4, over=over))
    assert free_bits(kl.bfloat16(), 0.4, over=over).dtype == torch.float32
    assert torch.autograd.gradgradcheck(lambda k: free_bits(k * k, 0.2, over=over), kl.requires_grad_())


def test_errors():
    with pytest.raises(ValueError, match="over"):
        free_bits(KL, 0.1, over="dim")
    with pytest.raises(ValueError, match="reduced to one number"):
        free_bits(KL.sum(), 0.1)
    with pytest.raises(ValueError, match="nats is a finite number"):
        free_bits(KL, -1.0)
    with pytest.raises(ValueError, match=r"NaN at index \(0, 1\)"):
        free_bits(torch.tensor([[1.0, math.nan]]), 0.1)
