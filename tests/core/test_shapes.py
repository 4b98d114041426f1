"""Blocks cover every row once, whatever the batch; shapes are joined as torch joins them."""

import itertools

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


SHAPES = [(), (1,), (3,), (0,), (1, 1), (2, 1), (1, 3), (2, 3), (4, 1, 3), (5, 0), (4,)]


def shape_or_error(join, some):
    try:
        return join(*some)
    except RuntimeError:
        return RuntimeError


@pytest.mark.parametrize("count", [1, 2, 3])
def test_joint_shapes_are_those_of_torch(count):
    for some in itertools.product(map(torch.Size, SHAPES), repeat=count):
        found = shape_or_error(shapes.joint_shape, some)
        assert found == shape_or_error(torch.broadcast_shapes, some)
        assert found is RuntimeError or isinstance(found, torch.Size)


def test_joint_shapes_compile_with_symbolic_sizes():
    def widened(a, b):
        return a.expand(shapes.joint_shape(a.shape, b.shape)) + 1

    compiled = torch.compile(widened, fullgraph=True, dynamic=True, backend="aot_eager")
    for rows, columns in [(2, 3), (4, 5)]:
        assert compiled(torch.zeros(columns), torch.zeros(rows, columns)).shape == (rows, columns)
