"""KL(Dirichlet ‖ ·) in mpmath."""

from mpmath import digamma, fsum, loggamma

from tests.golden.pairs import near, rounded, write


def dirichlet_dirichlet(p, q):
    a, b = p["concentration"], q["concentration"]

    def bregman(x, y):
        return loggamma(y) - loggamma(x) - (y - x) * digamma(x)

    return fsum(map(bregman, a, b)) - bregman(fsum(a), fsum(b))


def main():
    hard = [
        ([2.0, 3.0, 1.5], [1.0, 4.0, 0.5]),
        ([1e6, 1e6, 1e6], [1e6, 1e6, 1.001e6]),
        ([1e12, 1e12], [1.001e12, 1.001e12]),
        ([1e-6, 1e-6, 1e-6], [1e-6, 2e-6, 1e-6]),
        ([1e-6, 1.0, 1e12], [1e-6, 1.0, 1.01e12]),
        ([1e-6, 3.0, 1e3], [1e12, 1e-6, 2.0]),
        ([1e12, 1e12, 1e12], [0.5, 1e-6, 3.0]),
        ([0.01, 0.02, 7.0], [0.01, 0.02, 7.5]),
        ([1.0, 0.4, 37.0], [1e12, 1e-3, 37.0]),
    ]
    cases = [(rounded({"concentration": a}), rounded({"concentration": b})) for a, b in hard]
    cases += near({"concentration": [1.5, 2.0, 30.0, 0.25]}) + near({"concentration": [3e11, 1e12, 1e-3]})
    # One small concentration moves beside a large one: the others' slopes see nothing but the change of the sum.
    alone = {"concentration": [1e-6, 1e-6, 1e12]}, {"concentration": [1e-6 * (1 + 2**-30), 1e-6, 1e12]}
    write("Dirichlet", "Dirichlet", dirichlet_dirichlet, [*cases, alone, alone[::-1]], digits=120)
