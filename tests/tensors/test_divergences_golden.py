"""Values and gradients of the divergences other than KL against mpmath at the stored floats, in every mix of views.

The issue asks for 1e-13 in float64 and 1e-6 in float32. The inputs of the table reach down to divergences of 1e-27 and
1e-14; gradients are judged against the largest entry of their row.
"""

import json
from pathlib import Path

import mpmath as mp
import pytest
import torch

import kullback as kb

TABLE = json.loads((Path(__file__).parents[1] / "golden" / "tensor_divergences.json").read_text(encoding="utf-8"))
TOLERANCE = {"float64": 3e-14, "float32": 1.2e-7}
GRADIENT_TOLERANCE = {"float64": 5e-14, "float32": 1.2e-7}
# Below this the table's 90 digits say nothing about a gradient.
NO_GRADIENT = mp.mpf(10) ** -50


def views(record):
    dtype = getattr(torch, record["dtype"])
    for kind, numbers in (record["p"], record["q"]):
        tensor = torch.tensor([float.fromhex(v) for v in numbers], dtype=dtype, requires_grad=True)
        yield tensor, getattr(kb, kind)(tensor)


def names(record):
    return f"{record['case']}, {record['p'][0]} {record['q'][0]}"


@pytest.mark.parametrize("record", TABLE, ids=names)
@pytest.mark.sample(3)
def test_values_and_gradients(record):
    (x, p), (y, q) = views(record)
    for entry in record["values"]:
        parameter = [float.fromhex(entry["parameter"])] if "parameter" in entry else []
        what = f"{entry['of']} {parameter}"
        value = getattr(kb, entry["of"])(p, q, *parameter)
        want = mp.mpf(entry["value"])
        if want in (0, mp.inf):
            assert value.item() == want, what
        else:
            error = abs(mp.mpf(value.item()) / want - 1)
            assert error <= TOLERANCE[record["dtype"]], f"{what}: {value.item()} is not {want}, off by {float(error)}"
        gradients = torch.autograd.grad(value, (x, y))
        assert all(g.isfinite().all() for g in gradients), what
        for got, exact in zip(gradients, entry.get("gradient", ()), strict="gradient" in entry):
            known = [(mp.mpf(g), mp.mpf(w)) for g, w in zip(got.tolist(), exact, strict=True) if w is not None]
            # Relative to the largest entry of the row, whose truth the table may leave out.
            others = [abs(mp.mpf(g)) for g, w in zip(got.tolist(), exact, strict=True) if w is None]
            scale = max([abs(w) for _, w in known] + others)
            limit = GRADIENT_TOLERANCE[record["dtype"]] * scale + NO_GRADIENT
            assert all(abs(g - w) <= limit for g, w in known), f"{what}: gradient {got.tolist()} is not {exact}"


def test_the_table_is_what_it_says():
    smallest = dict.fromkeys(TOLERANCE, mp.inf)
    for record in TABLE:
        for entry in record["values"]:
            if entry["of"] == "js" and mp.mpf(entry["value"]) > 0:
                smallest[record["dtype"]] = min(smallest[record["dtype"]], mp.mpf(entry["value"]))
    assert smallest["float64"] < 1e-27
    assert smallest["float32"] < 1e-13
    pairs = {(record["p"][0], record["q"][0]) for record in TABLE}
    assert len(pairs) >= 10
