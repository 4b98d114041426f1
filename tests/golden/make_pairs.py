"""Fills in the tables of KL(p ‖ q): a row holds the parameters, this script adds the divergence and its gradient.

    uv run --group test python -m tests.golden.make_pairs [pairs/Beta_Weibull univariate_typical …] [--again]

A table is a list of rows {"p": {…}, "q": {…}} in `pairs/<P>_<Q>.json`, or of {"p": name, "p_parameters": {…}, …} in
`univariate_*.json`. Rows without "kl" are filled in; `--again` also computes the others and says which differ. The
divergence is the integral or the sum of the densities in `densities.py` and `counts.py`, or a formula of `vectors.py`,
independent of the library. Inputs are the stored floats themselves (their decimal `repr` reads back exactly); a row
whose inputs are exact in float32 is tested in both precisions. `univariate_typical` first gets a row for every ordered
pair of families in `parameters.json`.

Sums of more than 40,000 terms are refused; rows that need them keep the values they have, which are those of the
closed forms with 200 digits.
"""

from __future__ import annotations

import json
import struct
import sys
from pathlib import Path
from typing import Any

import mpmath as mp

from tests.golden import counts, densities, vectors

FOLDER = Path(__file__).parent
Parameters = dict[str, Any]
_DIGITS, _RELATIVE_STEP = 20, mp.mpf("1e-6")


def kl(p: str, params_p: Parameters, q: str, params_q: Parameters) -> Any:
    """The divergence to about 20 digits; parameters are floats, mpf or (nested) lists of them."""
    exact_p, exact_q = _map(mp.mpf, params_p), _map(mp.mpf, params_q)
    if (p, q) in vectors.KL:
        with mp.workdps(200):
            return vectors.KL[p, q](exact_p, exact_q)
    if p in counts.FAMILIES:
        return counts.kl(p, exact_p, q, exact_q)
    density_p, density_q = densities.make(p, exact_p), densities.make(q, exact_q)
    outside = density_p.lower < density_q.lower or density_p.upper > density_q.upper
    if outside or densities.diverges(p, params_p, q, params_q):
        return mp.inf
    return densities.kl(density_p, density_q)


def gradient(p: str, params_p: Parameters, q: str, params_q: Parameters) -> dict[str, Any]:
    """Central differences of fourth order to every float parameter."""
    given, found = {"p": params_p, "q": params_q}, {}

    def slope(side: str, name: str, path: tuple[int, ...], value: float) -> str:
        step = _RELATIVE_STEP * (abs(value) or 1)

        def at(shift: int) -> Any:
            moved = {**given, side: {**given[side], name: _put(given[side][name], path, mp.mpf(value) + shift * step)}}
            return kl(p, moved["p"], q, moved["q"])

        return mp.nstr((8 * (at(1) - at(-1)) - (at(2) - at(-2))) / (12 * step), 15)

    def along(side: str, name: str, path: tuple[int, ...], value: Any) -> Any:
        if isinstance(value, list):
            return [along(side, name, (*path, i), v) for i, v in enumerate(value)]
        return slope(side, name, path, value)

    for side, params in given.items():
        for name, value in params.items():
            if not isinstance(value, int):
                found[f"{side}.{name}"] = along(side, name, (), value)
    return found


def fill(table: str, *, again: bool = False) -> None:
    """Complete one table; a value that is there already is compared, never replaced."""
    path = FOLDER / f"{table}.json"
    rows = json.loads(path.read_text(encoding="utf-8"))
    if table == "univariate_typical":
        rows += _missing_pairs(rows)
    for row in rows:
        if "kl" in row and not again:
            continue
        given = inputs(table, row)
        try:
            value = kl(*given)
        except ArithmeticError as problem:
            print("left as it is:", *given, problem, file=sys.stderr)
            continue
        if "kl" not in row:
            row["kl"] = mp.nstr(value, _DIGITS)
            if table.startswith("pairs/"):
                row["float32"] = all(_map(_float32, row[side]) == row[side] for side in "pq")
            if mp.isfinite(value) and not table.startswith("univariate_typical"):
                row["gradient"] = gradient(*given)
        elif not agrees(value, row["kl"]):
            print("differs:", *given, "stored", row["kl"], "computed", mp.nstr(value, _DIGITS), file=sys.stderr)
    finite = [row for row in rows if table.startswith("pairs/") or row.get("kl") not in ("+inf", "inf")]
    text = ",\n".join(json.dumps(row) for row in finite)
    path.write_text(f"[\n{text}\n]\n", encoding="utf-8")


def inputs(table: str, row: dict[str, Any]) -> tuple[str, Parameters, str, Parameters]:
    """Names and parameters of p and q, from either form of a row."""
    if "p_parameters" in row:
        return row["p"], row["p_parameters"], row["q"], row["q_parameters"]
    p, q = table.removeprefix("pairs/").split("_")[:2]
    return p, row["p"], q, row["q"]


def agrees(value: Any, stored: str, relative: float = 1e-13) -> bool:
    want = mp.mpf(stored)
    return bool(value == want or abs(value - want) <= relative * abs(want))


def _missing_pairs(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    typical = json.loads((FOLDER / "parameters.json").read_text(encoding="utf-8"))["typical"]
    known = {(row["p"], row["q"]) for row in rows}
    new = [(p, q) for p in typical for q in typical if p != q and (p, q) not in known]
    return [{"p": p, "p_parameters": typical[p], "q": q, "q_parameters": typical[q]} for p, q in new]


def _map(function: Any, value: Any) -> Any:
    if isinstance(value, dict):
        return {k: _map(function, v) for k, v in value.items()}
    return [_map(function, v) for v in value] if isinstance(value, list) else function(value)


def _float32(value: float) -> float:
    return value if isinstance(value, int) else float(struct.unpack("f", struct.pack("f", value))[0])


def _put(tree: Any, path: tuple[int, ...], value: Any) -> Any:
    return [_put(v, path[1:], value) if i == path[0] else v for i, v in enumerate(tree)] if path else value


if __name__ == "__main__":
    names = [name for name in sys.argv[1:] if name != "--again"]
    everything = [path.relative_to(FOLDER).with_suffix("").as_posix() for path in FOLDER.glob("**/*_*.json")]
    for each in names or [n for n in everything if n.startswith(("pairs/", "univariate_"))]:
        fill(each, again="--again" in sys.argv)
