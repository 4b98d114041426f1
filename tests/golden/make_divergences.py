"""Computes the tables of the divergences beside KL again: `counts.json` and `distribution_divergences*.json`.

    uv run --group test python -m tests.golden.make_divergences [counts distribution_divergences_random …]

A row holds p and q as [name, parameters]; a new row asks for its divergences with {"truth": {"js": null, …}} and for
derivatives with {"gradient": {"js": {}, …}}. Every divergence is the integral of a function of p(x) and q(x) over the
union of the supports, by Gauss–Legendre on panels that double away from every end, place and kink of either density,
and from where they cross; counts are summed. What diverges is found by following the integrand towards the ends of p's
support. Derivatives are central differences.
"""

from __future__ import annotations

import itertools
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import mpmath as mp

from tests.golden import counts, densities
from tests.golden.densities import Density

DIGITS, _ORDER, _STEP = 50, 20, mp.mpf("1e-12")
# An integrand that falls more slowly than this power of the distance is refused: the panels do not reach far enough.
_SLOWEST_FALL = 0.25
Side = tuple[str, dict[str, Any]]


def integrand(name: str) -> Callable[[Any, Any], Any]:
    """What is integrated for a divergence; terms whose integral is 0 make it of second order where p ≈ q."""
    kind, _, number = name.partition(" ")
    share = mp.mpf(float(number or {"hellinger": 0.5, "chi2": 2}.get(kind, 0)))

    def mixed(p: Any, q: Any) -> Any:
        m = share * p + (1 - share) * q
        if kind == "skew_kl":
            return _x_log(p, m) - p + m
        return (share * _x_log(p, m) + (1 - share) * _x_log(q, m)) / (share * (1 - share))

    def power(p: Any, q: Any) -> Any:
        return (p**share * q ** (1 - share) if p and q else mp.mpf(0)) - share * p - (1 - share) * q

    return {
        "js": lambda p, q: (_x_log(p, (p + q) / 2) + _x_log(q, (p + q) / 2)) / 2,
        "skew_kl": mixed,
        "scaled_js": mixed,
        "total_variation": lambda p, q: abs(p - q) / 2,
        "hellinger": power,
        "renyi": power,
        "chi2": power,
        "kl": lambda p, q: _x_log(p, q) - p + q,
        "jeffreys": lambda p, q: _x_log(p, q) + _x_log(q, p),
        "entropy": lambda p, q: -_x_log(p, mp.mpf(1)),
        "cross_entropy": lambda p, q: -p * mp.log(q) if p else mp.mpf(0),
    }[kind]


def finish(name: str, integral: Any) -> Any:
    if name == "hellinger":
        return mp.sqrt(-integral)
    if name.startswith("renyi"):
        return mp.inf if integral <= -1 else mp.log1p(integral) / (mp.mpf(float(name[6:])) - 1)
    return integral


def _x_log(x: Any, y: Any) -> Any:
    return x * mp.log(x / y) if x else mp.mpf(0)


def order(name: str) -> Any:
    """The α > 1 of ∫ p^α q^(1−α), 1 for KL; None for a divergence that is always finite."""
    if name.startswith("renyi"):
        return mp.mpf(float(name[6:])) if float(name[6:]) > 1 else None
    return {"kl": 1, "cross_entropy": 1, "jeffreys": 1, "chi2": mp.mpf(2)}.get(name)


def divergences(p: Side, q: Side, names: list[str]) -> dict[str, Any]:
    """The divergences by name; those whose integrand falls too slowly are left out."""
    found, wanted = {}, []
    for name in names:
        fall = min(_fall(p, q, order(name)), _fall(q, p, 1) if name == "jeffreys" else mp.inf)
        if fall <= 0:
            found[name] = mp.inf
        elif fall >= _SLOWEST_FALL:
            wanted.append(name)
    if p[0] in counts.FAMILIES:
        powers = [a for a in map(order, wanted) if a is not None and a > 1]
        nodes = [(1, x, y) for x, y in counts.pairs_of_probabilities(*p, *q, powers)]
    else:
        nodes = list(_nodes(density(*p), density(*q)))
    for name in wanted:
        f = integrand(name)
        found[name] = finish(name, mp.fsum(w * f(x, y) for w, x, y in nodes))
    return found


