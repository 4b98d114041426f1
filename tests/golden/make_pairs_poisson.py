"""KL(Poisson ‖ ·) in mpmath."""

from mpmath import log

from tests.golden.pairs import near, rounded, write


def poisson_poisson(p, q):
    return p["rate"] * log(p["rate"] / q["rate"]) - p["rate"] + q["rate"]


def main():
    hard = [(2.0, 3.5), (1e6, 1.0001e6), (1e-30, 1e30), (1e30, 1e-30), (1e30, 2e30), (1e-30, 3e-30), (1e-3, 7.0)]
    cases = [(rounded({"rate": a}), rounded({"rate": b})) for a, b in hard]
    cases += near({"rate": 1.3}) + near({"rate": 1e6}) + near({"rate": 1e-20})
    write("Poisson", "Poisson", poisson_poisson, cases)
