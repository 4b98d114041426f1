"""Write tensors_kl.json: KL of views with its gradients and Hessian-vector products, from the definition, by mpmath.

Inputs are stored as hexadecimal floats and read exactly. The derivatives are central differences of the definition with
a step of 1e-40 at 150 digits, so they share no algebra with the library. Run: python tests/golden/make_tensors.py
"""

import json
import random
from pathlib import Path

import mpmath as mp
import numpy as np

mp.mp.dps = 150
STEP = mp.mpf(10) ** -40
KINDS = ("Logits", "LogProbs", "Probs", "Counts")
DISTANCES = (3.0, 1e-3, 1e-8, 1e-14)
ROUND = {"float64": np.float64, "float32": np.float32, "float16": np.float16}


def weights(numbers, kind):
    if kind in ("Probs", "Counts"):
        return list(numbers)
    return [mp.mpf(0) if x == mp.mpf("-inf") else mp.exp(x) for x in numbers]


def kl(x, kind_p, y, kind_q):
    p, q = weights(x, kind_p), weights(y, kind_q)
    total_p, total_q = mp.fsum(p), mp.fsum(q)
    terms = [(a / total_p, b / total_q) for a, b in zip(p, q, strict=True) if a != 0]
    if any(b == 0 for _, b in terms):
        return mp.inf
    return mp.fsum(a * mp.log(a / b) for a, b in terms)


def along(f, point, direction):
    def shifted(sign):
        return [x if mp.isinf(x) else x + sign * STEP * d for x, d in zip(point, direction, strict=True)]

    return (f(shifted(1)) - f(shifted(-1))) / (2 * STEP)


def basis(size, i):
    return [mp.mpf(int(i == j)) for j in range(size)]


def encode(logits, kind):
    top = max(logits)
    w = [mp.exp(mp.mpf(x) - top) for x in logits]
    total = mp.fsum(w)
    if kind == "Logits":
        return logits
    if kind == "LogProbs":
        return [float(mp.log(v / total)) for v in w]
    return [float(v / total * (1 if kind == "Probs" else 41)) for v in w]


def case(kind_p, kind_q, dtype, x, y, direction, *, second=True):  # noqa: PLR0917
    x = [float(ROUND[dtype](v)) for v in x]
    y = [float(ROUND[dtype](v)) for v in y]
    exact_x, exact_y, d = ([mp.mpf(v) for v in values] for values in (x, y, direction))
    size = len(x)

    def grad_p(a, b):
        return [along(lambda z: kl(z, kind_p, b, kind_q), a, basis(size, i)) for i in range(size)]

    def grad_q(a, b):
        return [along(lambda z: kl(a, kind_p, z, kind_q), b, basis(size, i)) for i in range(size)]

    record = {
        "p": kind_p,
        "q": kind_q,
        "dtype": dtype,
        "x": [v.hex() for v in x],
        "y": [v.hex() for v in y],
        "kl": mp.nstr(kl(exact_x, kind_p, exact_y, kind_q), 30),
        "grad_p": [mp.nstr(v, 25) for v in grad_p(exact_x, exact_y)],
        "grad_q": [mp.nstr(v, 25) for v in grad_q(exact_x, exact_y)],
    }
    if second:
        record["direction"] = [v.hex() for v in direction]
        record["hvp_p"] = [
            mp.nstr(along(lambda z: along(lambda w: kl(w, kind_p, exact_y, kind_q), z, d), exact_x, basis(size, i)), 25)
            for i in range(size)
        ]
        record["hvp_q"] = [
            mp.nstr(along(lambda z: along(lambda w: kl(exact_x, kind_p, w, kind_q), z, d), exact_y, basis(size, i)), 25)
            for i in range(size)
        ]
    return record


def main():
    draw = random.Random(20240229)
    cases = []
    for kind_p in KINDS:
        for kind_q in KINDS:
            for dtype in ROUND:
                for distance in DISTANCES:
                    if (dtype == "float32" and distance < 1e-6) or (dtype == "float16" and distance < 1e-2):
                        continue
                    logits = [draw.gauss(0, 2) for _ in range(5)]
                    moved = [v + distance * draw.gauss(0, 1) for v in logits]
                    direction = [draw.gauss(0, 1) for _ in range(5)]
                    x, y = encode(logits, kind_p), encode(moved, kind_q)
                    cases.append(case(kind_p, kind_q, dtype, x, y, direction))
    shift = [draw.gauss(0, 1) for _ in range(6)]
    hard = {
        "far shift": (shift, [v + 1e4 for v in shift]),
        "wide": ([1e4, 9e3, 9.5e3], [-1e4, -9.2e3, -9e3]),
        "underflow in p": ([0.0, -800.0], [0.0, -1.0]),
        "underflow in q": ([0.0, -1.0], [0.0, -800.0]),
        "both": ([0.3, -700.25, -2.0], [-650.5, 3.125, 0.0]),
        "spread": ([0.1, -311.7, -999.3, -1.3], [-7.7, -300.1, -1000.9, -1.1]),
        "shared hole": ([0.5, -mp.inf, 1.5], [1.0, -mp.inf, 1.25]),
        "hole in p": ([0.5, -mp.inf, 1.5], [1.0, -3.0, 1.25]),
        "hole in p, equal elsewhere": ([0.5, -mp.inf, 1.5], [0.5, -40.0, 1.5]),
    }
    directions = [1.0, -0.5, 0.25, 2.0, -3.0, 0.75]
    for name, pair in hard.items():
        x, y = ([float(v) for v in side] for side in pair)
        finite = all(v != float("-inf") for v in x)
        record = case("Logits", "Logits", "float64", x, y, directions[: len(x)], second=finite)
        cases.append({"name": name, **record})
    Path(__file__).with_name("tensors_kl.json").write_text(json.dumps(cases, indent=0) + "\n")


if __name__ == "__main__":
    main()
