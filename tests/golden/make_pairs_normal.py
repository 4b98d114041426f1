"""KL(Normal ‖ ·) in mpmath."""

from mpmath import erf, exp, log, mpf, pi, sqrt

from tests.golden.pairs import near, representable, rounded, write


def normal_normal(p, q):
    ratio = (p["scale"] / q["scale"]) ** 2
    return (ratio - 1 - log(ratio) + ((p["loc"] - q["loc"]) / q["scale"]) ** 2) / 2


def entropy(p):
    return log(2 * pi * p["scale"] ** 2) / 2 + mpf(1) / 2


def normal_gumbel(p, q):
    z = (p["loc"] - q["loc"]) / q["scale"]
    return -entropy(p) + log(q["scale"]) + z + exp(-z + (p["scale"] / q["scale"]) ** 2 / 2)


def normal_laplace(p, q):
    d = p["loc"] - q["loc"]
    s = p["scale"]
    absolute = s * sqrt(2 / pi) * exp(-((d / s) ** 2) / 2) + d * erf(d / s / sqrt(2))
    return -entropy(p) + log(2 * q["scale"]) + absolute / q["scale"]


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
    # |Δμ| is the scale of q, or all but: what is left of the slope in that scale is far below its terms.
    tied = [(0.0, 1e-8, 1.0, 1.0), (0.0, 1e-15, -7.5, 7.5), (1e-30, 1e-30, 1e-3, 1e-3), (1e-3, 1e-3, 1e12, 1e12)]
    cases += [(rounded({"loc": m, "scale": s}), rounded({"loc": n, "scale": t})) for m, s, n, t in tied]
    write("Normal", "Normal", normal_normal, cases)
    hard[3] = (0.0, 1e-10, 0.0, 1e10)  # else derivatives are too small for the differences
    hard += [
        (1e8, 2.0, 1e8, 2.0),
        (3.0, 30.0, 1.0, 1.5),
        (40.0, 1.0, 0.0, 1.0),
        (-40.0, 1.0, 0.0, 1.0),
        (0.0, 1e30, 0.0, 1.0),
        (1e8, 1.0, 0.0, 1.0),
    ]
    cases = [(rounded({"loc": m, "scale": s}), rounded({"loc": n, "scale": t})) for m, s, n, t in hard]
    p = {"loc": -500.0, "scale": 2.5}
    close = [(p, {"loc": -501.25 * (1 + d), "scale": 2.5 * (1 - d)}) for d in (1e-9, 1e-12)]
    write("Normal", "Gumbel", representable(normal_gumbel), cases + close)
    b = 2.5 * (2 / 3.141592653589793) ** 0.5
    close = [(p, {"loc": -500.0 * (1 + d), "scale": b * (1 - d)}) for d in (1e-9, 1e-12)]
    write("Normal", "Laplace", normal_laplace, cases + close)
