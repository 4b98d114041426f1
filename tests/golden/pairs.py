"""What every table of distribution pairs shares: exact inputs, 200-digit answers, gradients, one JSON file per pair.

A table is made by a script `make_pairs_<p>.py`, which states the divergence in mpmath, independently of the library,
and the parameters to try; `write` evaluates it. Run all scripts, or those named, with

    uv run python -m tests.golden.pairs [normal beta …]

Inputs are the stored floats themselves (their decimal `repr` reads back exactly). A case marked `"float32": true` has
inputs that are exact in float32 and is tested in both precisions. Values and gradients are given to 25 digits.
"""

from __future__ import annotations

import importlib
import json
import struct
import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import mpmath

FOLDER = Path(__file__).parent / "pairs"
DIGITS = 200
Parameters = dict[str, Any]


def write(
    p: str,
    q: str,
    kl: Callable[[Parameters, Parameters], Any],
    cases: Iterable[tuple[Parameters, Parameters]],
    *,
    gradients: Sequence[tuple[str, str]] | None = None,
    digits: int = DIGITS,
) -> None:
    """Evaluate `kl(p_parameters, q_parameters)` (mpf in, mpf out) over the cases and store the table.

    Args:
        p: Class name of p.
        q: Class name of q.
        kl: The divergence in mpmath, parameters by name; `mpmath.inf` where infinite.
        cases: Parameters of p and of q: floats, or (nested) lists of floats; integers are taken as they are.
        gradients: Which derivatives to store, as ("p", "loc") pairs; default: every float parameter. Stored where the
            divergence is finite.
        digits: Working precision; derivatives are central differences with a step of 10^(-digits/4).
    """
    FOLDER.mkdir(exist_ok=True)
    rows = []
    with mpmath.workdps(digits):
        for params_p, params_q in cases:
            given = {"p": params_p, "q": params_q}
            exact = {side: {k: _map(mpmath.mpf, v) for k, v in params.items()} for side, params in given.items()}
            value = kl(exact["p"], exact["q"])
            row: dict[str, Any] = {"p": params_p, "q": params_q, "kl": mpmath.nstr(value, 25)}
            row["float32"] = given == {side: rounded(params) for side, params in given.items()}
            if mpmath.isfinite(value):
                wanted = gradients or [(side, k) for side in "pq" for k, v in given[side].items() if is_float(v)]
                row["gradient"] = {f"{side}.{k}": _derivative(kl, exact, side, k) for side, k in wanted}
            rows.append(row)
    text = ",\n".join(json.dumps(row) for row in rows)
    (FOLDER / f"{p}_{q}.json").write_text(f"[\n{text}\n]\n", encoding="utf-8")


def near(
    parameters: Parameters, *, one_at_a_time: bool = True, steps: Iterable[int] = range(1, 13)
) -> list[tuple[Parameters, Parameters]]:
    """Pairs that differ from `parameters` by relative steps 10^-k, in all float parameters and in one at a time."""
    names = [k for k, v in parameters.items() if is_float(v)]
    groups = [names, *([[k] for k in names] if one_at_a_time and len(names) > 1 else [])]
    cases = []
    for exponent in steps:
        for index, group in enumerate(groups):
            step = (-1) ** (index + exponent) * 10.0**-exponent
            moved = {k: _moved(v, step) if k in group else v for k, v in parameters.items()}
            cases.append((parameters, moved) if exponent > 6 else (rounded(parameters), rounded(moved)))
    return cases


def representable(kl: Callable[..., Any]) -> Callable[..., Any]:
    """Beyond float64 the answer is infinite and has no gradient."""

    def capped(p: Parameters, q: Parameters) -> Any:
        value = kl(p, q)
        return mpmath.inf if value > sys.float_info.max else value

    return capped


def rounded(parameters: Parameters) -> Parameters:
    """The same parameters rounded to float32, so that a case can be tested in both precisions."""
    return {k: _map(_float32, v) if is_float(v) else v for k, v in parameters.items()}


def is_float(value: Any) -> bool:
    return isinstance(value, float) or (isinstance(value, list) and all(is_float(v) for v in value))


def _moved(value: Any, step: float) -> Any:
    if isinstance(value, list):
        return [_moved(v, step * (1.0 if i % 2 else -0.7)) for i, v in enumerate(value)]
    return value * (1 + step) if value else step


def _map(function: Callable[[Any], Any], value: Any) -> Any:
    return [_map(function, v) for v in value] if isinstance(value, list) else function(value)


def _float32(value: float) -> float:
    return float(struct.unpack("f", struct.pack("f", value))[0])


def _derivative(kl: Callable[..., Any], at: dict[str, Parameters], side: str, name: str) -> Any:
    def along(path: tuple[int, ...], value: Any) -> Any:
        if isinstance(value, list):
            return [along((*path, i), v) for i, v in enumerate(value)]
        size = abs(value) or mpmath.mpf(1)
        step = size * mpmath.mpf(10) ** -(mpmath.mp.dps // 4)
        up, down = (_with(at, side, name, path, value + sign * step) for sign in (1, -1))
        slope = (kl(up["p"], up["q"]) - kl(down["p"], down["q"])) / (2 * step)
        # A derivative that is exactly 0 comes out as the truncation error of the difference.
        return "0.0" if abs(slope * size) < mpmath.mpf(10) ** -(mpmath.mp.dps // 3) else mpmath.nstr(slope, 25)

    return along((), at[side][name])


def _with(at: dict[str, Parameters], side: str, name: str, path: tuple[int, ...], value: Any) -> dict[str, Parameters]:
    def put(tree: Any, rest: tuple[int, ...]) -> Any:
        return [put(v, rest[1:]) if i == rest[0] else v for i, v in enumerate(tree)] if rest else value

    return {**at, side: {**at[side], name: put(at[side][name], path)}}


if __name__ == "__main__":
    names = sys.argv[1:] or [s.stem.removeprefix("make_pairs_") for s in Path(__file__).parent.glob("make_pairs_*.py")]
    for script in sorted(names):
        importlib.import_module(f"tests.golden.make_pairs_{script}").main()
