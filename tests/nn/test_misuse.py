"""Misuse is told: each mistake by its own message, at the user's line, once, and as Python's filters say."""

import subprocess
import sys
import warnings

import pytest
import torch

from kullback import KullbackWarning
from kullback.nn import KLDivLoss, call_site, looks
from kullback.nn.functional import kl_div

torch.manual_seed(0)
LOGITS = 2 * torch.randn(4, 7)
LOG_Q = torch.log_softmax(LOGITS, -1)
LOG_P = torch.log_softmax(torch.randn(4, 7), -1)
P = LOG_P.exp()


def told(*args, **options):
    """The texts of all warnings of one call."""
    options = {"reduction": "batchmean", **options}
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        kl_div(*args, **options)
    assert all(w.category is KullbackWarning and w.filename == __file__ for w in caught)
    return [str(w.message) for w in caught]


# (input, target, options, what the message says, what it tells to write)
MISTAKES = {
    "probabilities as input": (LOG_Q.exp(), P, {}, "`input` holds probabilities", "log_softmax"),
    "logits as input": (LOGITS, P, {}, "`input` has positive values", "Logits(logits)"),
    "negative logits as input": (LOGITS - 20, P, {}, "`input` does not normalise", "log_softmax"),
    "input softmax over the batch": (LOGITS.log_softmax(0), P, {}, "`input` is normalised along dim 0", "dim=-1"),
    "target softmax over the batch": (LOG_Q, LOGITS.softmax(0), {}, "`target` is normalised along dim 0", "dim=-1"),
    "log-probabilities as target": (LOG_Q, LOG_P, {}, "`target` holds log-probabilities", "log_target=True"),
    "logits as target": (LOG_Q, LOGITS, {}, "`target` has negative values", "log_target=True"),
    "unnormalised target": (LOG_Q, 2 * P, {}, "`target` does not normalise", "target.sum(-1, keepdim=True)"),
    "a negative entry that sums to 1": (
        torch.tensor([[0.25, 0.75]]).log(),
        torch.tensor([[1.5, -0.5]]),
        {},
        "negative values",
        "log_softmax",
    ),
    "counts": (LOG_Q, torch.full((4, 7), 3.0), {}, "whole numbers", "counts.sum"),
    "probabilities with log_target": (LOG_Q, P, {"log_target": True}, "holds probabilities but log_target", "without"),
    "logits with log_target": (
        LOG_Q,
        LOGITS,
        {"log_target": True},
        "does not normalise with log_target",
        "log_softmax",
    ),
    "swapped": (P, LOG_Q, {}, "look swapped", "kl_div(log_q, p)"),
    "mean": (LOG_Q, P, {"reduction": "mean"}, "divides by 4·7 = 28", 'reduction="batchmean"'),
    "mean over a row": (LOG_Q[0], P[0], {"reduction": "mean"}, "the KL is 7 times the result", 'reduction="sum"'),
    "mean, 3-D": (LOG_Q.view(2, 2, 7), P.view(2, 2, 7), {"reduction": "mean"}, "2·2·7 = 28", ".mean()"),
    "batchmean, 1-D": (LOG_Q[0], P[0], {}, "1-D input are the 7 classes", 'reduction="sum"'),
    "batchmean, 3-D": (
        LOG_Q.view(2, 2, 7),
        P.view(2, 2, 7),
        {},
        "by input.size(0) = 2, not by the number of rows, 4",
        "kl(",
    ),
    "broadcast": (LOG_Q, P[0], {}, "input (4, 7), target (7,), broadcast to (4, 7)", "expand_as"),
    "class-index shape": (
        LOG_Q[:, :4].log_softmax(-1),
        P[0, :4] / P[0, :4].sum(),
        {},
        "shape of class indices",
        "cross_entropy",
    ),
}


@pytest.mark.parametrize(("log_q", "target", "options", "says", "write"), MISTAKES.values(), ids=MISTAKES)
def test_each_mistake_has_one_message(log_q, target, options, says, write):
    texts = told(log_q, target, **options)
    assert len(texts) == 1
    assert says in texts[0]
    assert write in texts[0].split("write:")[1]
    assert "KL(target ‖ input)" in texts[0]


def test_broadcasting_the_input_names_the_divisor():
    texts = told(LOG_Q[0], P)
    assert any("batchmean divides by input.size(0) = 7" in text for text in texts)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.float16, torch.bfloat16])
@pytest.mark.parametrize("classes", [2, 1000, 128_000])
def test_right_calls_are_silent_in_every_dtype(dtype, classes):
    for scale in (0.0, 1.0, 10.0):
        log_q = torch.log_softmax(scale * torch.randn(3, classes), -1).to(dtype)
        log_p = torch.log_softmax(scale * torch.randn(3, classes), -1)
        assert told(log_q, log_p.exp().to(dtype)) == []
        assert told(log_q, log_p.to(dtype), log_target=True) == []
        assert told(log_q, log_p.exp().to(dtype), reduction="sum") == []
        assert told(log_q, log_p.exp().to(dtype), reduction="none") == []


