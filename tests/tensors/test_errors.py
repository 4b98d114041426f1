"""Each misuse is told: what came, what was expected, what to write instead."""

import pytest
import torch

import kullback as kb

X = torch.tensor([[0.2, 0.3, 0.5], [0.1, 0.1, 0.8]])
GOOD = kb.Probs(X)
NAN, INF = float("nan"), float("inf")


class Output:
    """What a Hugging Face model returns."""

    logits = X


def nested():
    return torch.nested.nested_tensor([X[0], X[1, :2]])


def row(*numbers, dtype=torch.float32):
    return torch.tensor([[0.2, 0.3, 0.5], list(numbers)], dtype=dtype)


TYPE_ERRORS = {
    "bare tensors": (lambda: kb.kl(X, X), "Logits(x), LogProbs(x), Probs(x) or Counts(x)"),
    "one bare tensor": (lambda: kb.kl(GOOD, X), "q is a Tensor of shape (2, 3)"),
    "a list": (lambda: kb.kl(GOOD, [0.5, 0.5]), "Probs(torch.as_tensor(x))"),
    "samples": (lambda: kb.kl(kb.Samples(X), GOOD), "Counts(torch.bincount(x, minlength=K))"),
    "a view and a distribution": (
        lambda: kb.kl(GOOD, torch.distributions.Categorical(X)),
        "not one with the other",
    ),
    "integer logits": (lambda: kb.Logits(torch.tensor([1, 2])), "cross_entropy(logits, labels)"),
    "a class index as probabilities": (lambda: kb.Probs(torch.tensor([1, 0, 2])), "one_hot"),
    "complex": (lambda: kb.Counts(torch.ones(2, dtype=torch.complex64)), "torch.complex64"),
    "a view of a view": (lambda: kb.Logits(GOOD), "already wrapped"),
    "an array": (lambda: kb.Logits([0.0, 1.0]), "Logits(torch.as_tensor(x))"),
    "a mask of numbers": (lambda: kb.kl(GOOD, GOOD, mask=torch.ones(2)), "mask=mask.bool()"),
    "a boolean weight": (lambda: kb.kl(GOOD, GOOD, weight=torch.ones(2, dtype=torch.bool)), "mask= for booleans"),
}
TYPE_ERRORS |= {
    "entropy of a bare tensor": (lambda: kb.entropy(X), "entropy(Logits(x)) for raw"),
    "a unit by its name": (lambda: kb.kl(GOOD, GOOD, base="bits"), "base=2"),
    "a class": (lambda: kb.js(torch.distributions.Normal, GOOD), "Normal(...) with its parameters"),
    "labels": (lambda: kb.cross_entropy(GOOD, torch.tensor([0, 1])), "cross_entropy(logits, labels)"),
    "distributions pair by pair": (
        lambda: kb.pairwise_kl(torch.distributions.Categorical(X), GOOD),
        "Logits(P.logits) for a Categorical",
    ),
    "a list as mask": (lambda: kb.kl(GOOD, GOOD, mask=[True, False]), "mask=torch.as_tensor(mask)"),
    "an estimate of a list": (lambda: kb.estimate_kl([0.1, 0.2], [0.3]), "Samples(torch.as_tensor(x))"),
    "an estimate with samples on the right": (
        lambda: kb.estimate_kl(torch.distributions.Normal(0.0, 1.0), kb.Samples(X)),
        "p is a Normal, q is a Samples",
    ),
    "classes to check": (
        lambda: kb.testing.check_pair(torch.distributions.Normal, torch.distributions.Normal),
        "check_pair(Normal(0., 1.), Normal(1., 2.))",
    ),
    "a number": (lambda: kb.kl(torch.distributions.Normal(0.0, 1.0), 3.0), "the float 3.0"),
    "complex logits": (lambda: kb.Logits(torch.ones(2, dtype=torch.complex64)), "Logits(x.real)"),
    "a model's output": (lambda: kb.kl(Output(), GOOD), "Logits(p.logits)"),
    "a wrapped model's output": (lambda: kb.Probs(Output()), "Logits(output.logits)"),
    "sparse": (lambda: kb.Probs(X.to_sparse()), "Probs(x.to_dense())"),
    "sparse logits": (lambda: kb.Logits(X.to_sparse()), "are zeros, not -inf"),
    "mkldnn": (lambda: kb.Logits(X.to_mkldnn()), "Logits(x.to_dense())"),
    "nested": (lambda: kb.Logits(torch.nested.nested_tensor([X[0], X[1]])), "a nested tensor"),
    "bare nested": (lambda: kb.kl(nested(), nested()), "rows of several lengths (nested)"),
    "a nested tensor and a distribution": (
        lambda: kb.kl_divergence(nested(), torch.distributions.Normal(0.0, 1.0)),
        "rows of several lengths (nested)",
    ),
    "estimated from nested tensors": (lambda: kb.estimate_kl(nested(), nested()), "rows of several lengths (nested)"),
    "fitted to a nested tensor": (lambda: kb.project(nested(), torch.distributions.Normal), "(nested)"),
    "nested samples": (lambda: kb.Samples(nested()), "Samples(torch.cat(x.unbind()))"),
    "sparse samples": (lambda: kb.Samples(X.to_sparse()), "Samples(x.to_dense())"),
    "samples without data": (lambda: kb.estimate_kl(kb.Samples(X.to("meta")), kb.Samples(X)), "a tensor on meta"),
    "a dimension by name": (lambda: kb.Logits(X, dim="classes"), "dim='classes'"),
    "no dimension": (lambda: kb.Logits(X, dim=None), "Logits(x, dim=1)"),
    "smoothing by name": (lambda: kb.Counts(X, smoothing="laplace"), "smoothing='laplace'"),
}
VALUE_ERRORS = {
    "sum": (lambda: kb.kl(kb.Probs(row(0.2, 0.2, 0.2)), GOOD), "p[1] does not sum to 1"),
    "sum in q": (lambda: kb.kl(GOOD, kb.Probs(row(2.5, 0.2, 0.2))), "q[1] does not sum to 1"),
    "counts as probabilities": (lambda: kb.kl(kb.Probs(row(3, 1, 0)), GOOD), "these look like counts"),
    "negative": (lambda: kb.kl(kb.Probs(row(-0.5, 0.5, 1.0)), GOOD), "these look like logits: wrap them in Logits"),
    "log-probabilities as probabilities": (lambda: kb.kl(kb.Probs(X.log()), GOOD), "wrap them in LogProbs"),
    "probabilities as log-probabilities": (lambda: kb.kl(kb.LogProbs(X), GOOD), "wrap them in Probs"),
    "logits as log-probabilities": (
        lambda: kb.kl(GOOD, kb.LogProbs(torch.tensor([[3.0, -1.0, 2.0]]))),
        "these look like logits: wrap them in Logits",
    ),
    "negative logits as log-probabilities": (
        lambda: kb.kl(GOOD, kb.LogProbs(torch.tensor([[-3.0, -1.0, -2.0]]))),
        "does not normalise",
    ),
    "NaN": (
        lambda: kb.kl(kb.Logits(row(0, NAN, 0)), GOOD),
        "p[1] holds NaN.\n  got:      a row [0, nan, 0], entry 1 is nan",
    ),
    "NaN probability": (lambda: kb.kl(GOOD, kb.Probs(row(0, NAN, 1))), "q[1] holds NaN"),
    "NaN log-probability": (lambda: kb.kl(GOOD, kb.LogProbs(row(0, NAN, -1))), "q[1] holds NaN"),
    "+inf": (lambda: kb.kl(kb.Logits(row(0, INF, 0)), GOOD), "p[1] holds +inf"),
    "an empty row": (lambda: kb.kl(kb.Logits(row(-INF, -INF, -INF)), GOOD), "every class is excluded"),
    "negative counts": (lambda: kb.kl(kb.Counts(row(1, -1, 3)), GOOD), "p[1] has a negative count"),
    "no counts": (lambda: kb.kl(kb.Counts(row(0, 0, 0)), GOOD), "smoothing=1.0"),
    "negative smoothing": (lambda: kb.Counts(X, smoothing=-1.0), "smoothing=-1.0"),
    "negative weight": (lambda: kb.kl(GOOD, GOOD, weight=torch.tensor([1.0, -1.0])), "a weight of -1.0"),
    "NaN weight": (lambda: kb.kl(GOOD, GOOD, weight=torch.tensor([1.0, NAN])), "a weight of nan"),
    "batchmean": (lambda: kb.kl(GOOD, GOOD, reduction="batchmean"), 'reduction="mean"'),
    "no reduction": (lambda: kb.kl(GOOD, GOOD, reduction=None), "'none', 'sum' or 'mean'"),
    "base 1": (lambda: kb.kl(GOOD, GOOD, base=1), "2 for bits"),
    "base 0": (lambda: kb.kl(GOOD, GOOD, base=0), "2 for bits"),
    "validate": (lambda: kb.kl(GOOD, GOOD, validate="later"), "'async' or 'sync'"),
    "a mask elsewhere": (
        lambda: kb.kl(GOOD, GOOD, mask=torch.ones(2, dtype=torch.bool, device="meta")),
        "mask=mask.to(device)",
    ),
    "no method": (lambda: kb.estimate_kl(kb.Samples(X[0]), kb.Samples(X[1]), method=None), "method='none'"),
    "how": (lambda: kb.align(GOOD, GOOD, how="wrap"), "'pad' or 'truncate'"),
}
SHAPE_ERRORS = {
    "class counts": (lambda: kb.kl(GOOD, kb.Logits(torch.zeros(2, 4))), 'align(p, q, how="truncate")'),
    "padded vocabulary": (
        lambda: kb.kl(kb.Logits(torch.zeros(151936)), kb.Logits(torch.zeros(152064))),
        "A vocabulary padded for the hardware",
    ),
    "one class": (lambda: kb.kl(kb.Logits(torch.zeros(4)), kb.Logits(torch.zeros(1))), "not broadcast"),
    "one class against four": (
        lambda: kb.kl(kb.Probs(torch.full((4,), 0.25)), kb.Probs(torch.ones(1))),
        "both classes of a binary q",
    ),
    "a distribution of vectors and one of numbers": (
        lambda: kb.kl(
            torch.distributions.MultivariateNormal(torch.zeros(2), torch.eye(2)), torch.distributions.Normal(0.0, 1.0)
        ),
        "Independent(q.expand((2,)), 1)",
    ),
    "batch": (lambda: kb.kl(GOOD, kb.Logits(torch.zeros(5, 3))), "(2,) and (5,)"),
    "no dimension": (lambda: kb.kl(kb.Probs(torch.tensor(0.5)), GOOD), "torch.stack([1 - x, x], -1)"),
    "dimension": (lambda: kb.kl(kb.Probs(X, dim=3), GOOD), "dim between -2 and 1"),
    "no classes": (lambda: kb.kl(kb.Probs(torch.zeros(2, 0)), GOOD), "has no classes"),
    "mask over classes": (lambda: kb.kl(GOOD, GOOD, mask=X > 0), "the logit -inf on both sides"),
    "mask of another length": (lambda: kb.kl(GOOD, GOOD, mask=torch.ones(5, dtype=torch.bool)), "mask of shape (5,)"),
    "weight of another length": (lambda: kb.kl(GOOD, GOOD, weight=torch.ones(5)), "weight of shape (5,)"),
    "a mask that would broadcast the rows": (
        lambda: kb.kl(kb.Probs(X[:1]), kb.Probs(X[:1]), mask=torch.ones(5, dtype=torch.bool)),
        "batch shape (1,)",
    ),
    "single row": (lambda: kb.pairwise_kl(kb.Probs(X[0]), GOOD), "P is a single row"),
}


