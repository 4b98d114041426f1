"""`explain`: terms that sum to the divergence, findings that fire when they should and not otherwise, and its faces."""

import dataclasses
import json
import math
import re

import pytest
import torch
from torch import distributions as d

from kullback import (
    Counts,
    InputTypeError,
    InputValueError,
    Logits,
    LogProbs,
    Probs,
    Samples,
    ShapeError,
    estimate_kl,
    explain,
    js,
    kl,
    kl_with_error,
    total_variation,
)
from kullback.diagnose.formula import swap_names
from kullback.report.machine import to_json

F64 = torch.float64


def codes(*given, **options):
    return {finding.code for finding in explain(*given, **options).findings}


def random_logits(*shape, scale=2.0, seed=0):
    return scale * torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=F64)


PAIRS = [
    (Logits(random_logits(6)), Logits(random_logits(6, seed=1))),
    (Logits(random_logits(3, 4, 5)), LogProbs(random_logits(4, 5, seed=1).log_softmax(-1))),
    (Counts(torch.tensor([3, 0, 5, 1])), Counts(torch.tensor([1, 2, 3, 0]), smoothing=0.5)),
    (
        Probs(torch.tensor([[0.5, 0.5], [0.2, 0.8]], dtype=F64).T.contiguous().softmax(0), dim=0),
        Logits(torch.zeros(2, 2, dtype=F64)),
    ),
    (d.Poisson(torch.tensor(3.0, dtype=F64)), d.Poisson(torch.tensor(5.0, dtype=F64))),
    (d.Categorical(torch.tensor([0.5, 0.5, 0.0])), d.Categorical(torch.tensor([0.2, 0.3, 0.5]))),
    (d.Independent(d.Normal(random_logits(5), 1.0), 1), d.Independent(d.Normal(random_logits(5, seed=1), 2.0), 1)),
    (
        d.MultivariateNormal(random_logits(3), torch.eye(3, dtype=F64) + 0.5),
        d.MultivariateNormal(random_logits(3, seed=1), torch.eye(3, dtype=F64)),
    ),
    (d.Normal(torch.tensor(0.0, dtype=F64), 1.0), d.Normal(torch.tensor(1.0, dtype=F64), 2.0)),
    (d.Gamma(torch.tensor(2.0, dtype=F64), 1.0), d.LogNormal(torch.tensor(0.0, dtype=F64), 1.0)),
    (d.Cauchy(torch.tensor(0.0, dtype=F64), 1.0), d.StudentT(torch.tensor(1.5, dtype=F64))),  # most is in the tails
    (d.Dirichlet(torch.tensor([1.0, 2.0, 3.0], dtype=F64)), d.Dirichlet(torch.tensor([3.0, 2.0, 0.5], dtype=F64))),
    (d.Multinomial(5, torch.tensor([0.2, 0.3, 0.5])), d.Multinomial(5, torch.tensor([0.5, 0.25, 0.25]))),
    (
        d.MultivariateNormal(random_logits(3), torch.eye(3, dtype=F64) + 0.5),
        d.Independent(d.Normal(random_logits(3, seed=1), torch.tensor([1.0, 2.0, 3.0], dtype=F64)), 1),
    ),
]
UNIVARIATE = d.Normal, d.Gamma, d.Poisson, d.Cauchy


@pytest.mark.parametrize(("p", "q"), PAIRS, ids=range(len(PAIRS)))
def test_terms_are_not_negative_and_sum_to_the_divergence(p, q):
    e = explain(p, q, top=100)
    assert all(term.contribution >= 0 and term.reverse >= 0 for term in e.terms)
    assert torch.equal(e.directions[0].value, kl(p, q))
    assert torch.equal(e.directions[1].value, kl(q, p))
    close = 0.006 if isinstance(p, UNIVARIATE) else 1e-6  # of a grid
    assert math.fsum(t.contribution for t in e.terms) == pytest.approx(kl(p, q).mean().item(), rel=close)
    assert math.fsum(t.share for t in e.terms) == pytest.approx(1, rel=close)


