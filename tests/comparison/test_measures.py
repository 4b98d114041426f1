"""Measures of rows against an independent implementation in extended precision, for every dtype, masks and tops."""

import math
import warnings

import numpy as np
import pytest
import torch

from kullback import Counts, Logits, LogProbs, Probs
from kullback.comparison.measures import MEASURES, measure_rows, one_row, temperature_slopes, top_terms
from kullback.kernels import native_rows


def log_softmax(rows):
    rows = rows.double().numpy().astype(np.longdouble)
    rows = rows - rows.max(-1, keepdims=True)
    return rows - np.log(np.exp(rows).sum(-1, keepdims=True))


def truth(a, b):
    """KL, reverse KL, Jensen-Shannon and total variation with 64 bits of mantissa."""
    with np.errstate(all="ignore"):
        log_p, log_q = log_softmax(a), log_softmax(b)
        p, q = np.exp(log_p), np.exp(log_q)
        log_m = np.log((p + q) / 2)
        terms = {
            "kl": np.where(p > 0, p * (log_p - log_q), 0) - p + q,
            "reverse_kl": np.where(q > 0, q * (log_q - log_p), 0) - q + p,
            "js": (np.where(p > 0, p * (log_p - log_m), 0) + np.where(q > 0, q * (log_q - log_m), 0)) / 2,
            "total_variation": abs(p - q) / 2,
        }
    return {name: values.sum(-1).astype(float) for name, values in terms.items()}


def agrees(a, b, limit):
    measured = measure_rows(Logits(a), Logits(b), MEASURES, 10, labelled=True)
    for name, expected in truth(a, b).items():
        found = measured.found[name].numpy()
        assert (np.isinf(found) == np.isinf(expected)).all(), name
        finite = np.isfinite(expected)
        np.testing.assert_allclose(found[finite], expected[finite], rtol=limit, err_msg=name)
    number = min(10, a.shape[-1])
    for side, tops, log_sum in zip((a, b), measured.tops, measured.log_sums, strict=True):
        weights = side.double().gather(-1, tops.clamp(min=0)).masked_fill(tops < 0, -math.inf)
        assert torch.equal(weights, side.double().topk(number).values)
        torch.testing.assert_close(log_sum, side.double().logsumexp(-1), rtol=0, atol=3e-6)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("noise", [1e-2, 0.3, 3.0, 30.0])
@pytest.mark.parametrize("classes", [7, 100, 5000])
def test_rows_agree_with_extended_precision(dtype, noise, classes):
    generator = torch.Generator().manual_seed(classes)
    a = 2 * torch.randn(6, classes, generator=generator)
    b = a + noise * torch.randn(6, classes, generator=generator)
    a, b = a.to(dtype), b.to(dtype)
    limit = 1e-10 if dtype == torch.float64 else 2e-6
    agrees(a, b, limit)
    mask = torch.rand(6, classes, generator=generator) < 0.3
    mask[:, 0] = False
    agrees(a.masked_fill(mask, -math.inf), b.masked_fill(mask, -math.inf), limit)
    agrees(a.masked_fill(mask, -math.inf), b, limit)
    agrees(a, b.masked_fill(mask, -math.inf), limit)


def test_rows_of_a_common_shift_and_of_one_far_class_keep_their_small_measures():
    generator = torch.Generator().manual_seed(8)
    a = torch.randn(4, 5000, generator=generator)
    b = a + 1e-3 * torch.randn(4, 5000, generator=generator)
    agrees(a, b + 7.3, 2e-6)
    agrees(a, a + 1e-5 * torch.randn(4, 5000, generator=generator), 2e-6)
    b[:, 9] -= 5e6  # KL is large, total variation and KL(q || p) stay small
    agrees(a, b, 2e-6)


