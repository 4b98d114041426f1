"""Cross-family pairs by a moment or a moment-generating function of p, in mpmath, as textbooks have them."""

from mpmath import erfc, exp, inf, log, mpf, pi, sqrt

from tests.golden.pairs import representable, rounded, write


def inside(low):
    """Whether a lower end is one of the half-line; at 0 the derivative to it is the one from above."""
    return low > -(mpf(10) ** -30)


def exact(pairs):
    return [(rounded(p), rounded(q)) for p, q in pairs]


def generalized_pareto(p):
    """Mean, second moment and entropy."""
    m, s, x = p["loc"], p["scale"], p["concentration"]
    mean = m + s / (1 - x) if x < 1 else inf
    second = m * m + 2 * m * s / (1 - x) + 2 * s * s / ((1 - x) * (1 - 2 * x)) if 2 * x < 1 else inf
    return mean, second, log(s) + x + 1


def generalized_pareto_exponential(p, q):
    mean, _, entropy = generalized_pareto(p)
    return q["rate"] * mean - log(q["rate"]) - entropy if inside(p["loc"]) else inf


def half_normal_cost(second, entropy, q):
    return log(pi * q["scale"] ** 2 / 2) / 2 + second / (2 * q["scale"] ** 2) - entropy


def generalized_pareto_half_normal(p, q):
    _, second, entropy = generalized_pareto(p)
    return half_normal_cost(second, entropy, q) if inside(p["loc"]) else inf


def generalized_pareto_normal(p, q):
    mean, second, entropy = generalized_pareto(p)
    if second == inf:
        return inf
    m, s = q["loc"], q["scale"]
    return log(2 * pi * s * s) / 2 + (second - 2 * m * mean + m * m) / (2 * s * s) - entropy


def uniform_half_normal(p, q):
    low, high = p["low"], p["high"]
    if not inside(low):
        return inf
    return half_normal_cost((low * low + low * high + high * high) / 3, log(high - low), q)


def gumbel_cost(mean, moment, entropy, q):
    """moment is E e^(−x/β)."""
    return log(q["scale"]) + (mean - q["loc"]) / q["scale"] + exp(q["loc"] / q["scale"]) * moment - entropy


def laplace_gumbel(p, q):
    t = p["scale"] / q["scale"]
    if t >= 1:
        return inf
    moment = exp(-p["loc"] / q["scale"]) / (1 - t * t)
    return gumbel_cost(p["loc"], moment, 1 + log(2 * p["scale"]), q)


def half_normal_gumbel(p, q):
    t = p["scale"] / q["scale"]
    moment = exp(t * t / 2) * erfc(t / sqrt(2))
    return gumbel_cost(p["scale"] * sqrt(2 / pi), moment, log(pi * p["scale"] ** 2 / 2) / 2 + mpf(1) / 2, q)


GP = [
    (0.25, 1.3, 0.2),
    (0.0, 1.3, 0.2),
    (0.5, 2.0, 0.45),
    (0.0, 1.0, 1e-9),
    (0.0, 1.0, -1e-3),
    (2.0, 1e-12, -0.5),
    (0.0, 1e20, -3.0),
    (-1.0, 1.0, 0.3),
    (0.0, 1.0, 0.7),
    (0.0, 1.0, 1.0),
]


def main():
    laws = [dict(zip(("loc", "scale", "concentration"), row, strict=True)) for row in GP]
    pairs = [(p, {"rate": r}) for p in laws for r in (1.1, 1e-15)] + [
        (laws[3], {"rate": 1.0}),
        (laws[2], {"rate": 1.0}),
    ]
    write(
        "GeneralizedPareto", "Exponential", generalized_pareto_exponential, [(rounded(p), rounded(q)) for p, q in pairs]
    )
    pairs = [(p, {"scale": s}) for p in laws for s in (1.1, 1e15)]
    write(
        "GeneralizedPareto", "HalfNormal", generalized_pareto_half_normal, [(rounded(p), rounded(q)) for p, q in pairs]
    )
    pairs = [(p, {"loc": m, "scale": s}) for p in laws for m, s in ((0.4, 1.1), (-3.0, 1e15))]
    write("GeneralizedPareto", "Normal", generalized_pareto_normal, exact(pairs))
    intervals = [(0.5, 2.0), (0.0, 1.5), (1.5, 1.5000001), (1e-20, 1e15), (-1.0, 1.0)]
    pairs = [({"low": a, "high": b}, {"scale": s}) for a, b in intervals for s in (1.1, 1e-9)]
    write("Uniform", "HalfNormal", uniform_half_normal, exact(pairs))
    gumbels = [(0.5, 1.2), (-4.0, 30.0), (1e3, 10.0), (1e-3, 1e20)]
    pairs = [
        ({"loc": m, "scale": b}, {"loc": n, "scale": s}) for m, b in ((0.3, 0.8), (-2.0, 1e-9)) for n, s in gumbels
    ]
    pairs += [({"loc": 0.0, "scale": b}, {"loc": 0.0, "scale": 1.0}) for b in (0.999, 1.0, 2.0)]
    write("Laplace", "Gumbel", representable(laplace_gumbel), exact(pairs))
    pairs = [({"scale": b}, {"loc": n, "scale": s}) for b in (0.8, 1e-9, 1e4) for n, s in gumbels]
    pairs += [
        ({"scale": b}, {"loc": n, "scale": 1.0}) for b, n in ((70.0, 9.0), (72.0, 9.0), (1e7, 300.0), (1e12, -2.0))
    ]
    write("HalfNormal", "Gumbel", representable(half_normal_gumbel), exact(pairs))
