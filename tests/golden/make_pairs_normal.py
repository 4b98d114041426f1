"""KL(Normal ‖ ·) in mpmath."""

from mpmath import log

from tests.golden.pairs import near, rounded, write


def normal_normal(p, q):
    ratio = (p["scale"] / q["scale"]) ** 2
    return (ratio - 1 - log(ratio) + ((p["loc"] - q["loc"]) / q["scale"]) ** 2) / 2


def main():
    hard = [
        (0.0, 1.0, 1.0, 2.0),
        (-3.5, 0.25, 2.25, 7.0),
        (0.0, 1e-25, 0.0, 1.0),
        (0.0, 1e-30, 0.0, 1e30),
        (1e30, 1e30, -1e30, 2e30),
        (1e8, 1e-3, 1e8, 2e-3),
        (0.0, 1.0, 2e-4, 1.0),
        (1e-30, 1e-30, 2e-30, 1e-30),
    ]
    cases = [(rounded({"loc": m, "scale": s}), rounded({"loc": n, "scale": t})) for m, s, n, t in hard]
    cases += near({"loc": 0.75, "scale": 1.3}) + near({"loc": -1e6, "scale": 1e-3})
    write("Normal", "Normal", normal_normal, cases)
