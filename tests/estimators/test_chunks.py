"""Chunks: counts merge exactly, estimates of samples average."""

import pytest
import torch

import kullback as kb
from kullback import Counts, Samples, estimate_kl


def test_counts_are_added_up():
    x, y = torch.tensor([[5, 3, 1], [2, 2, 2]]), torch.tensor([[1, 3, 5], [3, 2, 1]])
    whole = estimate_kl(Counts(x.sum(0)), Counts(y.sum(0)))
    chunked = estimate_kl(map(Counts, x), map(Counts, y))
    assert chunked == whole


def test_samples_are_averaged_with_a_smaller_error():
    generator = torch.Generator().manual_seed(0)
    x, y = torch.randn(4, 300, generator=generator), torch.randn(4, 250, generator=generator) + 1
    chunked = estimate_kl((Samples(part) for part in x), (Samples(part) for part in y))
    each = [estimate_kl(Samples(a), Samples(b)) for a, b in zip(x, y, strict=True)]
    assert chunked.value == pytest.approx(sum(part.value for part in each) / 4)
    assert chunked.stderr < min(part.stderr for part in each)
    assert chunked.n == (1200, 1000)
    assert any("4 chunks" in warning for warning in chunked.warnings)


def test_chunks_that_do_not_pair():
    samples = [Samples(torch.randn(5))]
    with pytest.raises(kb.InputTypeError, match="pairs of one kind"):
        estimate_kl(samples * 2, samples)
    with pytest.raises(kb.InputTypeError, match="pairs of one kind"):
        estimate_kl(samples, [Counts(torch.ones(3))])
    with pytest.raises(kb.ShapeError, match="no chunks"):
        estimate_kl([], [])
    with pytest.raises(kb.ShapeError, match="different numbers"):
        estimate_kl([Counts(torch.ones(2)), Counts(torch.ones(3))], [Counts(torch.ones(2))] * 2)
