"""The battery finds every planted fault under the right name, and nothing else."""

from __future__ import annotations

import math
import time

import mpmath
import pytest
import torch
import torch.nn.functional as F
from torch import nn

from kullback import InputTypeError, InputValueError, testing
from kullback.testing import Divergence, check_divergence, oracle, torch_kl_div
from kullback.testing.divergence import TENSOR_BATTERY

from . import planted

ALL = {check.name for check in TENSOR_BATTERY.checks}
# What no wrong value can break: these look at shapes, refusals, side effects and agreement with the eager self.
STRUCTURE = {
    "class_counts",
    "compile",
    "deterministic",
    "empty_batch",
    "inputs_unchanged",
    "masked_rows",
    "zero_at_equality",
}
VALUES = ALL - STRUCTURE - {"fisher", "never_negative"}
EDGE_GRADIENTS = {"gradient_zero_in_p", "gradient_zero_in_both", "gradient_infinite_row"}
TRANSFORMED = {"func_grad", "jvp", "hessian"}

FAULTS = {
    "wrong_sign": (VALUES | {"fisher", "never_negative"}, {}),
    "swapped": (VALUES, {}),
    "in_bits": (VALUES | {"fisher"}, {}),
    "mean_of_classes": (VALUES | {"fisher"}, {}),
    "detached_p": ({"gradient_p"} | EDGE_GRADIENTS | TRANSFORMED, {}),
    "doubled_gradient": ({"gradient_q", "double_backward", "fisher"} | EDGE_GRADIENTS | TRANSFORMED, {}),
    "nan_at_a_mask": ({"zero_in_p", "zero_in_both", "gradient_zero_in_p", "gradient_zero_in_both"}, {}),
    "nan_gradient_at_a_mask": ({"gradient_zero_in_p", "gradient_zero_in_both"}, {}),
    "infinity_everywhere": ({"zero_in_q"}, {}),
    "wrong_broadcast": ({"broadcasting"}, {}),
    "broadcast_classes": ({"class_counts"}, {}),
    "cancellation_in_float32": ({"near_equality", "never_negative"}, {}),
    "float64_to_float32": ({"dtypes"}, {}),
    "half_overflows": ({"dtypes"}, {}),
    "no_maximum_subtracted": ({"extreme_inputs", "shift_invariance"}, {}),
    "writes_to_q": ({"inputs_unchanged"}, {}),
    "reads_a_value": ({"vmap", "compile"}, {}),
    "gradient_of_a_constant": ({"double_backward", "fisher", "hessian"}, {"gradients": ("q",)}),
    "mask_by_multiplying": ({"masked_rows"}, {"mask": "mask"}),
    "random_last_digits": ({"deterministic", "vmap", "hessian"}, {}),
    "needs_a_row": ({"empty_batch"}, {}),
    "needs_contiguous": ({"non_contiguous"}, {}),
    "sum_of_rows": ({"reduction", "broadcasting"}, {"returns": "batchmean"}),
}


def failed(report: testing.Report) -> set[str]:
    return {finding.check for finding in report.failures}


@pytest.mark.parametrize("name", FAULTS)
@pytest.mark.sample(3)
def test_a_planted_fault_is_found_under_its_name_and_no_other(name):
    expected, keywords = FAULTS[name]
    # Tracing is the slow part and says nothing about a wrong number.
    skip = () if "compile" in expected else "compile"
    report = check_divergence(getattr(planted, name), skip=skip, **keywords)
    assert failed(report) == expected, str(report)


def test_a_correct_divergence_passes_every_check():
    check_divergence(planted.kl, mask="mask")
    before = (torch.distributions.Distribution._validate_args, torch.get_rng_state(), torch.is_grad_enabled())
    start = time.perf_counter()
    report = check_divergence(planted.kl, mask="mask")
    assert time.perf_counter() - start < 5, "a warm battery"
    assert report.ok, str(report)
    assert not report.not_applicable
    assert not report.warnings
    assert torch.distributions.Distribution._validate_args == before[0]
    assert torch.equal(torch.get_rng_state(), before[1])
    assert torch.is_grad_enabled() == before[2]
    assert {finding.check for finding in report} == ALL
    report.raise_if_failed()