@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")
@pytest.mark.parametrize(("call", "says"), TYPE_ERRORS.values(), ids=TYPE_ERRORS)
def test_the_wrong_kind_of_thing(call, says):
    with pytest.raises(kb.InputTypeError) as caught:
        call()
    assert says in str(caught.value)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("view", [kb.Logits, kb.Probs, kb.LogProbs, kb.Counts, kb.Samples])
def test_tensors_with_a_meaning_of_their_own(view):
    with pytest.raises(kb.InputTypeError, match=r"x\.get_data\(\)"):
        view(torch.masked.masked_tensor(X, X > 0))
    with pytest.raises(kb.InputTypeError, match=r"x\.dequantize\(\)"):
        view(torch.quantize_per_tensor(X, 0.1, 0, torch.quint8))


@pytest.mark.parametrize(("call", "says"), VALUE_ERRORS.values(), ids=VALUE_ERRORS)
def test_impossible_values(call, says):
    with pytest.raises(kb.InputValueError) as caught:
        call()
    assert says in str(caught.value)


@pytest.mark.parametrize(("call", "says"), SHAPE_ERRORS.values(), ids=SHAPE_ERRORS)
def test_sizes_that_do_not_fit(call, says):
    with pytest.raises(kb.ShapeError) as caught:
        call()
    assert says in str(caught.value)