def test_other_right_calls_are_silent():
    maps = torch.randn(2, 5, 3, 4)
    assert told(maps.log_softmax(1), maps.softmax(1), reduction="sum") == []
    padded = P.clone()
    padded[2] = 0
    assert told(LOG_Q, padded) == []
    assert told(LOG_Q[:, None], P[:, None]) == []
    assert told(torch.zeros(3, 1), torch.ones(3, 1), reduction="mean") == []
    assert told(LOG_Q[0, 0], P[0, 0]) == []
    assert told(LOG_Q[:0], P[:0], reduction="mean") == []
    assert told(LOG_Q * float("nan"), P) == []
    masked = torch.tensor([[0.0, -float("inf")]])
    assert told(masked, masked.exp()) == []


@pytest.mark.parametrize(
    ("shape", "dim"), [((100_000, 3), -1), ((3, 5, 200_000), -1), ((40, 50, 60, 70), -1), ((5, 200_000), 0), ((9,), 0)]
)
def test_a_look_at_a_large_tensor_is_short(shape, dim):
    tensor = torch.zeros(1).expand(shape)
    rows = looks._some_rows(tensor, dim)
    assert rows.size(-1) == shape[dim]
    assert rows.numel() <= max(2 * looks._ELEMENTS, 4 * shape[dim])
    assert rows.data_ptr() == tensor.data_ptr()


def loop(reduction, times=3):
    for i in range(times):
        kl_div(LOG_Q[: 2 + i], P[: 2 + i] * (2 + i), reduction=reduction)


def test_once_per_line_and_kind_whatever_the_numbers():
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("default")
        loop("batchmean")
        loop("mean")
    texts = [str(w.message) for w in caught]
    assert len(texts) == 2
    assert "rows that sum to 2\n" in texts[0]
    assert "divides by 2·7 = 14" in texts[1]
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("default")
        kl_div(LOG_Q, 2 * P, reduction="sum")
        kl_div(LOG_Q, 2 * P, reduction="sum")
    assert [w.lineno for w in caught] == [caught[0].lineno, caught[0].lineno + 1]


def test_the_line_is_the_users_through_the_module_and_containers():
    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.loss = KLDivLoss(reduction="batchmean")

        def forward(self, log_q, p):
            return self.loss(log_q, p)

    for call in (KLDivLoss(reduction="batchmean"), Model()):
        with pytest.warns(KullbackWarning, match="does not normalise") as caught:
            call(LOG_Q, 2 * P)
        assert [w.filename for w in caught] == [__file__]


def test_filters_silence_and_raise():
    with warnings.catch_warnings():
        warnings.simplefilter("error", KullbackWarning)
        with pytest.raises(KullbackWarning, match="does not normalise"):
            kl_div(LOG_Q, 2 * P, reduction="sum")
        warnings.filterwarnings("ignore", message="`target` does not")
        kl_div(LOG_Q, 2 * P, reduction="sum")
        with pytest.raises(KullbackWarning, match="divides by the number of elements"):
            kl_div(LOG_Q, P, reduction="mean")
        warnings.simplefilter("ignore", KullbackWarning)
        kl_div(LOGITS, 2 * P)


def test_an_ignored_category_is_not_looked_for(monkeypatch):
    def fail(*args, **options):
        raise AssertionError("looked")

    monkeypatch.setattr("kullback.nn.misuse.look_at", fail)
    for category in (KullbackWarning, UserWarning, Warning):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", category)
            warnings.simplefilter("error", DeprecationWarning)
            kl_div(LOGITS, 2 * P)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        warnings.filterwarnings("error", message="only this text", category=KullbackWarning)
        assert not call_site.is_ignored()
        with pytest.raises(AssertionError, match="looked"):
            kl_div(LOGITS, 2 * P)


def test_off_the_cpu_only_shapes_are_looked_at():
    for dtype in (torch.float32, torch.float16):
        log_q, p = torch.empty(4, 7, device="meta", dtype=dtype), torch.empty(7, device="meta", dtype=dtype)
        assert len(told(log_q, p)) == 1
        assert told(log_q, log_q) == []


def test_silent_while_compiling_and_in_transforms():
    with warnings.catch_warnings():
        warnings.simplefilter("error", KullbackWarning)
        torch.vmap(kl_div)(LOGITS, P)
        torch.func.grad(kl_div)(LOGITS, 2 * P)
        torch._dynamo.reset()
        torch.compile(kl_div, backend="eager", fullgraph=True)(LOGITS, 2 * P)


def test_shown_once_in_a_fresh_interpreter_with_default_filters():
    code = (
        "import torch\nfrom kullback.nn import KLDivLoss\nloss = KLDivLoss(reduction='sum')\n"
        "for i in range(4):\n    loss(torch.full((2, 2), -1.0 - i), torch.full((2, 2), 0.5))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stderr.count("KullbackWarning") == 1
    assert done.stderr.startswith("<string>:5: KullbackWarning: `input` does not normalise")
