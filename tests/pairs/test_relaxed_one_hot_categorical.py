"""KL(RelaxedOneHotCategorical ‖ ·)."""

import math

import pytest
import torch
from torch.distributions import RelaxedBernoulli, RelaxedOneHotCategorical

from kullback.pairs import kl_divergence
from kullback.pairs import relaxed_one_hot_categorical as concrete
from kullback.special import expm1mx
from tests.pairs import contract
from tests.pairs.contract import *  # noqa: F403


def at_half(probs, temperature=0.5, **options):
    """Equal temperatures, as numbers, so that the battery moves only the weights."""
    return RelaxedOneHotCategorical(torch.tensor(0.5, dtype=probs.dtype), probs=probs, **options)


# torch divides the weights by their sum in their own precision, and so does the gradient going back.
CASES = [
    contract.Case(RelaxedOneHotCategorical, RelaxedOneHotCategorical, at_half, at_half, gradient_floor=1e-2),
]


def d(x):
    return torch.tensor(x, dtype=torch.float64)


@pytest.mark.parametrize("c", [1e-2, 0.3, 0.97, 1.0, 1 + 1e-6, 1.04, 1.06, 3.0, 40.0])
@pytest.mark.parametrize("b", [0.75, 0.75 - 1e-6, 40.0])
@pytest.mark.sample(3)
def test_two_classes_at_different_temperatures(c, b):
    """Against the logistic integral, which has its own table."""
    leaves = [d(x).requires_grad_() for x in (0.5, 0.75, 0.5 * c, b)]
    value = kl_divergence(*(of_logits(t, torch.stack([a, d(0.0)])) for t, a in (leaves[:2], leaves[2:])))
    truth = kl_divergence(RelaxedBernoulli(leaves[0], logits=leaves[1]), RelaxedBernoulli(leaves[2], logits=leaves[3]))
    torch.testing.assert_close(value, truth, rtol=1e-8, atol=0)
    got, want = (torch.stack(torch.autograd.grad(v, leaves)) for v in (value, truth))
    torch.testing.assert_close(got, want, rtol=1e-8, atol=1e-9 * float(want.abs().max()))


def test_one_class_is_certain():
    value = kl_divergence(RelaxedOneHotCategorical(d(0.5), d([1.0])), RelaxedOneHotCategorical(d(2.0), d([1.0])))
    assert value.item() == 0.0


@pytest.mark.parametrize("count", [3, 40])
def test_batches_of_many_temperatures(count):
    """Each element of a batch is what it is alone, near equality and far from it."""
    generator = torch.Generator().manual_seed(count)
    logits = torch.randn(count, dtype=torch.float64, generator=generator)
    moved = logits + 1e-4 * torch.randn(4, 1, count, dtype=torch.float64, generator=generator)
    temperatures = d([0.5, 0.5 * (1 + 1e-6), 0.7])
    p = RelaxedOneHotCategorical(d(0.5), logits=logits)
    q = RelaxedOneHotCategorical(temperatures, logits=moved[0].expand(3, count))
    value = kl_divergence(p, q)
    assert value.shape == (3,)
    for i, temperature in enumerate(temperatures):
        alone = kl_divergence(p, RelaxedOneHotCategorical(temperature, logits=moved[0, 0]))
        torch.testing.assert_close(value[i], alone, rtol=1e-10, atol=0)
    fisher = kl_divergence(p, RelaxedOneHotCategorical(d(0.5 * (1 + 2e-6)), logits=logits))
    half = kl_divergence(p, RelaxedOneHotCategorical(d(0.5 * (1 + 1e-6)), logits=logits))
    assert fisher.item() == pytest.approx(4 * half.item(), rel=1e-5)


def test_classes_without_mass():
    p, q = d([0.5, 0.5, 0.0]).requires_grad_(), d([0.25, 0.75, 0.0]).requires_grad_()
    value = kl_divergence(RelaxedOneHotCategorical(d(0.5), p), RelaxedOneHotCategorical(d(0.5), q))
    two = kl_divergence(RelaxedOneHotCategorical(d(0.5), p[:2]), RelaxedOneHotCategorical(d(0.5), q[:2]))
    assert value.item() == pytest.approx(two.item(), rel=1e-14)
    value.backward()
    assert bool(p.grad.isfinite().all())
    assert bool(q.grad.isfinite().all())
    value = kl_divergence(RelaxedOneHotCategorical(d(0.5), p), RelaxedOneHotCategorical(d(0.5), d([0.25, 0.5, 0.25])))
    assert value.item() == math.inf


