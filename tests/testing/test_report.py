"""A report reads as a list of what is wrong."""

from __future__ import annotations

import re

import pytest
import torch

from kullback import testing
from kullback.testing import Finding, Report, check_divergence


def test_the_public_names_are_sorted_and_complete():
    assert testing.__all__ == sorted(testing.__all__)
    assert {"Divergence", "Finding", "Report", "check_divergence", "check_pair", "torch_kl_div"} < set(testing.__all__)


def test_failures_of_one_cause_share_a_line_and_a_scalar_is_told_about_returns():
    def scalar(p, q):
        return torch.nn.functional.kl_div(q.log_softmax(-1), p.softmax(-1), reduction="batchmean")

    lines = str(check_divergence(scalar, only=["value", "never_negative", "zero_in_q"])).splitlines()
    assert "returns='mean'" in lines[1]
    assert lines[2].strip() == "and 2 more alike: never_negative, zero_in_q"
    assert check_divergence(scalar, returns="batchmean", only=["value"]).ok


def test_numbers_have_enough_digits_to_differ():
    def nearly(p, q):
        return (p.softmax(-1) * (p.log_softmax(-1) - q.log_softmax(-1))).sum(-1) * (1 + 1e-9)

    expected, got = re.search(r"expected (\S+), got (\S+)", str(check_divergence(nearly, only="value"))).groups()
    assert expected != got


def test_a_report_of_a_naive_loss_reads_well():
    def my_kl(p, q):
        return (p.softmax(-1) * (p.log_softmax(-1) - q.log_softmax(-1))).sum(-1)

    report = check_divergence(
        my_kl, only=["value", "zero_in_both", "class_counts", "gradient_zero_in_p", "masked_rows"]
    )
    assert str(report).splitlines() == [
        "my_kl: 1 passed, 3 failed, 1 not applicable",
        (
            "  ✗ zero_in_both: expected 0.285777, got nan (1 more like it) — "
            "p = Logits([-inf, -1.0, -1.0], float64), q = Logits([-inf, -2.0, -0.4150374992788438], float64)"
        ),
        (
            "  ✗ class_counts: expected an error for 4 classes against 1, "
            "got [-0.914081, -0.967507, -1.11129] (1 more like it) — "
            "p = Logits([0.5, -1.0, 2.0, 0.25], float64), q = Logits([0.0], float64)"
        ),
        (
            "  ✗ gradient_zero_in_p: gradient to p: expected [0, 0.25, -0.25], got [nan, nan, nan] (1 more like it) — "
            "p = Logits([-inf, -1.0, -1.0], float64), q = Logits([-2.0, -2.0, -1.0], float64)"
        ),
        "  · masked_rows: not applicable, mask= does not name a mask argument",
    ]
    with pytest.raises(AssertionError, match=r"zero_in_both: expected 0\.285777, got nan"):
        report.raise_if_failed()


def test_a_reproducer_reproduces():
    def my_kl(p, q):
        return (p.softmax(-1) * (p.log_softmax(-1) - q.log_softmax(-1))).sum(-1)

    finding = check_divergence(my_kl, only="near_equality")["near_equality"]
    p, q = eval(  # the text itself is under test
        finding.reproducer.removeprefix("p = ").replace("q = ", ""),
        {"Logits": lambda x, dtype: torch.tensor(x, dtype=dtype), "float32": torch.float32, "float64": torch.float64},
    )
    assert my_kl(p, q).item() == finding.got


def test_the_parts_of_a_report():
    passed, broken, skipped = (
        Finding("a", True, promise="A holds."),
        Finding("b", False, "expected 0, got 1", "p = 1", 1, 0),
        Finding("c", None, "nothing to see"),
    )
    report = Report("f", (passed, broken, skipped), ("UserWarning: careful",))
    assert not report.ok
    assert report.failures == (broken,)
    assert report.not_applicable == (skipped,)
    assert list(report) == [passed, broken, skipped]
    assert len(report) == 3
    assert report["b"] is broken
    with pytest.raises(KeyError):
        report["d"]
    assert repr(report) == "<Report f: 1 passed, 1 failed, 1 not applicable>"
    assert str(report).endswith("  ! warned: UserWarning: careful")
    assert "A holds." in report.full()
    Report("f", (passed, skipped)).raise_if_failed()


def test_warnings_are_recorded_and_not_raised():
    def warns(p, q):
        torch.nn.functional.kl_div(q.log_softmax(-1), p.softmax(-1))
        return p.sum(-1)

    report = check_divergence(warns, only="value")
    assert len(report.warnings) == 1
    assert "reduction: 'mean' divides the total loss by both" in report.warnings[0]
