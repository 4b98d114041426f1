"""KL(LKJCholesky ‖ ·) in mpmath, from the log-normaliser of the law."""

from mpmath import digamma, fsum, loggamma, mpf

from tests.golden.pairs import near, rounded, write


def lkj_lkj(p, q):
    d = int(p["dim"])
    eta, other = p["concentration"], q["concentration"]
    shifts = [mpf(j) / 2 for j in range(d - 1)]

    def normaliser(x):
        return fsum(loggamma(x + mpf(d - 2) / 2 - j) for j in shifts) - (d - 1) * loggamma(x + mpf(d - 1) / 2)

    slope = fsum(digamma(eta + mpf(d - 2) / 2 - j) for j in shifts) - (d - 1) * digamma(eta + mpf(d - 1) / 2)
    return normaliser(other) - normaliser(eta) - (other - eta) * slope


def main():
    hard = [(3, 2.0, 0.7), (5, 1.5, 4.0), (2, 1e-6, 1e12), (10, 1e12, 1e-6), (4, 1e12, 1.001e12), (4, 1e-6, 2e-6)]
    cases = [(rounded({"dim": d, "concentration": a}), rounded({"dim": d, "concentration": b})) for d, a, b in hard]
    for d, at in ((2, 0.75), (5, 1.5), (6, 1e-6), (7, 1e12)):
        cases += near({"dim": d, "concentration": at}, steps=range(1, 13, 2))
    write("LKJCholesky", "LKJCholesky", lkj_lkj, cases, digits=120)