@pytest.mark.parametrize(("p", "q"), PAIRS, ids=range(len(PAIRS)))
def test_every_face(p, q):
    e = explain(p, q, base=2)
    assert "bits" in str(e)
    assert "\x1b" not in str(e)
    assert e._repr_html_().startswith('<div class="kullback">')
    assert json.loads(to_json(e.to_dict()))["unit"] == "bits"
    assert "Explanation" in repr(e)


def test_a_plot_shows_both_and_what_adds():
    plot = explain(d.Normal(0.0, 1.0), d.StudentT(3.0)).plot()
    assert [ax.get_title(loc="left") for ax in plot.axes] == ["Densities: p and q", "Where KL accrues: the area is KL"]
    from matplotlib import pyplot

    pyplot.close(plot)


EYE = torch.eye(2, dtype=F64)
VECTORS = [
    (d.Dirichlet(torch.tensor([[1.0, 2.0], [2.0, 1.0]])), d.Dirichlet(torch.tensor([3.0, 2.0]))),
    (d.Multinomial(5, torch.tensor([0.2, 0.8])), d.Multinomial(5, torch.tensor([0.5, 0.5]))),
    (d.MultivariateNormal(torch.zeros(2, dtype=F64), EYE), d.MultivariateNormal(torch.ones(2, dtype=F64), 2 * EYE)),
    (d.LogisticNormal(torch.zeros(2), torch.ones(2)), d.LogisticNormal(torch.ones(2), torch.ones(2))),
    (d.Wishart(torch.tensor(4.0, dtype=F64), EYE), d.Wishart(torch.tensor(5.0, dtype=F64), 2 * EYE)),
    (d.LKJCholesky(3, torch.tensor(1.0)), d.LKJCholesky(3, torch.tensor(2.0))),
    (
        d.RelaxedOneHotCategorical(torch.tensor(0.5), torch.tensor([0.2, 0.8])),
        d.RelaxedOneHotCategorical(torch.tensor(0.5), torch.tensor([0.6, 0.4])),
    ),
    (
        d.MixtureSameFamily(
            d.Categorical(torch.ones(2, dtype=F64)), d.MultivariateNormal(torch.eye(2, dtype=F64), EYE)
        ),
        d.MultivariateNormal(torch.zeros(2, dtype=F64), EYE),
    ),
]


@pytest.mark.filterwarnings("ignore:Singular sample")
@pytest.mark.parametrize(("p", "q"), VECTORS, ids=[type(p).__name__ for p, _ in VECTORS])
def test_vectors_are_drawn_by_the_log_ratio_whose_mean_is_kl(p, q):
    e = explain(p, q)
    [figure] = [figure for figure in e.figures if figure.title.startswith("log p(x)/q(x)")]
    worst = e.directions[0].value.max().item()
    under_p = figure.series[0]
    mean = sum(x * y for x, y in zip(under_p.x, under_p.y, strict=True)) / sum(under_p.y)
    assert mean == pytest.approx(worst, rel=0.25), "the middle of the area is KL"
    assert "coordinate that differs most" in e.figures[-1].title


def test_measures_without_a_route_come_from_draws():
    near, far = (d.Independent(d.Normal(torch.tensor([0.0, loc], dtype=F64), 1.0), 1) for loc in (0.0, 1.5))
    shift = d.Normal(torch.tensor(0.0, dtype=F64), 1.0), d.Normal(torch.tensor(1.5, dtype=F64), 1.0)
    js_note, tv_note = explain(near, far).notes  # the first coordinate is the same on both sides
    for note, truth in ((js_note, js(*shift)), (tv_note, total_variation(*shift))):
        value, error = (float(number) for number in re.findall(r"[≈±] ([\d.e-]+)", note))
        assert abs(value - float(truth)) < 4 * error + 1e-3
        assert error < 0.01
    assert explain(*shift).notes == []


def test_what_cannot_be_drawn_is_said():
    with pytest.raises(InputValueError, match="nothing to draw"):
        explain(d.LKJCholesky(2, 1.0), d.Wishart(torch.tensor(3.0), torch.eye(2))).plot()


