"""Statistics against numpy and float64 KL; merging exactly; published standard errors of llama.cpp."""

import itertools
import json
import math

import numpy as np
import pytest
import torch

import kullback as kb
from kullback import KLAccumulator, Logits, Probs
from kullback.comparison import summary as summaries
from kullback.comparison.statistics import binomial_stderr, block_bootstrap, mean_stderr, quantile_interval
from kullback.comparison.summary import Summary, exact_sum, exact_to_float


def pair(rows=300, classes=40, seed=0, noise=0.3):
    generator = torch.Generator().manual_seed(seed)
    base = 2 * torch.randn(rows, classes, generator=generator)
    return base, base + noise * torch.randn(rows, classes, generator=generator)


def reference(a, b):
    log_p, log_q = a.double().log_softmax(-1), b.double().log_softmax(-1)
    p, q = log_p.exp(), log_q.exp()
    m = ((p + q) / 2).log()
    return {
        "kl": (p * (log_p - log_q)).sum(-1),
        "reverse_kl": (q * (log_q - log_p)).sum(-1),
        "js": 0.5 * (p * (log_p - m)).sum(-1) + 0.5 * (q * (log_q - m)).sum(-1),
        "total_variation": 0.5 * (p - q).abs().sum(-1),
        "top1": (p.argmax(-1) == q.argmax(-1)).double(),
    }


def test_every_statistic_agrees_with_float64():
    a, b = pair()
    accumulator = KLAccumulator()
    for start in range(0, 300, 70):
        accumulator.update(Logits(a[start : start + 70]), Logits(b[start : start + 70]))
    result = accumulator.compute()
    for name, expected in reference(a, b).items():
        measure, rows = result.others[0].measures[name], expected.numpy()
        assert measure.mean == pytest.approx(rows.mean(), rel=2e-6), name
        assert measure.high == pytest.approx(rows.max(), rel=2e-6)
        for share in (0.5, 0.9, 0.99, 0.999):
            assert measure.quantiles[share] == pytest.approx(np.quantile(rows, share), rel=1e-5)
        if name != "top1":
            assert measure.stderr == pytest.approx(rows.std(ddof=1) / math.sqrt(300), rel=1e-5)
    overlap = [
        len(set(x.topk(10).indices.tolist()) & set(y.topk(10).indices.tolist())) / 10 for x, y in zip(a, b, strict=True)
    ]
    assert result.topk_overlap.mean == pytest.approx(sum(overlap) / 300, rel=1e-6)
    worst = reference(a, b)["kl"].argmax()
    assert result.worst[0].row == int(worst)
    assert sum(t.contribution for t in result.worst[0].terms) <= result.worst[0].kl * 1.001


@pytest.mark.parametrize("parts", [2, 4, 7])
def test_parts_merge_to_the_same_digits(parts):
    a, b = pair(1000, 20)
    labels = torch.arange(1000) % 20
    whole = KLAccumulator()
    whole.update(Logits(a), Logits(b), labels=labels)
    merged = KLAccumulator()
    bounds = np.linspace(0, 1000, parts + 1).astype(int)
    for start, stop in reversed(list(itertools.pairwise(bounds))):
        part = KLAccumulator(first_row=int(start))
        part.update(Logits(a[start:stop]), Logits(b[start:stop]), labels=labels[start:stop])
        merged.merge(part)
    assert merged.compute().to_dict() == whole.compute().to_dict()


def test_many_rows_merge_to_the_same_digits_when_only_the_sketch_is_left(monkeypatch):
    monkeypatch.setattr(summaries, "MAX_KEPT", 500)
    monkeypatch.setattr(summaries, "MAX_BLOCKS", 16)
    values = np.random.default_rng(0).lognormal(-5, 2, 4000)
    blocks = np.arange(4000) // 10
    whole, parts = Summary(), [Summary() for _ in range(4)]
    whole.add(values, blocks)
    for number, part in enumerate(parts):
        for start in range(number * 1000, number * 1000 + 1000, 130):
            stop = min(start + 130, number * 1000 + 1000)
            part.add(values[start:stop], blocks[start:stop])
    merged = Summary()
    for part in parts:
        merged.merge(part)
    assert merged.state() == whole.state()
    assert block_bootstrap(merged) == block_bootstrap(whole)
    for share in (0.01, 0.5, 0.9, 0.999):
        assert merged.quantile(share) == pytest.approx(np.quantile(values, share), rel=2e-3)


def test_sums_are_exact():
    values = np.array([1e300, 1.0, -1e300, 1e-300, 5e-324])
    assert exact_to_float(exact_sum(values)) == math.fsum(values)
    many = np.random.default_rng(1).normal(size=10_000) * 10.0 ** np.random.default_rng(2).integers(-30, 30, 10_000)
    assert exact_to_float(exact_sum(many)) == math.fsum(many)