def test_native_rows_and_torch_agree_for_every_view():
    generator = torch.Generator().manual_seed(5)
    counts = [torch.randint(0, 9, (20, 60), generator=generator).double() for _ in range(2)]
    for make in (
        lambda x: Counts(x, smoothing=0.5),
        lambda x: Probs((x + 1) / (x + 1).sum(-1, keepdim=True)),
        lambda x: LogProbs((x / 3).log_softmax(-1).float()),
    ):
        views = [make(x) for x in counts]
        found = measure_rows(*views, MEASURES, 10, labelled=True)
        with native_rows.reference_only():
            expected = measure_rows(*views, MEASURES, 10, labelled=True)
        for name in ("kl", "reverse_kl", "js", "total_variation"):
            torch.testing.assert_close(found.found[name], expected.found[name], rtol=3e-6, atol=0)
        for mine, theirs in zip(found.log_sums, expected.log_sums, strict=True):
            torch.testing.assert_close(mine, theirs, rtol=0, atol=3e-6)


def test_rows_that_are_equal_give_zeros_and_whole_overlap():
    a = torch.randn(3, 300, generator=torch.Generator().manual_seed(2)).masked_fill(torch.arange(300) > 4, -math.inf)
    found = measure_rows(Logits(a), Logits(a.clone()), MEASURES, 10, labelled=False).found
    assert all(float(found[name].abs().max()) == 0 for name in ("kl", "reverse_kl", "js", "total_variation"))
    assert found["top1"].tolist() == found["topk_overlap"].tolist() == [1.0] * 3


def test_temperature_slopes_vanish_at_the_temperature():
    a = 3 * torch.randn(4, 500, generator=torch.Generator().manual_seed(3))
    slopes = temperature_slopes(Logits(a), Logits(2 * a))  # β = 1/2 is a node
    assert slopes[4].abs().max() < 1e-4
    assert (slopes[:4] < 0).all()
    assert (slopes[5:] > 0).all()


def test_temperature_slopes_of_extreme_rows_are_finite_and_silent():
    p = torch.tensor([[500.0, 1.0, 0.0], [3e38, -3e38, 0.0], [0.0, -math.inf, -math.inf]])
    q = torch.tensor([[-math.inf, 0.0, 1.0], [-3e38, 3e38, 0.0], [-math.inf, 0.0, 1.0]])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        slopes = temperature_slopes(Logits(p), Logits(q))
    assert slopes.isfinite().all()
    assert (slopes[:, 2] == 0).all()


@pytest.mark.parametrize("classes", [50, 70_000])
@pytest.mark.parametrize("noise", [1e-6, 1e-2, 0.3, 60.0])
def test_the_largest_terms_of_a_row_are_found(classes, noise):
    generator = torch.Generator().manual_seed(classes)
    a = 3 * torch.randn(1, classes, generator=generator)
    b = a + noise * torch.randn(1, classes, generator=generator)
    b[0, 3], b[0, 7] = b[0, 3] - 30 * noise, b[0, 7] + 300 * noise
    for p, q in ((a, b), (b, a), (a.bfloat16(), b.bfloat16()), (a.masked_fill(a > 2, -math.inf), b)):
        measured = measure_rows(Logits(p), Logits(q), MEASURES, 1, labelled=True)
        terms = top_terms(one_row(Logits(p), Logits(q), measured, 0), 8)
        log_p, log_q = log_softmax(p)[0], log_softmax(q)[0]
        with np.errstate(invalid="ignore"):
            parts = np.where(log_p > -np.inf, np.exp(log_p) * (log_p - log_q), 0) - np.exp(log_p) + np.exp(log_q)
        largest = np.argsort(-parts, kind="stable")[:8]
        np.testing.assert_allclose([term.contribution for term in terms], parts[largest].astype(float), rtol=2e-5)
        shown = [i for i, term in enumerate(terms) if term.contribution > 0]
        expected = np.exp(log_p[largest[shown]]).astype(float)
        np.testing.assert_allclose([terms[i].p for i in shown], expected, rtol=1e-5)