def test_masked_rows_are_left_out():
    p, q = random_logits(3, 4), random_logits(3, 4, seed=1)
    p[1] = math.nan
    mask = torch.tensor([True, False, True])
    e = explain(Logits(p), Logits(q), mask=mask)
    assert torch.equal(e.directions[0].value, kl(Logits(p[mask]), Logits(q[mask])))
    assert all(row.index != (1,) for row in e.rows)
    assert codes(Logits(p), Logits(q), mask=torch.zeros(3, dtype=torch.bool)) == {"nothing-kept"}


def test_labels_of_any_kind():
    p, q = Logits(torch.tensor([3.0, 0.0])), Logits(torch.zeros(2))

    class Tokenizer:
        def convert_ids_to_tokens(self, ids):
            return [f"t{i}" for i in ids]

    for labels in (["t0", "t1"], {0: "t0", 1: "t1"}, Tokenizer().convert_ids_to_tokens, Tokenizer()):
        assert {term.label for term in explain(p, q, labels=labels).terms} == {"t0", "t1"}
    with pytest.raises(InputValueError, match="1 labels, 2 classes"):
        explain(p, q, labels=["a"])
    with pytest.raises(InputTypeError, match="convert_ids_to_tokens"):
        explain(p, q, labels=3)


def test_findings_of_tensors():
    logits = random_logits(8, 1000)
    few = logits.clone()
    few[:, [3, 77, 500]] += 6
    order = torch.randperm(1000, generator=torch.Generator().manual_seed(0))
    hard = torch.nn.functional.one_hot(torch.arange(8), 1000).to(F64)
    assert "concentrated" in codes(Logits(few), Logits(logits))
    assert codes(Logits(logits), Logits(logits)) == {"identical"}
    assert "reordered" in codes(Logits(logits), Logits(logits[:, order]))
    assert {"looks-swapped", "infinite-pq"} <= codes(Logits(logits), Probs(hard))
    assert "within-rounding" in codes(Logits(logits.half()), Logits((logits + 1e-4).half() * 1.0001))
    [tempered] = [f for f in explain(Logits(logits), Logits(logits / 1.7)).findings if f.code == "tempered"]
    assert tempered.evidence["temperature"] == pytest.approx(1.7, rel=1e-3)
    assert tempered.evidence["side"] == "q"


def test_half_precision_underflow_is_noticed():
    logits = torch.tensor([[0.0, -30.0, -31.0]])
    probs = logits.softmax(-1).half()
    assert "underflow" in codes(Logits(logits), Probs(probs))
    tail = random_logits(4, 3000, scale=4.0)
    sharp = (3 * tail).softmax(-1).half()  # 0 where the other side still has 1e-3
    assert {"underflow"} == {f.code for f in explain(Logits(tail), Probs(sharp)).findings} & {
        "underflow",
        "looks-swapped",
    }
    assert "underflow" not in codes(Logits(tail), Probs(torch.nn.functional.one_hot(torch.arange(4), 3000).half()))


def test_a_plain_pair_has_no_complaints():
    p, q = random_logits(50), random_logits(50) + 0.3 * random_logits(50, seed=1)
    assert codes(Logits(p), Logits(q)) == set()
    assert codes(d.Normal(0.0, 1.0), d.Normal(1.0, 2.0)) == set()


@pytest.mark.parametrize("shape", [(5,), (50,), (8, 1000), (4, 7, 30), (32, 10), (64, 2)], ids=str)
@pytest.mark.parametrize("scale", [0.5, 2.0, 5.0])
def test_plain_tensors_raise_no_alarm(shape, scale):
    for seed in range(6):
        a, noise = random_logits(*shape, scale=scale, seed=seed), random_logits(*shape, scale=0.7, seed=seed + 100)
        other = random_logits(*shape, scale=scale, seed=seed + 200)
        for p, q in (
            (Logits(a), Logits(a + noise)),
            (Probs(a.softmax(-1).float()), Logits((a + noise).float())),
            (LogProbs(a.log_softmax(-1)), Logits((a + noise).bfloat16())),
            (Logits(a), Logits(other)),
        ):
            alarms = {f.code for f in explain(p, q).findings if f.severity != "info"}
            assert alarms == set(), f"seed {seed}"


