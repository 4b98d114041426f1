"""KL(Gumbel ‖ ·) in mpmath."""

from mpmath import euler, exp, gamma, log, pi

from tests.golden.pairs import near, representable, rounded, write


def gumbel_gumbel(p, q):
    r, z = p["scale"] / q["scale"], (p["loc"] - q["loc"]) / q["scale"]
    return -log(r) + euler * (r - 1) + exp(-z) * gamma(1 + r) - 1 + z


def gumbel_normal(p, q):
    square = (pi * p["scale"]) ** 2 / 6 + (p["loc"] + euler * p["scale"] - q["loc"]) ** 2
    return -log(p["scale"]) - euler - 1 + log(2 * pi * q["scale"] ** 2) / 2 + square / (2 * q["scale"] ** 2)


def main():
    hard = [
        (0.5, 1.2, -0.3, 0.8),
        (-3.5, 0.25, 2.25, 7.0),
        (3.5, 7.0, 2.25, 0.25),
        (0.0, 1e-15, 0.0, 1e15),
        (0.0, 1e20, 0.0, 1.5e18),
        (1e30, 1e30, -1e30, 2e30),
        (1e8, 2.0, 1e8, 3.0),
        (0.0, 1.0, 30.0, 1.0),
        (0.0, 1.0, -30.0, 1.0),
        (1e-30, 1e-30, 2e-30, 1e-30),
    ]
    cases = [(rounded({"loc": m, "scale": s}), rounded({"loc": n, "scale": t})) for m, s, n, t in hard]
    # Next to the closest Normal the slopes are what cancels; so is that to a scale as large as the distance.
    p, mean, sd = {"loc": 0.75, "scale": 1.3}, 1.5003803643719928, 1.6673147792104232
    close = [(p, {"loc": mean + d, "scale": sd * (1 + d)}) for d in (1e-9, 1e-12)]
    close += [({"loc": 0.0, "scale": 1.0}, {"loc": 1e8, "scale": 1e8})]
    write("Gumbel", "Normal", gumbel_normal, cases + close)
    cases += near({"loc": 0.75, "scale": 1.3}) + near({"loc": -1e6, "scale": 1e-3}, steps=range(1, 13, 2))
    write("Gumbel", "Gumbel", representable(gumbel_gumbel), cases)
