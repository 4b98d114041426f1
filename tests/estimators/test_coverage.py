"""Nominal 95 % intervals cover the truth about as often as they say; the table of docs/estimators.md in small."""

import pytest
import torch
from torch.distributions import Independent, MultivariateNormal, StudentT

import kullback as kb
from kullback import Counts, Samples, estimate_kl


def covered(draw, truth, repeats=60):
    hits = 0
    for seed in range(repeats):
        torch.manual_seed(1000 + seed)
        estimate = draw()
        hits += estimate.low <= truth <= estimate.high
    return hits / repeats


@pytest.mark.slow
@pytest.mark.parametrize("d", [1, 2, 5, 10])
def test_normals(d):
    shift = torch.zeros(d)
    shift[0] = 1
    p, q = MultivariateNormal(torch.zeros(d), torch.eye(d)), MultivariateNormal(shift, torch.eye(d))
    assert covered(lambda: estimate_kl(Samples(p.sample((1000,))), Samples(q.sample((1200,)))), 0.5) >= 0.85


@pytest.mark.slow
def test_heavy_tails():
    p, q = (Independent(StudentT(torch.full((1,), 3.0), torch.full((1,), loc)), 1) for loc in (0.0, 1.0))
    truth = float(kb.kl(p, q))
    assert covered(lambda: estimate_kl(Samples(p.sample((1000,))), Samples(q.sample((1200,)))), truth) >= 0.85


@pytest.mark.slow
def test_ten_categories():
    p, q = torch.linspace(0, 2, 10).softmax(0), torch.linspace(1, 0, 10).softmax(0)

    def draw():
        x, y = (torch.multinomial(probs, 500, replacement=True).bincount(minlength=10) for probs in (p, q))
        return estimate_kl(Counts(x), Counts(y))

    assert covered(draw, float((p * (p / q).log()).sum())) >= 0.85
