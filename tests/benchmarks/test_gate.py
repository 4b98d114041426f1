"""The correctness gate of the benchmarks."""

import math

import pytest
import torch

from benchmarks.gate import judge, relative_error


def test_relative_error_is_the_largest_over_entries():
    value, truth = torch.tensor([1.0, 2.5, -4.0]), torch.tensor([1.0, 2.0, -4.0])
    assert relative_error(value, truth) == 0.25


def test_floor_judges_small_entries_by_absolute_error():
    value, truth = torch.tensor([1e-9, 1.0]), torch.tensor([0.0, 1.0])
    assert relative_error(value, truth) == math.inf
    assert relative_error(value, truth, floor=1e-3) == pytest.approx(1e-6, rel=1e-6)


@pytest.mark.parametrize(
    ("value", "truth", "error"),
    [
        (math.nan, 1.0, math.inf),
        (1.0, math.nan, math.inf),
        (math.nan, math.nan, 0.0),
        (math.inf, math.inf, 0.0),
        (-math.inf, math.inf, math.inf),
        (1e300, math.inf, math.inf),
        (math.inf, 1.0, math.inf),
        (0.0, 0.0, 0.0),
        (1e-300, 0.0, math.inf),
    ],
)
def test_nan_infinity_and_zero_must_be_met_exactly(value, truth, error):
    pair = torch.tensor([1.0, value], dtype=torch.float64), torch.tensor([1.0, truth], dtype=torch.float64)
    assert relative_error(*pair) == error


def test_empty_results_agree():
    assert judge(torch.empty(0), torch.empty(0), rtol=0.0).right


def test_shape_and_number_of_tensors_must_agree():
    wrong_shape = judge(torch.ones(3, 1), torch.ones(3), rtol=1.0)
    assert not wrong_shape.right
    assert wrong_shape.note == "wrong result: shape (3, 1) instead of (3,)"
    assert not judge((torch.ones(3),), (torch.ones(3), torch.ones(3)), rtol=1.0).right


def test_every_tensor_of_a_tuple_is_judged():
    truth = torch.ones(2), torch.ones(2)
    assert judge((torch.ones(2), torch.ones(2) * 1.25), truth, rtol=0.25).right
    verdict = judge((torch.ones(2), torch.ones(2) * 1.25), truth, rtol=0.1)
    assert verdict == (False, 0.25, "wrong result: relative error 2.5e-01 (allowed 1e-01)")