def density(name: str, parameters: dict[str, Any]) -> Density:
    """A family by its name, or a mixture of one: parameters are lists then, one number a component."""
    if name != "Mixture":
        return densities.make(name, parameters)
    inner = [{k: v[i] for k, v in parameters["parts"].items()} for i in range(len(parameters["weights"]))]
    return densities.mixture(parameters["weights"], [densities.make(parameters["of"], each) for each in inner])


def _fall(p: Side, q: Side, alpha: Any) -> Any:
    """The power of the distance with which the integrand falls towards the ends of p; not positive: it diverges."""
    if alpha is None:
        return mp.inf
    if p[0] in counts.FAMILIES:
        return -1 if counts.diverges(*p, *q, alpha) else mp.inf
    first, second = density(*p), density(*q)
    if first.lower < second.lower or first.upper > second.upper:
        return -1
    return min(_fall_at(first, second, alpha, sign) for sign in (-1, 1))


def _fall_at(p: Density, q: Density, alpha: Any, sign: int) -> Any:
    end = p.lower if sign < 0 else p.upper
    with mp.workprec(2000):
        if mp.isfinite(end):
            xs = [end - sign * mp.mpf(2) ** -k for k in (400, 800)]
        else:
            start, width = p.places[0]
            # Beyond this the logarithm of a double exponential is cut off.
            steps = (8, 12) if any(_is_double_exponential(each) for each in (p, q)) else (300, 600)
            xs = [start + sign * max(width, q.places[0][1]) * mp.mpf(2) ** k for k in steps]
        logs = [mp.log(abs(x - end if mp.isfinite(end) else x)) for x in xs]
        near, far = (_log_height(p, q, alpha, x) + log for x, log in zip(xs, logs, strict=True))
        return (near - far) / abs(logs[1] - logs[0])


def _is_double_exponential(one: Density) -> bool:
    return one.lower == -mp.inf and one.log_pdf(mp.mpf(-(2**40))) < -(mp.mpf(10) ** 3000)


def _log_height(p: Density, q: Density, alpha: Any, x: Any) -> Any:
    log_p, log_q = p.log_pdf(x), q.log_pdf(x)
    return log_p + mp.log(1 + abs(log_q)) if alpha == 1 else alpha * log_p + (1 - alpha) * log_q


def _nodes(p: Density, q: Density) -> Any:
    for low, high in _panels(p, q):
        half, middle = (high - low) / 2, (low + high) / 2
        for node, weight in densities.gauss_legendre(_ORDER):
            x = middle + half * node
            yield half * weight, _pdf(p, x), _pdf(q, x)


def _pdf(one: Density, x: Any) -> Any:
    return mp.exp(one.log_pdf(x)) if one.lower < x < one.upper else mp.mpf(0)


def _panels(p: Density, q: Density) -> list[tuple[Any, Any]]:
    ends = [e for one in (p, q) for e in (one.lower, one.upper) if mp.isfinite(e)]
    lowest, highest = min(p.lower, q.lower), max(p.upper, q.upper)
    marks = [(place, width) for one in (p, q) for place, width in one.places]
    marks += [(k, w) for one in (p, q) for k in one.kinks for _, w in one.places]
    narrowest = min(w for _, w in marks)
    points = set(ends) | {k for one in (p, q) for k in one.kinks}
    for place, width in marks:
        points |= {place + s * width * mp.mpf(2) ** k for s in (-1, 1) for k in range(-1, 150)} | {place}
    for end in ends:
        points |= {end + s * narrowest * mp.mpf(2) ** k for s in (-1, 1) for k in range(-180, 20)}
    ordered = sorted(x for x in points if lowest <= x <= highest)
    kept = []
    for low, high in itertools.pairwise(ordered):
        if high - low > mp.mpf(10) ** -45 * max(abs(low), abs(high)) and _matters(p, q, low, high):
            kept += _split_at_crossings(p, q, low, high)
    return kept


