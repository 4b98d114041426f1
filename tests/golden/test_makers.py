"""The makers of the golden tables reproduce the stored values: a row here and there, the others with `-m slow`."""

from __future__ import annotations

import json

import mpmath as mp
import pytest

from tests.golden import make_divergences, make_pairs

FOLDER = make_pairs.FOLDER
PAIR_TABLES = sorted(path.relative_to(FOLDER).with_suffix("").as_posix() for path in FOLDER.glob("pairs/*.json"))
TABLES = [*PAIR_TABLES, *(path.stem for path in sorted(FOLDER.glob("univariate_*.json")))]
DIVERGENCES = ["counts", *(path.stem for path in sorted(FOLDER.glob("distribution_divergences*.json")))]


def rows(table: str) -> list[dict]:
    return json.loads((FOLDER / f"{table}.json").read_text(encoding="utf-8"))


@pytest.mark.parametrize("table", TABLES)
@pytest.mark.sample(40)
def test_kl(table: str) -> None:
    row = rows(table)[0]
    given = make_pairs.inputs(table, row)
    assert make_pairs.agrees(make_pairs.kl(*given), row["kl"])


@pytest.mark.slow
@pytest.mark.parametrize("table", ["pairs/Poisson_Poisson", "pairs/Laplace_Normal", "pairs/Dirichlet_Dirichlet"])
def test_gradient(table: str) -> None:
    row = rows(table)[0]
    found = make_pairs.gradient(*make_pairs.inputs(table, row))
    for name, stored in row["gradient"].items():
        both = (found[name], stored) if isinstance(stored, str) else (found[name][0], stored[0])
        assert abs(mp.mpf(both[0]) - mp.mpf(both[1])) <= 1e-12 * abs(mp.mpf(both[1]))


@pytest.mark.slow
@pytest.mark.parametrize("table", DIVERGENCES)
def test_divergences(table: str) -> None:
    row = rows(table)[0]
    with mp.workdps(make_divergences.DIGITS):
        found = make_divergences.complete(row)
    for name, stored in row.get("truth", {}).items():
        assert make_pairs.agrees(mp.mpf(found["truth"][name]), stored), name
    for name, slopes in row.get("gradient", {}).items():
        for parameter, stored in slopes.items():
            got, want = mp.mpf(found["gradient"][name][parameter]), mp.mpf(stored)
            assert abs(got - want) <= 1e-10 * abs(want) + 1e-30  # some derivatives are exactly 0
