"""KL(VonMises ‖ VonMises) in mpmath."""

from mpmath import besseli, cos, log

from tests.golden.pairs import near, rounded, write


def von_mises(p, q):
    x, y = p["concentration"], q["concentration"]
    zeroth, first = besseli(0, x), besseli(1, x)
    return log(besseli(0, y) / zeroth) + first / zeroth * (x - y * cos(p["loc"] - q["loc"]))


def main():
    hard = [
        (0.5, 2.0, -0.25, 5.0),
        (0.0, 1e-6, 1.0, 1e12),
        (0.0, 1e12, 1.0, 1e-6),
        (0.0, 1e12, 0.0, 2e12),
        (0.0, 1e10, 0.0, 1e12),
        (3.0, 700.0, -3.25, 900.0),
        (0.1, 3.0, 6.3831854, 3.0),
        (1e-3, 30.0, 6.28125, 20.0),
        (1e3, 2.0, -1e3, 9.0),
        (0.0, 1e-6, 0.0, 3e-6),
        (0.0, 1e-6, 0.0, 1e-2),
        (0.0, 9.0, 0.0, 1e-3),
        (0.0, 12.0, 0.0, 1e-3),
        (0.0, 60.0, 0.0, 11.0),
        (0.0, 1.0, 0.0, 60.0),
        (0.0, 30.0, 3.1415927, 30.0),
    ]
    cases = [(rounded({"loc": m, "concentration": x}), rounded({"loc": n, "concentration": y})) for m, x, n, y in hard]
    cases += near({"loc": 0.75, "concentration": 1.3}) + near(
        {"loc": 3.0, "concentration": 1e12}, steps=range(1, 13, 3)
    )
    cases += near({"loc": 1.0, "concentration": 1e-6}, steps=range(1, 13, 3)) + near(
        {"loc": 1.0, "concentration": 60.0}, steps=range(1, 13, 2)
    )
    write("VonMises", "VonMises", von_mises, cases)