def test_three_of_fifty_thousand_tokens():
    logits = random_logits(4, 50_257, scale=1.0)
    few = logits.clone()
    few[:, [11, 198, 220]] += 12
    e = explain(Logits(few), Logits(logits), labels={11: ",", 198: "newline", 220: "space"})
    [found] = [f for f in e.findings if f.code == "concentrated"]
    assert "in 3 of 50,257 classes: " in found.message
    assert all(name in found.message for name in (",", "newline", "space"))
    assert {term.label for term in e.terms[:3]} == {",", "newline", "space"}


def test_the_order_of_labels_and_models():
    logits = random_logits(16, 20)
    hard = torch.nn.functional.one_hot(torch.arange(16) % 20, 20).to(F64)
    for labels in (hard, 0.9 * hard + 0.1 / 20):
        assert "looks-swapped" in codes(Logits(logits), Probs(labels))
        assert "looks-swapped" not in codes(Probs(labels), Logits(logits))
    masked = logits.masked_fill(torch.arange(20) % 5 == 0, -math.inf)
    [one_side] = [f for f in explain(Logits(logits), Logits(masked)).findings if f.code == "looks-swapped"]
    assert "the same mask on both sides" in one_side.remedy
    shared = codes(Logits(masked), Logits(1.5 * masked))
    assert "shared-mask" in shared
    assert "looks-swapped" not in shared


def test_the_sum_is_named():
    probs = random_logits(3, 6).softmax(-1)
    [found] = [f for f in explain(Probs(0.93 * probs), Probs(probs)).findings if f.code == "does-not-sum-to-1"]
    assert "p sums to 0.93 in each of 3 rows" in found.message
    assert found.evidence["largest_sum"] == pytest.approx(0.93)


def test_one_direction_is_many_times_the_other():
    [found] = [f for f in explain(d.Normal(0.0, 0.075), d.Normal(0.0, 1.0)).findings if f.code == "one-sided"]
    assert found.message.startswith("Reverse KL is 41")
    assert "mode-seeking" in found.message


def test_findings_of_distributions():
    assert {"infinite-pq", "looks-swapped"} == codes(d.Cauchy(0.0, 1.0), d.Normal(0.0, 1.0))
    assert "one-sided" in codes(d.Normal(0.0, 0.1), d.Normal(0.0, 1.0))
    assert codes(d.Normal(0.0, 1.0), d.Normal(0.0, 1.0)) == {"identical"}
    assert "no-route" in codes(d.LKJCholesky(2, 1.0), d.Wishart(torch.tensor(3.0), torch.eye(2)))


def test_where_the_support_breaks_is_said():
    p, q = torch.tensor([[0.5, 0.5], [0.5, 0.5]]), torch.tensor([[0.5, 0.5], [1.0, 0.0]])
    [broken] = [f for f in explain(Probs(p), Probs(q), labels=["a", "b"]).findings if f.code == "infinite-pq"]
    assert "in 1 of 2 rows" in broken.message
    assert "class b in row 1, where p is 0.5 and q 0" in broken.message


def test_samples_get_an_estimate_with_its_error_and_a_summary():
    x, y = random_logits(500, scale=1.0), random_logits(400, seed=1, scale=3.0)
    e = explain(Samples(x), Samples(y))
    forward = e.directions[0]
    assert forward.interval[0] < math.log(3) + 1 / 18 - 0.5 < forward.interval[1]
    assert float(forward.value) == float(estimate_kl(Samples(x), Samples(y)))
    assert str(e).startswith("KL(p ‖ q) ≈ ")
    assert "standard deviation" in str(e)
    assert explain(Samples(x), Samples(y), base=2).to_dict()["kl"]["interval"][0] == pytest.approx(
        forward.interval[0] / math.log(2)
    )
    assert {"not-finite", "repeated-draws"} <= codes(
        Samples(torch.tensor([1.0, math.nan])), Samples(torch.ones(9).cumsum(0) % 2)
    )
    assert "no-difference-seen" in codes(Samples(x), Samples(random_logits(500, seed=7, scale=1.0)))
    with pytest.raises(ShapeError):
        explain(Samples(torch.zeros(3, 2)), Samples(torch.zeros(3, 1)))
    with pytest.raises(InputTypeError, match="Samples or a distribution"):
        explain(Samples(x), Logits(y))


