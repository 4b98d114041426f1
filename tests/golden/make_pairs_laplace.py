"""KL(Laplace ‖ ·) in mpmath."""

from mpmath import exp, log, pi

from tests.golden.pairs import near, rounded, write


def laplace_laplace(p, q):
    d = abs(p["loc"] - q["loc"])
    return log(q["scale"] / p["scale"]) - 1 + (d + p["scale"] * exp(-d / p["scale"])) / q["scale"]


def laplace_normal(p, q):
    square = 2 * p["scale"] ** 2 + (p["loc"] - q["loc"]) ** 2
    return -1 - log(2 * p["scale"]) + log(2 * pi * q["scale"] ** 2) / 2 + square / (2 * q["scale"] ** 2)


def main():
    hard = [
        (0.0, 1.0, 1.0, 2.0),
        (-3.5, 0.25, 2.25, 7.0),
        (0.0, 1e-30, 0.0, 1e30),
        (0.0, 1e30, 0.0, 1e-30),
        (1e30, 1e30, -1e30, 2e30),
        (1e4, 1.0, 10001.0, 1.0),
        (0.0, 1.0, 2e-4, 1.0),
        (0.0, 1e-3, 100.0, 1.0),
        (1e-30, 1e-30, 2e-30, 1e-30),
    ]
    cases = [(rounded({"loc": m, "scale": s}), rounded({"loc": n, "scale": t})) for m, s, n, t in hard]
    # Next to the closest Normal the slopes are what cancels; so is that to a scale as large as the distance.
    close = [({"loc": 0.75, "scale": 1.3}, {"loc": 0.75 + d, "scale": 1.3 * 2**0.5 * (1 + d)}) for d in (1e-9, 1e-12)]
    close += [({"loc": 0.0, "scale": 1.0}, {"loc": 1e8, "scale": 1e8})]
    write("Laplace", "Normal", laplace_normal, cases + close)
    # |Δμ| is all but the scale of q, from which the slope in that scale is its difference.
    tied = [(1e-3, 1e-3, 1e12, 1e12), (1e-30, 1e-30, 1.0, 1.0), (0.0, 0.03125, -1.0, 1.0)]
    cases += [(rounded({"loc": m, "scale": s}), rounded({"loc": n, "scale": t})) for m, s, n, t in tied]
    write(
        "Laplace",
        "Laplace",
        laplace_laplace,
        cases + near({"loc": 0.75, "scale": 1.3}) + near({"loc": -1e6, "scale": 1e-3}),
    )
