"""Make tensor_divergences.json: divergences other than KL and their gradients, by definition, at the stored floats.

    python tests/golden/make_tensor_divergences.py

Every input is written as the hexadecimal of the stored float, so that the truth is that of exactly these numbers. 90
digits leave 20 after the cancellation of a divergence of 1e-35; gradients are central differences at a step of 1e-30.
"""

import json
import random
import struct
from pathlib import Path

from mpmath import inf, log, mp, mpf, sqrt

mp.dps = 90

SKEWS = [0.0, 1e-12, 0.1, 0.5, 0.9, 1.0]
BETAS = [0.0, 1e-12, 0.3, 0.5, 1 - 1e-12, 1.0]
ORDERS = [0.0, 1e-9, 0.3, 0.5, 1 - 1e-9, 1.0, 1 + 1e-9, 2.0, 5.0, 50.0, float("inf")]


def normalised(kind, values):
    weights = [mpf(0) if v == -inf else mp.exp(v) for v in values] if kind in ("Logits", "LogProbs") else list(values)
    total = sum(weights)
    return [w / total for w in weights]


def kl(p, q):
    if any(a > 0 and b == 0 for a, b in zip(p, q, strict=True)):
        return inf
    return sum(a * log(a / b) for a, b in zip(p, q, strict=True) if a > 0)


def mix(p, q, share):
    return [share * a + (1 - share) * b for a, b in zip(p, q, strict=True)]


def js(p, q):
    middle = mix(p, q, mpf(1) / 2)
    return (kl(p, middle) + kl(q, middle)) / 2


def scaled_js(p, q, beta):
    if beta in (0, 1):
        return kl(p, q) if beta == 0 else kl(q, p)
    middle = mix(p, q, beta)
    return (beta * kl(p, middle) + (1 - beta) * kl(q, middle)) / (beta * (1 - beta))


def renyi(p, q, alpha):
    if alpha == 1:
        return kl(p, q)
    if alpha > 1 and any(a > 0 and b == 0 for a, b in zip(p, q, strict=True)):
        return inf
    shared = [(a, b) for a, b in zip(p, q, strict=True) if a > 0 and b > 0]
    if not shared:
        return inf
    if alpha == inf:
        return max(log(a / b) for a, b in shared)
    return log(sum(a**alpha * b ** (1 - alpha) for a, b in shared)) / (alpha - 1)


def chi2(p, q):
    if any(a > 0 and b == 0 for a, b in zip(p, q, strict=True)):
        return inf
    return sum((a - b) ** 2 / b for a, b in zip(p, q, strict=True) if b > 0)


def hellinger(p, q):
    return sqrt(sum((sqrt(a) - sqrt(b)) ** 2 for a, b in zip(p, q, strict=True)) / 2)


def total_variation(p, q):
    return sum(abs(a - b) for a, b in zip(p, q, strict=True)) / 2


DIVERGENCES = {
    "js": js,
    "js_distance": lambda p, q: sqrt(js(p, q)),
    "jeffreys": lambda p, q: kl(p, q) + kl(q, p),
    "total_variation": total_variation,
    "hellinger": hellinger,
    "chi2": chi2,
}
PARAMETERS = {
    "skew_kl": (SKEWS, lambda p, q, a: kl(p, mix(p, q, a))),
    "scaled_js": (BETAS, scaled_js),
    "renyi": (ORDERS, renyi),
}


def every_divergence(p, q):
    for name, function in DIVERGENCES.items():
        yield name, None, lambda p, q, f=function: f(p, q)
    for name, (parameters, function) in PARAMETERS.items():
        for parameter in parameters:
            exact = mpf(parameter)
            yield name, parameter, lambda p, q, f=function, a=exact: f(p, q, a)


def stored(value, dtype):
    return value if dtype == "float64" else struct.unpack("f", struct.pack("f", value))[0]


def side(kind, weights, dtype, scale=1.0):
    """A view of given weights as somebody would store it."""
    total = sum(weights)
    if kind in ("Logits", "LogProbs"):
        shift = mpf(3) * scale if kind == "Logits" else mpf(0)
        values = [float("-inf") if w == 0 else float(log(w / total) + shift) for w in weights]
    else:
        values = [float(w / total if kind == "Probs" else w * 7) for w in weights]
    return kind, [stored(v, dtype) for v in values]