def test_samples_beside_a_distribution():
    x = random_logits(1000, scale=1.0)
    truth = math.log(2) + 2 / 8 - 0.5  # KL(N(0, 1) ‖ N(1, 2))
    before = torch.get_rng_state()
    e = explain(Samples(x), d.Normal(1.0, 2.0))
    assert torch.equal(before, torch.get_rng_state())
    assert e.directions[0].interval[0] < truth < e.directions[0].interval[1]
    swapped = explain(d.Normal(1.0, 2.0), Samples(x))
    assert float(swapped.directions[1].value) == float(e.directions[0].value)
    counted = explain(Samples(torch.tensor([0.0, 1, 1, 2, 0, 3] * 40)), d.Poisson(1.0))
    assert counted.directions[0].value is not None
    assert "repeated-draws" not in {finding.code for finding in counted.findings}
    with pytest.raises(ShapeError, match="batch"):
        explain(Samples(x), d.Normal(torch.zeros(2), 1.0))


def test_the_words_of_an_estimator_have_the_names_of_the_direction():
    seen, more = torch.arange(300) % 5, torch.arange(300) % 7
    [doubt] = [f for f in explain(Samples(seen), Samples(more)).findings if f.code == "estimate-warning"]
    assert doubt.message.startswith("KL(q ‖ p): p never showed 2 categories")


def test_what_cannot_be_explained_is_refused():
    with pytest.raises(InputTypeError, match="bare tensor"):
        explain(torch.zeros(3), torch.zeros(3))
    with pytest.raises(InputValueError, match="NaN"):
        explain(Logits(torch.tensor([math.nan, 0.0])), Logits(torch.zeros(2)))
    with pytest.raises(ShapeError):
        explain(Logits(torch.zeros(3)), Logits(torch.zeros(4)))


def test_no_randomness_is_left_behind():
    before = torch.get_rng_state()
    explain(d.Normal(0.0, 1.0), d.Gumbel(0.0, 1.0))
    assert torch.equal(before, torch.get_rng_state())


def test_formulas_change_names_with_the_direction():
    assert swap_names("½[φ(2s) + (Δμ/σ_q)²], s = log(σ_p/σ_q)") == "½[φ(2s) + (Δμ/σ_p)²], s = log(σ_q/σ_p)"
    assert swap_names("log1p(Σ p φ(v))") == "log1p(Σ q φ(v))"


def test_results_with_an_error_are_readable():
    result = kl_with_error(d.Normal(torch.tensor(0.0, requires_grad=True), 1.0), d.Normal(1.0, 2.0))
    assert repr(result).startswith("KLResult(value=tensor(0.4431")
    assert "method='closed form')" in repr(result)
    assert "<td>KL(p ‖ q)</td><td>0.443147</td>" in result._repr_html_()
    batch = kl_with_error(d.Normal(torch.zeros(3, 4), 1.0), d.Normal(1.0, 2.0))._repr_html_()
    assert "KL(p ‖ q)[1, 3]" in batch
    assert "and 4 more elements" in batch
    estimate = estimate_kl(Samples(torch.arange(300) % 5), Samples(torch.arange(300) % 5))
    html = dataclasses.replace(estimate, warnings=["<b>bold</b>"])._repr_html_()
    assert "<th>standard error</th>" in html
    assert "warning: &lt;b&gt;bold" in html


def test_no_more_digits_than_the_dtype_has():
    e = explain(d.Bernoulli(torch.tensor(0.2)), d.Bernoulli(torch.tensor(0.3)))
    assert e.p == "Bernoulli(probs: 0.2)"
    assert f"KL(p ‖ q) = {float(e.directions[0].value):.7g} nats" in str(e)


def test_what_is_not_a_number_or_of_another_kind_is_said():
    broken = d.Normal(torch.tensor([math.nan, 0.0]), 1.0, validate_args=False)
    assert "not-a-number" in codes(broken, d.Normal(0.0, 1.0))
    assert "p has single outcomes and q a density" in str(explain(d.Poisson(3.0), d.Normal(3.0, 1.0)))
    with pytest.raises(InputValueError, match="top="):
        explain(d.Normal(0.0, 1.0), d.Normal(1.0, 1.0), top=0)
