"""One place for mask, weight, reduction and unit."""

import math

import pytest
import torch

import kullback as kb
from kullback._core.reduction import check_base, check_mask, check_reduction, check_weight, reduce_rows

ROWS = torch.tensor([1.0, 2.0, 6.0])
MASK = torch.tensor([True, False, True])


@pytest.mark.parametrize(
    ("options", "want"),
    [
        ({}, [1.0, 2.0, 6.0]),
        ({"reduction": "sum"}, 9.0),
        ({"reduction": "mean"}, 3.0),
        ({"mask": MASK}, [1.0, 0.0, 6.0]),
        ({"mask": MASK, "reduction": "mean"}, 3.5),
        ({"mask": MASK, "reduction": "mean", "weight": torch.tensor([3.0, 100.0, 1.0])}, 2.25),
        ({"weight": torch.tensor([0.0, 0.0, 0.0]), "reduction": "mean"}, 0.0),
        ({"mask": torch.zeros(3, dtype=torch.bool), "reduction": "mean"}, 0.0),
        ({"mask": torch.tensor(True), "reduction": "mean"}, 3.0),
        ({"base": 2.0, "reduction": "sum"}, 9.0 / math.log(2)),
        ({"weight": 2, "reduction": "mean"}, 3.0),
    ],
)
def test_reductions(options, want):
    assert reduce_rows(ROWS, **options).tolist() == pytest.approx(want)


@pytest.mark.parametrize("rubbish", [float("nan"), float("inf"), -float("inf")])
def test_a_masked_row_is_exactly_zero_with_zero_gradient(rubbish):
    rows = torch.tensor([1.0, rubbish, 6.0], requires_grad=True)
    reduced = reduce_rows(rows, mask=MASK, weight=torch.tensor([1.0, 1.0, 2.0]), reduction="sum")
    assert reduced.item() == 13.0
    assert torch.autograd.grad(reduced, rows)[0].tolist() == [1.0, 0.0, 2.0]


def test_weights_are_differentiable():
    weight = torch.tensor([1.0, 0.0, 3.0], requires_grad=True)
    reduce_rows(ROWS, weight=weight, reduction="mean").backward()
    assert weight.grad.tolist() == pytest.approx([(1 - 4.75) / 4, (2 - 4.75) / 4, (6 - 4.75) / 4])


def test_a_row_of_zero_dimensions():
    assert reduce_rows(torch.tensor(3.0), mask=torch.tensor(False), reduction="mean").item() == 0.0
    assert reduce_rows(torch.tensor(3.0), mask=torch.tensor(True)).item() == 3.0


def test_integer_weights_are_read_as_numbers():
    assert reduce_rows(ROWS, weight=torch.tensor([1, 0, 1]), reduction="mean").item() == 3.5


@pytest.mark.parametrize(
    "call",
    [
        lambda: check_reduction("batchmean"),
        lambda: check_base(-2),
        lambda: check_base(float("inf")),
        lambda: check_mask(torch.ones(3, dtype=torch.bool), torch.Size([2])),
        lambda: check_weight(torch.ones(2, 2), torch.Size([2])),
    ],
)
def test_refusals(call):
    with pytest.raises(kb.InputValueError):
        call()