def test_distributions_without_an_entropy_have_their_own_error():
    distribution = torch.distributions.LKJCholesky(3, torch.tensor(2.0))
    with pytest.raises(kb.NoRouteError, match="LKJCholesky"):
        kb.cross_entropy(distribution, distribution)
    with pytest.raises(kb.NoRouteError, match=r"p\.log_prob\(p\.sample"):
        kb.entropy(distribution)


def test_unmasked_rows_are_still_looked_at():
    bad = row(NAN, 0.5, 0.5)
    kb.kl(kb.Probs(bad), GOOD, mask=torch.tensor([True, False]))
    with pytest.raises(kb.InputValueError):
        kb.kl(kb.Probs(bad), GOOD, mask=torch.tensor([False, True]))


def test_a_broadcast_row_is_looked_at_if_it_is_kept_anywhere():
    bad = kb.Probs(torch.tensor([0.5, 0.5, 0.5]))
    with pytest.raises(kb.InputValueError):
        kb.kl(bad, GOOD, mask=torch.tensor([False, True]))
    kb.kl(bad, GOOD, mask=torch.tensor([False, False]))


def test_validation_can_be_switched_off():
    bad = kb.Probs(row(0.2, 0.2, 0.2))
    assert kb.kl(bad, GOOD, validate=False).isfinite().all()
    for mode in ("sync", "async", True):
        with pytest.raises(kb.InputValueError):
            kb.kl(bad, GOOD, validate=mode)


