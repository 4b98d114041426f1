"""KL(Weibull ‖ ·) in mpmath."""

from mpmath import euler, gamma, log, loggamma

from tests.golden.pairs import near, representable, rounded, write


def weibull_weibull(p, q):
    k, m, s, t = p["concentration"], q["concentration"], p["scale"], q["scale"]
    return (
        log(k) - k * log(s) - log(m) + m * log(t) + (k - m) * (log(s) - euler / k) + (s / t) ** m * gamma(m / k + 1) - 1
    )


def weibull_gamma(p, q):
    k, s, b, rate = p["concentration"], p["scale"], q["concentration"], q["rate"]
    entropy = euler * (1 - 1 / k) + log(s / k) + 1
    mean, mean_log = s * gamma(1 + 1 / k), log(s) - euler / k
    return -entropy - b * log(rate) + loggamma(b) - (b - 1) * mean_log + rate * mean


def main():
    hard = [
        (1.0, 1.5, 2.0, 0.7),
        (2.0, 0.7, 1.0, 3.5),
        (1.0, 1e3, 1.0, 1.0),
        (1e-30, 2.0, 1e30, 2.0),
        (1e3, 1.0, 1e3, 30.0),
        (5.0, 1e12, 5.0, 2e12),
    ]
    cases = [
        (rounded({"scale": s, "concentration": k}), rounded({"scale": t, "concentration": m})) for s, k, t, m in hard
    ]
    cases += near({"scale": 0.75, "concentration": 1.3}) + near(
        {"scale": 1e30, "concentration": 1e6}, steps=range(1, 13, 2)
    )
    cases += near({"scale": 1e-30, "concentration": 1e-6}, steps=range(1, 13, 3))
    write("Weibull", "Weibull", representable(weibull_weibull), cases)
    hard = [
        (1.0, 1.5, 2.0, 0.7),
        (2.0, 0.7, 1.0, 3.5),
        (1.0, 1e3, 1e6, 1e6),
        (1.0, 1e6, 1e12, 1e12),
        (1e-30, 2.0, 2.0, 1e-30),
        (1e30, 2.0, 1e-6, 1e-30),
        (3.0, 0.05, 2.0, 1.0),
        (2.0, 1.0, 1.0, 0.5),
        (1.0, 1.2, 1.3, 1.1),
        (1.0, 0.8, 0.7, 1.1),
        (1.0, 40.0, 2.0, 2.0),
        (33.0, 5e-6, 0.02, 1.2),
    ]
    cases = [
        (rounded({"scale": s, "concentration": k}), rounded({"concentration": b, "rate": y})) for s, k, b, y in hard
    ]
    cases += [
        ({"scale": 0.5, "concentration": 1 + step}, {"concentration": 1 - sign * step, "rate": 2.0 + step})
        for step in (1e-2, 1e-4, 1e-7, 1e-10, 1e-12)
        for sign in (1, -1)
    ]
    write("Weibull", "Gamma", representable(weibull_gamma), cases)
