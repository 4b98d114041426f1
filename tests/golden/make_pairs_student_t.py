"""KL(StudentT ‖ StudentT) in mpmath: ∫ p·log(p/q) dx by the trapezoidal rule.

In w, x = μ + σ·√ν·sinh w, it converges geometrically while q is not much narrower than p.
"""

from mpmath import asinh, cosh, digamma, inf, log, loggamma, mp, mpf, pi, sinh, sqrt

from tests.golden.pairs import near, rounded, write


def log_density(d, x):
    n, z = d["df"], (x - d["loc"]) / d["scale"]
    normaliser = loggamma((n + 1) / 2) - loggamma(n / 2) - log(n * pi) / 2 - log(d["scale"])
    return normaliser - (n + 1) / 2 * log(1 + z * z / n)


def student_t(p, q):
    n = p["df"]
    reach = mpf(mp.dps + 5) * log(10)
    gaussian = n > 30
    step = mpf(1) / 4 if gaussian else mpf(1) / 40
    end = sqrt(2 * reach) * 3 if gaussian else asinh(reach / n + 2)
    total = mpf(0)
    count = int(end / step) + 1
    for k in range(-count, count + 1):
        v = k * step
        w, slope = (v / sqrt(n), 1 / sqrt(n)) if gaussian else (sinh(v), cosh(v))
        x = p["loc"] + p["scale"] * sqrt(n) * sinh(w)
        log_p = log_density(p, x)
        total += mp.exp(log_p) * (log_p - log_density(q, x)) * p["scale"] * sqrt(n) * cosh(w) * slope
    return total * step


def student_t_normal(p, q):
    n, s, t = p["df"], p["scale"], q["scale"]
    if n <= 2:
        return inf
    log_beta = loggamma(n / 2) + log(pi) / 2 - loggamma((n + 1) / 2)
    entropy = (n + 1) / 2 * (digamma((n + 1) / 2) - digamma(n / 2)) + log(n) / 2 + log_beta + log(s)
    return -entropy + log(2 * pi * t**2) / 2 + (s**2 * n / (n - 2) + (p["loc"] - q["loc"]) ** 2) / (2 * t**2)


def main():
    laws = [
        (4.0, 0.0, 1.0),
        (2.0, 0.0, 1.0),
        (2.0000005, 0.0, 1.0),
        (1.0, 0.0, 1.0),
        (49.0, 1.0, 2.0),
        (51.0, 1.0, 2.0),
    ]
    laws += [(1e4, 0.5, 1.25), (1e8, 0.5, 1.25), (1e12, 0.5, 1.25), (5.0, 1e30, 1e-30), (5.0, -1e30, 1e30)]
    pairs = [(rounded({"df": n, "loc": m, "scale": s}), {"loc": 0.5, "scale": 1.25}) for n, m, s in laws]
    write("StudentT", "Normal", student_t_normal, pairs)

    def law(df, loc, scale):
        return rounded({"df": df, "loc": loc, "scale": scale})

    cases = [
        (law(4.0, 0.0, 1.0), law(3.0, 0.5, 1.5)),
        (law(1.0, 0.0, 1.0), law(1.0, 1.0, 2.0)),
        (law(0.5, 0.25, 1.0), law(0.75, 0.5, 1.25)),
        (law(0.125, 0.25, 1.0), law(0.25, 0.5, 1.25)),
        (law(1e-3, 0.25, 1.0), law(2e-3, 0.25, 1.25)),
        (law(1e6, 0.0, 1.0), law(3e6, 0.0, 1.0)),
        (law(40.0, 0.0, 1.0), law(400.0, 0.0, 1.0)),
        (law(1e3, 0.25e-30, 1e-30), law(40.0, 0.5e-30, 1e-30)),
        (law(2.5, -1e30, 1e30), law(2.5, 1e30, 2e30)),
        (law(1e9, 0.0, 1.0), law(3e9, 0.5, 1.25)),
        (law(1e12, 0.25, 1.25), law(1e9, 0.0, 1.0)),
        (law(1e6, 0.25, 1.0), law(1e6, 0.0, 1.0)),
    ]
    # One parameter alone moves the others' derivatives to second order only; closer than 1e-5 these are not resolved.
    cases += near({"df": 3.5, "loc": 0.75, "scale": 1.3}, steps=(1, 3, 5))
    cases += near({"df": 0.3, "loc": 2.0, "scale": 1.3}, steps=(2,))
    cases += near({"df": 500.0, "loc": 0.75, "scale": 1.3}, steps=(1, 4))
    for df in (0.3, 3.5, 500.0):
        cases += near({"df": df, "loc": 0.75, "scale": 1.3}, one_at_a_time=False, steps=(7, 9, 12))
    write("StudentT", "StudentT", student_t, cases, digits=60)