def plane(temperature_p, logits_p, temperature_q, logits_q):
    """KL for three classes by the trapezoid rule over the plane of the differences of scaled log-outcomes.

    With x_i = T_p·(log y_i − log y_3) the densities are 2·Π w_i/(Σ w_i)³, w_i = e^(a_i − x_i), and of q at c·x; the
    integrand p φ(log q/p) is analytic and the rule converges geometrically. Far away it falls like e^(−|x|).
    """
    c = temperature_q / temperature_p
    reach = 42.0 * max(1.0, 1 / c.item())
    half = torch.arange(-reach, reach, 0.2, dtype=torch.float64)
    x, y = half.unsqueeze(-1), half.unsqueeze(0)
    shift = (logits_p - logits_p[2]).detach()
    x, y = x + shift[0], y + shift[1]

    def log_density(logits, scale):
        log_w = torch.stack(torch.broadcast_tensors(logits[0] - scale * x, logits[1] - scale * y, logits[2]), -1)
        return math.log(2) + 2 * torch.log(scale) + log_w.sum(-1) - 3 * log_w.logsumexp(-1)

    log_p, log_q = log_density(logits_p, torch.ones_like(c)), log_density(logits_q, c)
    change = log_q - log_p
    terms = torch.where(
        change > 0.5, log_q.exp() - log_p.exp() * (1 + change), log_p.exp() * expm1mx(change.clamp_max(1.0))
    )
    return 0.04 * terms.sum()


@pytest.mark.parametrize("ratio", [0.4, 0.9, 1.0 + 1e-3, 1.04, 1.3, 3.0])
@pytest.mark.parametrize("move", [1e-4, 0.3, 3.0])
@pytest.mark.sample(5)
def test_three_classes_at_different_temperatures(ratio, move):
    leaves = [d(x).requires_grad_() for x in (0.5, [0.25, -1.0, 0.5], 0.5 * ratio)]
    leaves.append((d([0.25, -1.0, 0.5]) + move * d([1.0, -0.75, 0.25])).requires_grad_())
    value, truth = kl_divergence(of_logits(*leaves[:2]), of_logits(*leaves[2:])), plane(*leaves)
    torch.testing.assert_close(value, truth, rtol=1e-10, atol=0)
    got, want = (torch.cat([g.flatten() for g in torch.autograd.grad(v, leaves)]) for v in (value, truth))
    torch.testing.assert_close(got, want, rtol=1e-8, atol=1e-10 * float(want.abs().max()))


def of_logits(temperature, logits):
    """The stored log-weights are the given ones, not what torch's normalisation rounds them to."""
    distribution = RelaxedOneHotCategorical(temperature, logits=torch.zeros_like(logits))
    inner = distribution.base_dist._categorical
    inner.logits = inner._param = logits
    return distribution


def test_memory_is_bounded(monkeypatch):
    """Elements beyond what is held at once are found in pieces, with the same values and derivatives."""
    generator = torch.Generator().manual_seed(0)
    a, b = (torch.randn(2, 3, 4, dtype=torch.float64, generator=generator).requires_grad_() for _ in range(2))
    temperature = d([0.5, 0.51, 1.0]).requires_grad_()

    def evaluate():
        value = kl_divergence(
            RelaxedOneHotCategorical(d(0.5), logits=a), RelaxedOneHotCategorical(temperature, logits=b)
        )
        return value, torch.autograd.grad(value.sum(), (a, b, temperature))

    whole, gradients = evaluate()
    monkeypatch.setattr(concrete, "_HELD", 2 * 257 * 4 * 220)
    pieces, gradients_of_pieces = evaluate()
    torch.testing.assert_close(pieces, whole, rtol=1e-14, atol=0)
    torch.testing.assert_close(gradients_of_pieces, gradients, rtol=1e-12, atol=1e-15)