@pytest.mark.parametrize(
    ("fn", "returns"),
    [(planted.sum_of_rows, "sum"), (planted.mean_of_rows, "mean"), (planted.mean_of_rows, "batchmean")],
)
def test_a_correct_reduction_passes(fn, returns):
    skip = ["broadcasting", "reduction"] if returns == "batchmean" else []
    report = check_divergence(fn, returns=returns, skip=[*skip, "compile"])
    assert report.ok, str(report)


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("wrong_sign", "the sign is wrong"),
        ("swapped", "p and q swapped"),
        ("in_bits", "in bits"),
        ("mean_of_classes", "a mean over the classes"),
    ],
)
def test_the_usual_mistakes_are_named(name, hint):
    assert hint in check_divergence(getattr(planted, name), only="value")["value"].message


KL_DIV_FAULTS = {
    "zero_in_both",
    "class_counts",
    "empty_batch",
    "gradient_zero_in_p",
    "gradient_zero_in_both",
    "broadcasting",
    "vector_input",
}


def test_torch_kl_div_has_exactly_its_known_faults():
    report = check_divergence(lambda log_q, p: F.kl_div(log_q, p, reduction="batchmean"), **torch_kl_div())
    assert failed(report) == KL_DIV_FAULTS, str(report)
    module = check_divergence(nn.KLDivLoss(reduction="batchmean"), skip="compile", **torch_kl_div())
    assert failed(module) == KL_DIV_FAULTS
    assert any("batching rule" in text for text in report.warnings) or not report.warnings


def test_the_other_reductions_and_log_target_have_theirs():
    pointwise = check_divergence(nn.KLDivLoss(reduction="none"), skip="compile", **torch_kl_div(reduction="none"))
    assert failed(pointwise) == KL_DIV_FAULTS - {"empty_batch", "broadcasting", "vector_input"}, str(pointwise)
    log_target = nn.KLDivLoss(reduction="batchmean", log_target=True)
    report = check_divergence(log_target, skip="compile", **torch_kl_div(log_target=True))
    assert failed(report) == KL_DIV_FAULTS | {"zero_in_p"}, str(report)


def test_the_default_reduction_is_not_the_mean_of_the_divergences():
    report = check_divergence(nn.KLDivLoss(), **{**torch_kl_div(), "returns": "mean"}, only="value")
    assert "a mean over the classes" in report["value"].message
    assert any("batchmean" in text for text in report.warnings)


def test_the_naive_formula_over_logits_fails_where_it_cancels_and_where_it_is_masked():
    report = check_divergence(planted.naive, skip="compile")
    assert failed(report) == {
        "near_equality",
        "never_negative",
        "class_counts",
        "zero_in_p",
        "zero_in_both",
        "gradient_zero_in_p",
        "gradient_zero_in_both",
        "gradient_infinite_row",
    }, str(report)


@pytest.mark.parametrize("name", ["reverse_kl", "js", "jeffreys", "chi2", "total_variation", "hellinger"])
def test_other_divergences_have_exact_values_and_derivatives(name):
    def of_probs(p, q):
        m = (p + q) / 2
        return {
            "reverse_kl": lambda: (q * (q / p).log()).sum(-1),
            "js": lambda: ((p * (p / m).log()).sum(-1) + (q * (q / m).log()).sum(-1)) / 2,
            "jeffreys": lambda: ((p - q) * (p / q).log()).sum(-1),
            "chi2": lambda: ((p - q) ** 2 / q).sum(-1),
            "total_variation": lambda: (p - q).abs().sum(-1) / 2,
            "hellinger": lambda: ((p.sqrt() - q.sqrt()) ** 2).sum(-1).div(2).sqrt(),
        }[name]()

    only = ["value", "gradient_p", "gradient_q", "double_backward", "vmap", "jvp", "hessian"]
    report = check_divergence(of_probs, divergence=name, inputs="probs", only=only)
    assert report.ok, str(report)
    curvature = check_divergence(of_probs, divergence=name, inputs="probs", only="fisher")["fisher"]
    assert curvature.passed is (None if name in ("total_variation", "hellinger") else True), str(curvature)