@pytest.mark.parametrize("classes", [2, 1000, 131072])
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16, torch.float16])
def test_what_softmax_gives_is_accepted(dtype, classes):
    generator = torch.Generator().manual_seed(classes)
    for scale in (0.0, 1.0, 20.0):
        logits = (scale * torch.randn(2, classes, generator=generator)).to(dtype)
        q = kb.Logits(torch.zeros(classes, dtype=dtype))
        kb.kl(kb.Probs(logits.softmax(-1)), q)
        # torch's float16 log_softmax of 131072 zeros is -inf: it sums in float16.
        wide = logits.float() if dtype == torch.float16 else logits
        kb.kl(kb.LogProbs(wide.log_softmax(-1).to(dtype)), q)


def test_a_lower_precision_in_disguise_is_told():
    probs = torch.full((3,), 1 / 3, dtype=torch.float32).double()
    with pytest.raises(kb.InputValueError, match="rounded to a lower precision than their dtype"):
        kb.kl(kb.Probs(probs), kb.Logits(torch.zeros(3)))


def test_the_row_is_found_in_a_large_batch():
    logits = torch.zeros(40, 50, 1000)
    logits[37, 11, 512] = NAN
    with pytest.raises(kb.InputValueError, match=r"q\[37, 11\] holds NaN(.|\n)*entry 512 is nan"):
        kb.kl(kb.Logits(torch.zeros(1000)), kb.Logits(logits))


def test_no_text_names_what_does_not_exist():
    if not hasattr(kb, "estimate_kl"):
        with pytest.raises(kb.InputTypeError) as caught:
            kb.kl(kb.Samples(X), GOOD)
        assert "estimate_kl" not in f"{caught.value} {kb.Samples.__doc__}"
