"""KL(Pareto ‖ ·) in mpmath."""

from mpmath import inf, log, loggamma, mpf, pi

from tests.golden.pairs import near, rounded, write


def entropy(p):
    return log(p["scale"] / p["alpha"]) + 1 + 1 / p["alpha"]


def pareto_pareto(p, q):
    # Derivatives at touching ends are those from inside.
    if p["scale"] < q["scale"] * (1 - mpf(10) ** -40):
        return inf
    a, b = p["alpha"], q["alpha"]
    return log(a / b) + b * log(p["scale"] / q["scale"]) + b / a - 1


def pareto_gamma(p, q):
    a, s, b, rate = p["alpha"], p["scale"], q["concentration"], q["rate"]
    if a <= 1:
        return inf
    return -entropy(p) - b * log(rate) + loggamma(b) - (b - 1) * (log(s) + 1 / a) + rate * s * a / (a - 1)


def pareto_exponential(p, q):
    return pareto_gamma(p, {"concentration": mpf(1), **q})


def pareto_normal(p, q):
    a, s = p["alpha"], p["scale"]
    if a <= 2:
        return inf
    mean, var = a * s / (a - 1), a * s**2 / ((a - 1) ** 2 * (a - 2))
    return -entropy(p) + log(2 * pi * q["scale"] ** 2) / 2 + (var + (mean - q["loc"]) ** 2) / (2 * q["scale"] ** 2)


def main():
    hard = [
        (2.0, 1.5, 1.0, 0.7),
        (1.0, 2.0, 2.0, 2.0),
        (1e30, 1e-6, 1e-30, 1e12),
        (1e30, 3.0, 1e-30, 3.0),
        (1.0, 1e12, 1.0, 1e-6),
    ]
    cases = [(rounded({"scale": s, "alpha": a}), rounded({"scale": t, "alpha": b})) for s, a, t, b in hard]
    cases += near({"scale": 0.75, "alpha": 1.3}) + near({"scale": 1e-30, "alpha": 1e6}, steps=range(1, 13, 2))
    write("Pareto", "Pareto", pareto_pareto, cases)
    half = [
        (1.0, 2.5),
        (1.0, 1.0),
        (2.0, 0.5),
        (1.0, 1.0000001),
        (1.0, 1 + 1e-12),
        (1e30, 3.0),
        (1e-30, 3.0),
        (1.0, 1e6),
        (1.0, 1e12),
    ]
    rates = [1.5, 1e-30, 1e30]
    cases = [(rounded({"scale": s, "alpha": a}), rounded({"rate": r})) for s, a in half for r in rates]
    cases += [({"scale": 0.7, "alpha": 2.3}, {"rate": 1.3 / 2.3 / 0.7 * (1 + d)}) for d in (1e-9, 1e-12)]
    write("Pareto", "Exponential", pareto_exponential, cases)
    gammas = [(2.0, 1.5), (1e-6, 1.0), (1e12, 1e12), (0.5, 1e-30)]
    cases = [
        (rounded({"scale": s, "alpha": a}), rounded({"concentration": b, "rate": r}))
        for s, a in half
        for b, r in gammas
    ]
    write("Pareto", "Gamma", pareto_gamma, cases)
    half += [(1.0, 2.0), (1.0, 2.0000005), (3.0, 2.0 + 1e-12), (1.0, 1.5)]
    cases = [
        (rounded({"scale": s, "alpha": a}), rounded({"loc": m, "scale": t}))
        for s, a in half
        for m, t in [(0.5, 1.2), (1e30, 1e-30)]
    ]
    # Next to the closest Normal the slopes are what cancels; so is that to a scale as large as the distance.
    p, mean, sd = {"scale": 0.7, "alpha": 3.5}, 0.98, 0.42770706486254506
    cases += [(p, {"loc": mean + d, "scale": sd * (1 + d)}) for d in (1e-9, 1e-12)]
    cases += [(p, {"loc": 1e8, "scale": 1e8})]
    write("Pareto", "Normal", pareto_normal, cases)
