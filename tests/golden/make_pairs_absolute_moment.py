"""KL(p ‖ Laplace) in mpmath: E|x − μ| from the distribution function or by its textbook form, and the entropy of p."""

from mpmath import e, erf, exp, inf, log, mpf, pi, sqrt

from tests.golden.pairs import representable, rounded, write


def exponential(p, m):
    rate = p["rate"]
    mean = m - 1 / rate + 2 * exp(-rate * m) / rate if m > 0 else 1 / rate - m
    return mean, 1 - log(rate)


def half_normal(p, m):
    s = p["scale"]
    mean_x = s * sqrt(2 / pi)
    if m <= 0:
        return mean_x - m, log(pi * s * s / 2) / 2 + mpf(1) / 2
    below = mean_x * (1 - exp(-m * m / (2 * s * s)))
    share = erf(m / (s * sqrt(2)))
    return m * (2 * share - 1) + mean_x - 2 * below, log(pi * s * s / 2) / 2 + mpf(1) / 2


def log_normal(p, m):
    loc, s = p["loc"], p["scale"]
    mean_x = exp(loc + s * s / 2)
    entropy = loc + log(2 * pi * e * s * s) / 2
    if m <= 0:
        return mean_x - m, entropy
    z = (log(m) - loc) / s
    return m * erf(z / sqrt(2)) - mean_x * erf((z - s) / sqrt(2)), entropy


def pareto(p, m):
    s, a = p["scale"], p["alpha"]
    entropy = log(s / a) + 1 + 1 / a
    if a <= 1:
        return inf, entropy
    mean_x = a * s / (a - 1)
    return (m - mean_x + 2 * s**a * m ** (1 - a) / (a - 1) if m > s else mean_x - m), entropy


def uniform(p, m):
    low, high = p["low"], p["high"]
    if low <= m <= high:
        return ((m - low) ** 2 + (high - m) ** 2) / (2 * (high - low)), log(high - low)
    return abs((low + high) / 2 - m), log(high - low)


LAWS = {
    "Exponential": (exponential, [{"rate": 1.5}, {"rate": 1e-20}, {"rate": 3e12}], [0.4, -3.0, 2e3]),
    "HalfNormal": (half_normal, [{"scale": 0.8}, {"scale": 1e20}, {"scale": 3e-12}], [0.6, -3.0, 0.0, 50.0]),
    "LogNormal": (
        log_normal,
        [{"loc": 0.3, "scale": 0.5}, {"loc": 0.0, "scale": 1e-6}, {"loc": -2.0, "scale": 4.0}],
        [1.2, -3.0, 0.0, 1.000001, 40.0],
    ),
    "Pareto": (
        pareto,
        [{"scale": s, "alpha": a} for s, a in ((1.2, 3.4), (2.0, 1e6), (0.7, 1.01), (1.0, 0.8))],
        [1.5, -3.0, 2.000001, 1e3],
    ),
    "Uniform": (
        uniform,
        [{"low": -0.5, "high": 2.0}, {"low": 1.5, "high": 1.5000001}, {"low": -1e20, "high": 3e20}],
        [0.3, -3.0, 1.50000005, 1e3],
    ),
}


def divergence(law):
    def kl(p, q):
        absolute, entropy = law(p, q["loc"])
        return log(2 * q["scale"]) + absolute / q["scale"] - entropy

    return representable(kl)


def main():
    for name, (law, params, locs) in LAWS.items():
        cases = [
            (p, {"loc": m, "scale": b}) for p in params for m, b in zip(locs, [0.9, 2.0, 1e-3, 2e4, 1.1], strict=False)
        ]
        cases += [(params[0], {"loc": locs[0], "scale": b}) for b in (1e-20, 1e20)]
        write(name, "Laplace", divergence(law), [(rounded(p), rounded(q)) for p, q in cases])
