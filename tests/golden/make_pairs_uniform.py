"""KL(Uniform ‖ ·) in mpmath."""

from mpmath import exp, expm1, inf, log, log1p, loggamma, mpf, pi

from tests.golden.pairs import representable, rounded, write

# Derivatives at touching ends are those from inside.
SLACK = mpf(10) ** -40


def width(p):
    return p["high"] - p["low"]


def x_log_x(x):
    return x * log(x) if x > 0 else mpf(0)


def mean_log(low, high):
    return (x_log_x(high) - x_log_x(low)) / (high - low) - 1


def outside(p, low, high=inf):
    return p["low"] < low - SLACK * width(p) or p["high"] > high + SLACK * width(p)


def uniform_uniform(p, q):
    return inf if outside(p, q["low"], q["high"]) else log(width(q) / width(p))


def uniform_normal(p, q):
    middle = (p["low"] + p["high"]) / 2 - q["loc"]
    return -log(width(p)) + log(2 * pi * q["scale"] ** 2) / 2 + (middle**2 + width(p) ** 2 / 12) / (2 * q["scale"] ** 2)


def uniform_gumbel(p, q):
    a, b = (p["low"] - q["loc"]) / q["scale"], (p["high"] - q["loc"]) / q["scale"]
    return -log(width(p)) + log(q["scale"]) + (a + b) / 2 + (exp(-a) - exp(-b)) / (b - a)


def uniform_gamma(p, q):
    if outside(p, 0):
        return inf
    b, rate = q["concentration"], q["rate"]
    mean = (p["low"] + p["high"]) / 2
    return -log(width(p)) - b * log(rate) + loggamma(b) - (b - 1) * mean_log(p["low"], p["high"]) + rate * mean


def uniform_exponential(p, q):
    return uniform_gamma(p, {"concentration": mpf(1), **q})


def uniform_pareto(p, q):
    if outside(p, q["scale"]):
        return inf
    a, s = q["alpha"], q["scale"]
    return -log(width(p)) - log(a) - a * log(s) + (a + 1) * mean_log(p["low"], p["high"])


def uniform_beta(p, q):
    if outside(p, 0, 1):
        return inf
    a, b = q["concentration1"], q["concentration0"]
    mean_log_1m = mean_log(1 - p["high"], 1 - p["low"])
    normaliser = loggamma(a) + loggamma(b) - loggamma(a + b)
    return -log(width(p)) + normaliser - (a - 1) * mean_log(p["low"], p["high"]) - (b - 1) * mean_log_1m


def uniform_continuous_bernoulli(p, q):
    if outside(p, 0, 1):
        return inf
    logit = q["logits"] if "logits" in q else log(q["probs"]) - log1p(-q["probs"])
    normaliser = log(expm1(logit) / logit) if logit else mpf(0)
    return -log(width(p)) + normaliser - logit * (p["low"] + p["high"]) / 2


def intervals(*ends):
    return [rounded({"low": low, "high": high}) for low, high in ends]


def against(ps, *qs):
    return [(p, rounded(q)) for p in ps for q in qs]


def main():
    # Ends on the edge of q's support have one-sided derivatives only, which some q make infinite: values there.
    real = intervals((0.25, 1.5), (-3.0, 4.0), (1e8, 1e8 + 16), (-1e30, 1e30), (1e-30, 3e-30), (0.0, 1000.0))
    write(
        "Uniform",
        "Normal",
        uniform_normal,
        [
            *against(real, {"loc": 0.5, "scale": 1.2}, {"loc": 1e8, "scale": 3.0}, {"loc": -1e-30, "scale": 1e-30}),
            # Next to the closest Normal the slopes are what cancels.
            ({"low": 0.25, "high": 1.5}, {"loc": 0.875 + 1e-12, "scale": 1.25 / 12**0.5 * (1 + 1e-12)}),
            ({"low": 0.25, "high": 1.5}, {"loc": 1e8, "scale": 1e8}),
        ],
    )
    cases = against(
        real,
        {"loc": 0.5, "scale": 1.2},
        {"loc": 1e8, "scale": 3.0},
        {"loc": -1e-30, "scale": 1e-30},
        {"loc": 1000.0, "scale": 1.0},
        {"loc": 0.0, "scale": 1e10},
    )
    write("Uniform", "Gumbel", representable(uniform_gumbel), cases)
    cases = against(real, {"low": -4.0, "high": 5.0}, {"low": 0.0, "high": 2.0}, {"low": -1e30, "high": 2e30})
    for step in [10.0**-k for k in range(1, 13)]:
        for low, high in ((-0.75, 1.3), (1e6, 1000001.0)):
            wider = [(low - step, high + step / 3), (low, high + step), (low - step, high), (low + step / 2, high)]
            cases += [({"low": low, "high": high}, {"low": m, "high": n}) for m, n in wider]
    write("Uniform", "Uniform", uniform_uniform, cases)
    half = intervals(
        (0.25, 1.5), (1.0, 1.00390625), (-1.0, 1.0), (1e-30, 3e-30), (1e-30, 1e30), (1e4, 10001.0), (1.0, 1.000001)
    )
    write("Uniform", "Exponential", uniform_exponential, against(half, {"rate": 1.5}, {"rate": 1e-30}, {"rate": 1e30}))
    cases = against(
        half,
        {"concentration": 2.0, "rate": 1.5},
        {"concentration": 1e-6, "rate": 1e30},
        {"concentration": 1e12, "rate": 1e12},
        {"concentration": 0.5, "rate": 1e-30},
    )
    write("Uniform", "Gamma", uniform_gamma, cases)
    cases = against(
        half,
        {"scale": 0.125, "alpha": 1.5},
        {"scale": 1.0, "alpha": 1e6},
        {"scale": 1e-30, "alpha": 1e-6},
        {"scale": 2.0, "alpha": 2000.0},
    )
    write("Uniform", "Pareto", uniform_pareto, cases)
    unit = intervals(
        (0.25, 0.75),
        (0.125, 0.9375),
        (0.5, 1.5),
        (1e-10, 2e-10),
        (0.5, 0.5001220703125),
        (0.9990234375, 0.99993896484375),
    )
    betas = [(2.0, 3.0), (1.0, 1.0), (1.25, 0.75), (2.0, 1e9), (1e6, 1e6), (1e12, 1e12), (1e-6, 1e-6), (1e-6, 1e12)]
    cases = against(unit, *({"concentration1": a, "concentration0": b} for a, b in betas))
    # A Beta that is all but flat on all but the whole of [0, 1], and an interval that is next to nothing of it.
    cases += [({"low": 1e-30, "high": 1 - 2.0**-52}, {"concentration1": 1.0000001, "concentration0": 0.99999993})]
    cases += [(rounded({"low": 1e-32, "high": 1e-30}), {"concentration1": 1.25, "concentration0": 1.0})]
    write("Uniform", "Beta", uniform_beta, cases)
    logits = [0.3, -0.8, 2.0, -40.0, 800.0, -800.0, 1e-4]
    cases = against(unit, *({"logits": v} for v in logits))
    cases += [(rounded({"low": 1e-32, "high": 1e-30}), {"logits": 0.5})]
    write("Uniform", "ContinuousBernoulli", uniform_continuous_bernoulli, cases)
