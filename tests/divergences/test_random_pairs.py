"""Divergences of random pairs of families, which nobody tuned to, against mpmath; all of them among the slow tests."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.pairs.test_divergences_of_families import DIVERGENCES, build, within

ROWS = json.loads(
    (Path(__file__).parents[1] / "golden" / "distribution_divergences_random.json").read_text(encoding="utf-8")
)
# What is promised of integrals.
PROMISED = 1e-8


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row['p'][0]}-{row['q'][0]}")
@pytest.mark.sample(8)
def test_random_pairs(row) -> None:
    p, q = build(row["p"]), build(row["q"])
    for name, truth in row["truth"].items():
        if name in DIVERGENCES:
            got, want = DIVERGENCES[name](p, q).item(), float(truth)
            assert within(got, want, PROMISED, name), (row["p"], row["q"], name, got, want)