def test_a_formula_of_ones_own_is_a_reference():
    def renyi(p, q):
        return mpmath.log(mpmath.fsum(a**2 / b for a, b in zip(p, q, strict=True)))

    def mine(p, q):
        return (p**2 / q).sum(-1).log()

    only = ["value", "gradient_p", "gradient_q", "fisher"]
    assert check_divergence(mine, divergence=renyi, inputs="probs", only=only).ok
    twice = Divergence("twice", lambda p, q: 2 * renyi(p, q))
    assert "half the value" in check_divergence(mine, divergence=twice, inputs="probs", only="value")["value"].message


def test_the_oracle_is_exact():
    p, q = (0.5, -1.0, 2.0), (0.25, 0.0, 1.0)
    kl = oracle.resolve("kl")
    weights = torch.tensor(p, dtype=torch.float64).softmax(0)
    other = torch.tensor(q, dtype=torch.float64).softmax(0)
    torch.testing.assert_close(
        float(oracle.value(kl, p, q, ("logits", "logits"))), (weights * (weights / other).log()).sum().item()
    )
    torch.testing.assert_close(
        torch.tensor(oracle.gradient(kl, p, q, 1)).double(), other - weights, rtol=1e-6, atol=1e-7
    )
    v = torch.tensor([1.0, -0.5, 0.25], dtype=torch.float64)
    fisher = weights * (v - (weights * v).sum())
    exact = torch.tensor(oracle.hessian_vector(kl, p, p, 1, tuple(v.tolist())), dtype=torch.float64)
    torch.testing.assert_close(exact, fisher, rtol=1e-14, atol=1e-16)
    assert float(oracle.value(kl, (0.0, -math.inf), (0.0, 0.0), ("logits", "logits"))) == math.log(2)
    assert oracle.value(kl, (0.0, 0.0), (0.0, -math.inf), ("logits", "logits")) == mpmath.inf


def test_an_exception_is_a_finding():
    def broken(p, q):
        raise KeyError("no such class")

    report = check_divergence(broken, mask="mask")
    assert failed(report) == ALL - {"class_counts", "vector_input"}
    assert "raised KeyError: 'no such class'" in report["value"].message


def test_what_is_not_a_tensor_is_a_finding():
    report = check_divergence(lambda p, q: 0.0, only="value")
    assert "returned float, not a Tensor" in report["value"].message


def test_a_check_that_cannot_be_run_says_so():
    report = check_divergence(planted.kl, only="masked_rows")
    assert report["masked_rows"].passed is None
    assert "not applicable" in str(report)


def test_a_loss_may_promise_one_gradient_only():
    report = check_divergence(planted.detached_p, gradients=("q",), skip="compile")
    assert report.ok, str(report)
    assert report["gradient_p"].passed is None


def test_tolerances_can_be_set():
    report = check_divergence(planted.naive, only="near_equality", rtol={torch.float64: 1e99, torch.float32: 1e99})
    assert report.ok


def test_a_mask_that_drops_is_understood():
    report = check_divergence(
        lambda p, q, drop: planted.kl(p, q, ~drop), mask="drop", mask_keeps=False, only="masked_rows"
    )
    assert report.ok, str(report)


@pytest.mark.parametrize(
    ("keywords", "word"),
    [
        ({"inputs": "logit"}, "log_probs"),
        ({"order": "qq"}, "qp"),
        ({"returns": "none"}, "pointwise"),
        ({"gradients": ("r",)}, "p, q"),
        ({"divergence": "kl2"}, "reverse_kl"),
        ({"only": "valu"}, "near_equality"),
        ({"skip": ["valu"]}, "near_equality"),
    ],
)
def test_a_wrong_keyword_is_told_what_is_known(keywords, word):
    with pytest.raises(InputValueError, match=word):
        check_divergence(planted.kl, **keywords)


def test_only_functions_are_tested():
    with pytest.raises(InputTypeError, match="function"):
        check_divergence(torch.zeros(3))