def _matters(p: Density, q: Density, low: Any, high: Any) -> bool:
    inside = (low + high) / 2, low + (high - low) / 1000, high - (high - low) / 1000
    sizes = [(_pdf(p, x), _pdf(q, x)) for x in inside]
    largest = max(max(a, b, a * a / b if a and b else mp.mpf(0)) for a, b in sizes)
    return bool(largest * (high - low) > mp.mpf(10) ** -34)


def _split_at_crossings(p: Density, q: Density, low: Any, high: Any) -> list[tuple[Any, Any]]:
    def gap(x: Any) -> Any:
        return _pdf(p, x) - _pdf(q, x)

    inset = (high - low) * mp.mpf(10) ** -30
    xs = [low + inset, *(low + (high - low) * mp.mpf(k) / 6 for k in range(1, 6)), high - inset]
    signs = [mp.sign(gap(x)) for x in xs]
    cuts = [low]
    for left, right, s, t in zip(xs, xs[1:], signs, signs[1:], strict=False):
        if s * t < 0:
            a, b = left, right
            for _ in range(100):
                middle = (a + b) / 2
                a, b = (middle, b) if mp.sign(gap(middle)) == s else (a, middle)
            cuts.append(a)
    return list(zip(cuts, [*cuts[1:], high], strict=True))


def gradient(p: Side, q: Side, names: list[str]) -> dict[str, dict[str, str]]:
    """To every parameter that is a number, and to the first one of a list."""
    found: dict[str, dict[str, str]] = {name: {} for name in names}
    for index, (family, given) in enumerate((p, q)):
        for parameter, value in given.items():
            if family == "Binomial" and parameter == "total_count":
                continue
            ends = []
            for sign in (1, -1):
                sides = [p, q]
                sides[index] = family, {**given, parameter: _moved(value, sign * _STEP)}
                ends.append(divergences(sides[0], sides[1], names))
            for name in names:
                up, down = ends[0][name], ends[1][name]
                slope = 0 if mp.isinf(up) else (up - down) / (2 * _STEP)
                found[name][f"{'pq'[index]}.{parameter}"] = mp.nstr(slope, 15)
    return found


def _moved(value: Any, step: Any) -> Any:
    return [value[0] + step, *value[1:]] if isinstance(value, list) else value + step


def exact(side: list[Any]) -> Side:
    """Name and parameters with the stored floats as mpf."""

    def convert(value: Any) -> Any:
        if isinstance(value, dict):
            return {k: convert(v) for k, v in value.items()}
        if isinstance(value, list):
            return [convert(v) for v in value]
        return value if isinstance(value, str) else mp.mpf(value)

    return side[0], convert(side[1])


def complete(row: dict[str, Any]) -> dict[str, Any]:
    """The row with the divergences and derivatives that it asks for."""
    p, q = exact(row["p"]), exact(row["q"])
    if "truth" in row:
        found = divergences(p, q, list(row["truth"]))
        row = {**row, "truth": {name: mp.nstr(value, 18).lstrip("+") for name, value in found.items()}}
    if "gradient" in row:
        row = {**row, "gradient": gradient(p, q, list(row["gradient"]))}
    return row


if __name__ == "__main__":
    folder = Path(__file__).parent
    tables = sys.argv[1:] or ["counts", *(p.stem for p in folder.glob("distribution_divergences*.json"))]
    with mp.workdps(DIGITS):
        for table in tables:
            path = folder / f"{table}.json"
            rows = [complete(row) for row in json.loads(path.read_text(encoding="utf-8"))]
            text = ",\n".join(json.dumps(row) for row in rows)
            path.write_text(f"[\n{text}\n]\n", encoding="utf-8")
