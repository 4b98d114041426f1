"""KL(Cauchy ‖ Cauchy) in mpmath."""

from mpmath import log

from tests.golden.pairs import near, rounded, write


def cauchy_cauchy(p, q):
    s, t = p["scale"], q["scale"]
    return log(((s + t) ** 2 + (p["loc"] - q["loc"]) ** 2) / (4 * s * t))


def main():
    hard = [
        (0.0, 1.0, 1.0, 2.0),
        (-3.5, 0.25, 2.25, 7.0),
        (0.0, 1e20, 0.0, 2e20),
        (0.0, 1e-30, 0.0, 1e30),
        (1e30, 1e-30, -1e30, 1e-30),
        (1e-30, 1e-30, 2e-30, 1e-30),
        # |Δμ| is the other scale, or all but: what is left of the slope in that scale is far below its terms.
        (0.0, 1e-8, 1.0, 1.0),
        (0.0, 1e-15, 7.5, 7.5),
        (1e-30, 1e-30, 1e-3, 1e-3),
        (-7.5, 7.5, 0.0, 1e-15),
    ]
    cases = [(rounded({"loc": m, "scale": s}), rounded({"loc": n, "scale": t})) for m, s, n, t in hard]
    cases += near({"loc": 0.75, "scale": 1.3}) + near({"loc": -1e6, "scale": 1e-3}, steps=range(1, 13, 2))
    write("Cauchy", "Cauchy", cauchy_cauchy, cases)