def test_state_goes_through_json():
    a, b = pair(50)
    accumulator = KLAccumulator()
    accumulator.update(Logits(a[:30]), Logits(b[:30]))
    copy = KLAccumulator()
    copy.load_state_dict(json.loads(json.dumps(accumulator.state_dict())))
    for one in (accumulator, copy):
        one.update(Logits(a[30:]), Logits(b[30:]))
    assert copy.compute().to_dict() == accumulator.compute().to_dict()
    accumulator.reset()
    assert accumulator.rows == 0


@pytest.mark.parametrize(
    "damage", [{"counts": [1]}, {"version": 9}, {"slopes": []}, {"slope_squares": []}, {"worst": 3}, {"format": "x"}]
)
def test_damaged_states_are_refused(damage):
    accumulator = KLAccumulator()
    accumulator.update(*(Logits(t) for t in pair(5)))
    with pytest.raises(kb.InputValueError):
        KLAccumulator().load_state_dict({**accumulator.state_dict(), **damage})


def test_rows_with_nan_are_counted_and_left_out():
    a, b = pair(20)
    b[3, 5], a[7] = math.nan, -math.inf
    accumulator = KLAccumulator()
    accumulator.update(Logits(a), Logits(b))
    result = accumulator.compute()
    assert result.rows == 18
    (finding,) = [f for f in result.findings if f.code == "unusable-rows"]
    assert finding.evidence["first"] == [3, 7]


def test_infinite_rows_make_the_mean_infinite_and_are_named():
    a, b = pair(20)
    b[4, 0] = -math.inf
    accumulator = KLAccumulator()
    accumulator.update(Logits(a), Logits(b))
    result = accumulator.compute()
    assert result.kl.mean == math.inf
    assert result.kl.finite_mean < 1
    assert result.reverse_kl.mean < 1
    assert [f.evidence["first"] for f in result.findings if f.code == "support"] == [[4]]


def test_alarm_where_everything_is_zero():
    a, _ = pair(20)
    accumulator = KLAccumulator()
    accumulator.update(Logits(a), Logits(a.clone()))
    assert accumulator.compute().findings[0].code == "identical"


@pytest.mark.parametrize("temperature", [0.5, 0.8, 1.0, 1.3, 2.5])
def test_best_fit_temperature(temperature):
    a, _ = pair(64, 500)
    accumulator = KLAccumulator(temperature_every=1)
    accumulator.update(Logits(a), Logits(a * temperature))
    assert accumulator.compute().temperature == pytest.approx(temperature, rel=1e-3)


def test_error_of_the_temperature_is_the_spread_over_samples():
    fits = []
    for seed in range(60):
        accumulator = KLAccumulator(temperature_every=1)
        a, b = pair(40, 50, seed)
        accumulator.update(Logits(a), Logits(b))
        fits.append(accumulator.compute().others[0])
    spread = np.std([fit.temperature for fit in fits], ddof=1)
    assert np.mean([fit.temperature_stderr for fit in fits]) == pytest.approx(spread, rel=0.3)


def test_mask_shapes_and_wrong_calls():
    a, b = pair(20)
    accumulator = KLAccumulator()
    keep = torch.arange(20) % 2 == 0
    accumulator.update(Logits(a), Logits(b), mask=keep)
    expected = kb.kl(Logits(a.double()), Logits(b.double()))[keep].mean()
    assert accumulator.compute().kl.mean == pytest.approx(float(expected), rel=1e-6)
    with pytest.raises(kb.ShapeError):
        accumulator.update(Logits(a), Logits(b[:, :5]))
    with pytest.raises(kb.InputTypeError):
        accumulator.update(a, b)
    with pytest.raises(kb.InputValueError, match="sum"):
        accumulator.update(Probs(a.exp()), Probs(b.exp()))
    with pytest.raises(kb.InputValueError):
        KLAccumulator(measures=["kl", "wasserstein"])


# Published by llama.cpp (tools/perplexity/README.md): share of the same top token in %, its error, and tokens.
PUBLISHED = [
    (85.584, 0.086, 655 * 255),
    (94.665, 0.055, 655 * 255),
    (97.520, 0.038, 655 * 255),
    (98.846, 0.026, 655 * 255),
    (71.138, 0.119, 564 * 255),
    (91.901, 0.072, 564 * 255),
    (96.031, 0.051, 564 * 255),
    (97.674, 0.040, 564 * 255),
    (99.739, 0.013, 564 * 255),
]


@pytest.mark.parametrize(("percent", "error", "tokens"), PUBLISHED)
def test_published_errors_of_llama_cpp(percent, error, tokens):
    assert round(100 * binomial_stderr(percent / 100, tokens), 3) == error


def test_bootstrap_sees_correlation_that_rows_hide():
    generator = np.random.default_rng(3)
    shared = np.repeat(generator.normal(size=200), 50)
    summary = Summary()
    summary.add(shared + 0.1 * generator.normal(size=10_000), np.arange(10_000) // 50)
    blocks = block_bootstrap(summary)
    assert blocks.stderr == pytest.approx(1 / math.sqrt(200), rel=0.25)
    assert blocks.stderr > 5 * mean_stderr(summary)
    low, high = quantile_interval(summary, 0.9)
    assert low < summary.quantile(0.9) < high