def cases():
    rng = random.Random(20083)
    kinds = ["Logits", "LogProbs", "Probs", "Counts"]
    for dtype, gaps in (("float64", [1e-13, 1e-9, 1e-4, 0.3, 4.0]), ("float32", [1e-6, 1e-3, 0.3, 4.0])):
        for gap in gaps:
            for kind_p in kinds:
                kind_q = rng.choice(kinds)
                if gap < 1e-3:  # rounding would swamp the gap unless both sides are stored alike
                    kind_q = kind_p
                base = [mpf(rng.uniform(0.05, 1)) for _ in range(4)]
                moved = [w * mp.exp(mpf(gap) * rng.gauss(0, 1)) for w in base]
                yield f"{dtype} gap {gap}", dtype, side(kind_p, base, dtype), side(kind_q, moved, dtype)
    ninf = float("-inf")
    f64 = "float64"
    yield "q excludes", f64, ("Probs", [0.5, 0.25, 0.25]), ("Probs", [0.75, 0.25, 0.0])
    yield "p excludes", f64, ("Probs", [0.75, 0.25, 0.0]), ("Logits", [0.1, 0.2, 0.3])
    yield "both exclude a class of the other", f64, ("Logits", [0.5, ninf, 0.25]), ("Counts", [3.0, 1.0, 0.0])
    yield "a tiny mass excluded", f64, ("Probs", [0.5, 0.5 - 2**-50, 2**-50]), ("Probs", [0.5, 0.5, 0.0])
    yield "shared exclusion", f64, ("Logits", [0.5, ninf, 0.25, 1.0]), ("Logits", [0.4, ninf, 0.3, 1.0])
    yield "disjoint", f64, ("Probs", [1.0, 0.0]), ("Probs", [0.0, 1.0])
    yield "spread", f64, ("Logits", [0.0, -1.0, -300.0]), ("Logits", [0.0, -250.0, 3.0])
    yield "far logits", f64, ("Logits", [1e4, 1e4 - 3.0, -1e4]), ("Logits", [-1e4, -1e4 + 1.0, -1e4 + 2.0])
    yield "a class that underflows", f64, ("Logits", [0.0, -1.0, -800.0]), ("Logits", [0.0, -1.125, -2.0])
    yield "one rare class moves", f64, ("Logits", [0.0, 0.0, -62.0]), ("Logits", [0.0, 0.0, -59.0])
    yield "N12", f64, ("Probs", [0.7, 0.2, 0.1]), ("Probs", [0.1, 0.2, 0.7])
    third = [1 / 3, 1 / 3, 1 / 3]
    yield "scipy 20083", f64, ("Probs", third), ("Probs", [third[0], third[1], third[2] + 2**-53])
    yield "one class", f64, ("Logits", [3.0]), ("Logits", [-2.0])


def text(value):
    return "inf" if value == inf else mp.nstr(value, 25)


def cleaned(value):
    """Without the rounding of 90 digits, far below every divergence here."""
    return mpf(0) if abs(value) < mpf(10) ** -80 else value


def gradient(function, sides):
    """Central differences with respect to the stored numbers of both sides; None where there is no derivative."""
    step = mpf(10) ** -30
    middle = function(*(normalised(*s) for s in sides))
    found = []
    for which in (0, 1):
        row = []
        for i, value in enumerate(sides[which][1]):
            if value == -inf or (value == 0 and sides[which][0] in ("Probs", "Counts")):
                row.append(None)
                continue
            ends = []
            for sign in (1, -1):
                moved = [list(s[1]) for s in sides]
                moved[which][i] += sign * step
                ends.append(function(*(normalised(s[0], m) for s, m in zip(sides, moved, strict=True))))
            left, right = (middle - ends[1]) / step, (ends[0] - middle) / step
            kink = abs(left - right) > mpf(10) ** -10 * max(abs(left), abs(right))
            row.append(None if kink else text((left + right) / 2))
        found.append(row)
    return found


def main():
    records = []
    for name, dtype, p, q in cases():
        sides = [(kind, [mpf(v) for v in values]) for kind, values in (p, q)]
        exact = [normalised(*s) for s in sides]
        values = []
        for divergence, parameter, function in every_divergence(*exact):
            value = cleaned(function(*exact))
            entry = {"of": divergence, "value": text(value)}
            if parameter is not None:
                entry["parameter"] = parameter.hex()
            if 0 < value < inf:
                entry["gradient"] = gradient(function, sides)
            values.append(entry)
        records.append(
            {
                "case": name,
                "dtype": dtype,
                "p": [p[0], [v.hex() for v in p[1]]],
                "q": [q[0], [v.hex() for v in q[1]]],
                "values": values,
            }
        )
    out = Path(__file__).with_name("tensor_divergences.json")
    out.write_text("[\n" + ",\n".join(json.dumps(r) for r in records) + "\n]\n", encoding="utf-8")


if __name__ == "__main__":
    main()
