"""Blocks cover every row once, whatever the batch."""

import pytest
import torch

from kullback._core import shapes
from kullback._core.dtypes import needs_compensation, result_dtype, work_dtype


@pytest.mark.parametrize("limit", [1, 7, 30, 64, 1000])
@pytest.mark.parametrize("batch", [(), (1,), (5,), (2, 3), (3, 1, 4), (0,), (2, 0, 3)])
def test_blocks_cover_every_row_once(monkeypatch, batch, limit):
    monkeypatch.setitem(shapes._BLOCK, "cpu", limit)
    seen = torch.zeros(batch)
    for index in shapes.blocks(torch.Size(batch), 5, torch.device("cpu")):
        seen[index] += 1
        rows = seen[index].numel()
        assert rows == 1 or rows * 5 <= limit
    assert (seen == 1).all()


def test_a_block_of_a_broadcast_tensor_is_its_shared_part():
    tensor = torch.arange(6.0).reshape(1, 2, 1, 3)
    assert torch.equal(shapes.block_of(tensor, (4, 1, slice(2, 5))), tensor[0, 1])
    assert torch.equal(shapes.block_of(tensor, ()), tensor)


def test_dtypes():
    half, single, double = (torch.zeros(1, dtype=d) for d in (torch.float16, torch.float32, torch.float64))
    assert result_dtype(half, half) == torch.float32
    assert result_dtype(half, double) == torch.float64
    assert work_dtype(torch.device("cpu")) == torch.float64
    assert work_dtype(torch.device("mps")) == torch.float32
    assert needs_compensation(torch.float64, single, double)
    assert not needs_compensation(torch.float64, half, single)
    assert needs_compensation(torch.float32, single)
