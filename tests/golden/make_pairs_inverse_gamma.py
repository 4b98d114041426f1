"""KL(InverseGamma ‖ InverseGamma) in mpmath: that of the Gammas."""

from tests.golden.make_pairs_gamma import HARD, gamma_gamma
from tests.golden.pairs import near, rounded, write


def main():
    cases = [
        (rounded({"concentration": a, "rate": x}), rounded({"concentration": b, "rate": y})) for a, x, b, y in HARD
    ]
    write("InverseGamma", "InverseGamma", gamma_gamma, cases + near({"concentration": 2.5, "rate": 1.3}))
