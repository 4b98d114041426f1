"""KL(Exponential ‖ ·) in mpmath: the Gamma's with concentration 1, and its own textbook form."""

from mpmath import log

from tests.golden.make_pairs_gamma import gamma_gamma, gamma_gumbel, gamma_normal
from tests.golden.pairs import near, representable, rounded, write


def exponential_exponential(p, q):
    return log(p["rate"] / q["rate"]) + q["rate"] / p["rate"] - 1


def of_gamma(kl):
    return lambda p, q: kl({"concentration": 1, **p}, q)


def main():
    cases = [
        (rounded({"rate": x}), rounded({"rate": y})) for x, y in [(1.5, 0.7), (1e-30, 1e30), (1e30, 1e-30), (2.0, 2.0)]
    ]
    write("Exponential", "Exponential", exponential_exponential, cases + near({"rate": 1.3}) + near({"rate": 1e-30}))
    gamma = [
        (1.5, 2.0, 0.7),
        (1.5, 1.0, 1.5),
        (1.0, 1e-6, 3.0),
        (1.0, 1e12, 1e12),
        (1e-30, 3.0, 1e30),
        (1e30, 3.0, 1e-30),
    ]
    cases = [(rounded({"rate": x}), rounded({"concentration": b, "rate": y})) for x, b, y in gamma]
    cases += [({"rate": 2.0 - step}, {"concentration": 1 + step, "rate": 2.0}) for step in (1e-3, 1e-6, 1e-9, 1e-12)]
    write("Exponential", "Gamma", of_gamma(gamma_gamma), cases)
    real = [
        (1.5, 0.5, 1.2),
        (2.0, -4.0, 0.1),
        (1.0, 1e3, 10.0),
        (1e-30, 1.0, 1e30),
        (1e30, 1e-30, 1e-30),
        (1e-4, 1e4, 1.0),
    ]
    cases = [(rounded({"rate": x}), rounded({"loc": m, "scale": s})) for x, m, s in real]
    write("Exponential", "Gumbel", representable(of_gamma(gamma_gumbel)), cases)
    write("Exponential", "Normal", of_gamma(gamma_normal), cases)
