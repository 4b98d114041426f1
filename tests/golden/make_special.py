"""Write tests/golden/special_*.json: mpmath truth for kullback.special at exactly stored floats.

    python tests/golden/make_special.py

A row is [arguments, value, first derivatives, second derivatives (upper triangle)]; every number is the float64
nearest to the truth. Points come from fixed grids and one seeded generator, so the files are reproducible to the byte.
"""

import json
import random
from pathlib import Path

import numpy as np
from mpmath import mp, mpf

HERE = Path(__file__).parent
NEAR = [s * 10.0**-k for k in (1, 2, 3, 4, 6, 8, 10, 12, 14, 15) for s in (1, -1)]


def float32(x):
    return float(np.float32(x))


def log_uniform(rng, low, high):
    return float(np.exp(rng.uniform(np.log(low), np.log(high))))


def table(name, function, points, digits):
    """function(*args) -> (value, first, second) in mpmath."""
    rows, seen = [], set()
    for point in points:
        args = tuple(float(a) for a in point)
        if args in seen:
            continue
        seen.add(args)
        with mp.workdps(digits):
            value, first, second = function(*[mpf(a) for a in args])
            rows.append([list(args), float(value), [float(v) for v in first], [float(v) for v in second]])
    return name, rows


def save(group, tables):
    lines = []
    for name, rows in tables:
        body = ",\n".join(json.dumps(row) for row in rows)
        lines.append(f"{json.dumps(name)}: [\n{body}\n]")
    (HERE / f"special_{group}.json").write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")


# --- exponentials and logarithms ---


def expm1mx(x):
    return mp.exp(x) - 1 - x, [mp.exp(x) - 1], [mp.exp(x)]


def log1pmx(x):
    return mp.log(1 + x) - x, [1 / (1 + x) - 1], [-1 / (1 + x) ** 2]


def log1mexp(x):
    e = mp.exp(x)
    return mp.log(1 - e), [-e / (1 - e)], [-e / (1 - e) ** 2]


def logdiffexp(a, b):
    ea, eb = mp.exp(a), mp.exp(b)
    d = ea - eb
    c = -ea * eb / d**2
    return mp.log(d), [ea / d, -eb / d], [c, -c, c]


def rel_entr(p, q):
    return p * mp.log(p / q), [mp.log(p / q) + 1, -p / q], [1 / p, -1 / q, p / q**2]


def kl_div(p, q):
    return p * mp.log(p / q) - p + q, [mp.log(p / q), 1 - p / q], [1 / p, -1 / q, p / q**2]


def exp_log_points(rng):
    small = [s * 10.0**-k for k in (1, 2, 3, 5, 8, 12, 16, 30, 100, 150) for s in (1, -1)]
    typical = [rng.uniform(-3, 3) for _ in range(30)] + [float32(rng.uniform(-2, 2)) for _ in range(20)]
    seams = [s * v for v in (0.999999, 1.0, 1.000001, 0.25, 0.5, 0.6) for s in (1, -1)]
    big = [5.0, 20.0, 88.0, 300.0, 700.0, -5.0, -20.0, -1e3, -1e10, -1e300]
    # Where the multiple of log 2 taken out of x, or the form of the logarithm, changes.
    turns = [0.49999, 0.5001, 0.5003, 1.1935, 1.8863844, 2.58, -0.5003, -1.1935, -0.8393299, -1.2032697, -1.23, -1.2301]
    expm = small + typical + seams + big + [*turns, 709.78, -39.9, -40.1]
    ratio = [x for x in small + typical + seams if x > -1]
    ratio += [-0.6000001, 1.1999999, 1.2000001, 3.0, 10.0, 1e5, 1e15, 1e300, -0.9, -0.99, -0.999999, -1 + 1e-12]
    ratio += [-0.33333, -0.33334, *(x for x in turns if x > -1)]
    minus = [-abs(x) for x in small + typical + seams + big if x] + [-0.6931, -0.6932, -36.0, -40.0, -745.0, -5e-324]
    minus += [-abs(x) for x in turns]
    return expm, ratio, minus


def difference_points(rng):
    points = [(a, a - abs(h) * max(abs(a), 1.0)) for a in (0.0, 1.0, -3.7, 700.0, -1e5) for h in NEAR]
    points += [(rng.uniform(-5, 5), 0.0) for _ in range(30)]
    points = [(a, a - rng.uniform(0.01, 12)) if b == 0.0 else (a, b) for a, b in points]
    points += [(float32(a), float32(a - rng.uniform(0.01, 5))) for a in (0.3, -2.0, 7.5, 50.0, -80.0)]
    return [(a, b) for a, b in [*points, (1e5, -1e5), (0.0, -745.0), (1e300, 1.0), (-1e300, -2e300)] if a > b]


def pair_points(rng):
    points = [(p, p * (1 + h)) for p in (1.0, 0.3, 1e-200, 3e200, 1e-310) for h in NEAR]
    points += [(log_uniform(rng, 1e-3, 1e3), log_uniform(rng, 1e-3, 1e3)) for _ in range(40)]
    points += [
        (p, p * r)
        for r in (0.35, 0.399, 0.4, 0.401, 0.5, 0.9, 1.9, 2.0, 2.199, 2.2, 2.201, 2.7182818)
        for p in (0.7, 5.1)
    ]
    points += [(float32(rng.uniform(0, 1)), float32(rng.uniform(0, 1))) for _ in range(20)]
    points += [
        (1.0, 1.0),
        (1e-200, 1e200),
        (1e200, 1e-200),
        (1e-300, 1e-10),
        (5e-324, 1.0),
        (1.0, 5e-324),
        (1e-320, 2e-320),
    ]
    # SciPy's regression points for rel_entr (its issue 20710).
    points += [(0.9456657713430001, 0.9456657713430094), (0.48066098564791515, 0.48066098564794774)]
    points += [(0.786048657854401, 0.7860486578542367), (4.0, 2.22e-308), (2.22e-308, 1e15)]
    return [*points, (1e-30, 1e30), (1e30, 1e-30), (1.0, 1.0000000001), (1e300, 1e308), (1e-308, 3e-308)]


def exp_log():
    rng = random.Random(1)
    expm, ratio, minus = exp_log_points(rng)
    pairs = pair_points(rng)
    return [
        table("expm1mx", expm1mx, [(x,) for x in expm], 1000),
        table("log1pmx", log1pmx, [(x,) for x in ratio], 1000),
        table("log1mexp", log1mexp, [(x,) for x in minus], 1000),
        table("rel_entr", rel_entr, pairs, 400),
        table("kl_div", kl_div, pairs, 1100),
    ]


def log_difference():
    """log(e^a-e^b) needs digits for e^1e300 only as a ratio: factor out e^a."""

    def shifted(a, b):
        value, first, second = logdiffexp(mpf(0), b - a)
        return a + value, first, second

    return [table("logdiffexp", shifted, difference_points(random.Random(2)), 400)]


# --- the gamma family ---


def psi(order, x):
    return mp.polygamma(order, x)


def remainder(order, x):
    """The order-th derivative of Binet's remainder."""
    main = [
        lambda: mp.loggamma(x) - ((x - mpf(1) / 2) * mp.log(x) - x + mp.log(2 * mp.pi) / 2),
        lambda: psi(0, x) - mp.log(x) + 1 / (2 * x),
        lambda: psi(1, x) - 1 / x - 1 / (2 * x**2),
        lambda: psi(2, x) + 1 / x**2 + 1 / x**3,
        lambda: psi(3, x) - 2 / x**3 - 3 / x**4,
        lambda: psi(4, x) + 6 / x**4 + 12 / x**5,
    ]
    return main[order]()


def digamma(x):
    return psi(0, x), [psi(1, x)], [psi(2, x)]


def trigamma(x):
    return psi(1, x), [psi(2, x)], [psi(3, x)]


def binet(order):
    return lambda x: (remainder(order, x), [remainder(order + 1, x)], [remainder(order + 2, x)])


def bregman(derivative):
    """The Bregman divergence of a function given with its derivatives."""

    def function(a, b):
        value = derivative(0, b) - derivative(0, a) - (b - a) * derivative(1, a)
        first = [-(b - a) * derivative(2, a), derivative(1, b) - derivative(1, a)]
        return value, first, [derivative(2, a) - (b - a) * derivative(3, a), -derivative(2, a), derivative(2, b)]

    return function


def lgamma_derivative(order, x):
    return psi(order - 1, x) if order else mp.loggamma(x)


def multivariate(dimension):
    def derivative(order, x):
        return sum(lgamma_derivative(order, x - mpf(j) / 2) for j in range(dimension))

    return bregman(derivative)


def gamma_points(rng):
    points = [10.0**k for k in (-300, -30, -10, -5, -3, -2, -1, 0, 1, 2, 3, 6, 10, 15)]
    points += [log_uniform(rng, 1e-2, 50) for _ in range(24)] + [float32(rng.uniform(0.1, 20)) for _ in range(10)]
    return [*points, 0.5, 0.35, 0.3499, 0.9999999, 1.0000001, 2.0, 11.999999, 12.0, 12.5]


def shape_points(rng):
    bases = (1e-30, 1e-8, 0.02, 0.3, 1.0, 1.7, 6.3, 11.99, 12.3, 150.0, 1e6, 1e15)
    points = [(a, a * (1 + h)) for a in bases for h in NEAR[::2] + NEAR[1::6]]
    points += [(log_uniform(rng, 1e-4, 1e4), log_uniform(rng, 1e-4, 1e4)) for _ in range(24)]
    points += [(a, a * r) for a in (0.1, 0.8, 3.0, 20.0, 1e9) for r in (0.3, 0.4, 0.5, 2.2, 2.9, 3.1)]
    points += [(float32(rng.uniform(0.1, 9)), float32(rng.uniform(0.1, 9))) for _ in range(10)]
    ends = (1e-30, 1e-3, 1.0, 1e3, 1e15)
    return points + [(a, b) for a in ends for b in ends] + [(1e12, 1.001e12)]


def gamma():
    rng = random.Random(3)
    points, pairs = [(x,) for x in gamma_points(rng)], shape_points(rng)
    root = [1.4616321449683622, 1.4616321449683625, 1.46163, 1.4617, 1.4616321, 1.45, 1.47, 1.4616322]
    negative = [-0.5, -0.3, -1.5, -2.7, -10.1, -0.001, -3.9]
    ordered = [(x,) for (x,) in points if x > 1e-40]
    shapes = [(a, b) for a, b in pairs if min(a, b) > 1][::4]
    return [
        table("digamma", digamma, points + [(x,) for x in root], 60),
        table("digamma_negative", digamma, [(x,) for x in negative], 60),
        table("trigamma", trigamma, points + [(x,) for x in negative], 60),
        *[table(f"binet_{k}", binet(k), ordered, 160) for k in range(4)],
        table("lgamma_bregman", bregman(lgamma_derivative), pairs, 160),
        table("binet_bregman", bregman(remainder), pairs, 160),
        table("multivariate_lgamma_bregman_3", multivariate(3), shapes, 160),
    ]


# --- the normal distribution function ---


def density(x):
    return mp.exp(-x * x / 2) / mp.sqrt(2 * mp.pi)


def log_ndtr(x):
    mass = mp.erfc(-x / mp.sqrt(2)) / 2
    slope = density(x) / mass
    return mp.log(mass), [slope], [-slope * (slope + x)]


def log_ndtr_diff(a, b):
    if a + b > 0:
        value, first, second = log_ndtr_diff(-b, -a)
        return value, [-first[1], -first[0]], second[::-1]
    mass = (mp.erfc(-b / mp.sqrt(2)) - mp.erfc(-a / mp.sqrt(2))) / 2
    low, high = density(a) / mass, density(b) / mass
    return mp.log(mass), [-low, high], [a * low - low**2, low * high, -b * high - high**2]


def normal():
    rng = random.Random(4)
    points = [rng.uniform(-8, 8) for _ in range(40)] + [float32(rng.uniform(-4, 4)) for _ in range(10)]
    points += [0.0, 1e-20, -1e-20, 20.0, 38.0, -20.0, -40.0, -100.0, -1e4, -1e8, -1e150, 1e-3, -1e-3, -2.0, -3.0]
    bases = (-1e5, -40.0, -7.0, -2.5, -1.0, 0.0, 0.4, 3.0, 25.0)
    pairs = [(a, a + h * max(abs(a), 1)) for a in bases for h in NEAR[::2]]
    pairs += [tuple(sorted((rng.uniform(-6, 6), rng.uniform(-6, 6)))) for _ in range(40)]
    pairs += [tuple(sorted((float32(rng.uniform(-3, 3)), float32(rng.uniform(-3, 3))))) for _ in range(8)]
    pairs += [(-h, h) for h in (1e-15, 1e-5, 0.1, 0.5, 1.0, 3.0, 9.0)] + [(-1e5, -3.0), (-30.0, 30.0), (5.0, 9.0)]
    pairs += [(-8.0, -7.0), (-4.0, -3.5), (-1e3, -999.0), (12.0, 1e9), (-0.5, 2.0), (-1e100, 1.0), (30.0, 30.1)]
    # Far enough out for the two tails to cancel, or for the hazard rate to exceed |b| by little.
    pairs += [(3.8912633153125817, 4.162021537324051), (5.505164311605892, 5.842901256579127), (-7.1220922, -7.1220917)]
    pairs += [(1.5797027105847707, 1.9490067008829153), (-0.22374226831932909, 1.890518127882991), (-1e90, -3.0)]
    return [
        table("log_ndtr", log_ndtr, [(x,) for x in points], 700),
        table("log_ndtr_diff", log_ndtr_diff, pairs, 700),
    ]


# --- modified Bessel functions ---


def log_bessel(nu, x):
    """log I_ν: a power series for moderate x, Hankel's asymptotic series for x far above ν²."""
    if x > 100 * nu * nu + 2000:
        term = total = mpf(1)
        for k in range(1, 400):
            term *= -(4 * nu * nu - (2 * k - 1) ** 2) / (8 * k * x)
            total += term
            if abs(term) < mpf(10) ** -(mp.dps + 5):
                break
        return x - mp.log(2 * mp.pi * x) / 2 + mp.log(total)
    quarter, term, total, k = x * x / 4, mpf(1), mpf(1), 0
    while term > total * mpf(10) ** -(mp.dps + 5) or k < x:
        k += 1
        term *= quarter / (k * (nu + k))
        total += term
    return (nu * mp.log(x / 2) if nu else 0) - mp.loggamma(nu + 1) + mp.log(total)


def bessel_slopes(nu, x):
    """log I_ν, the ratio r = I_ν₊₁/I_ν, and r', r'' from Riccati's equation."""
    value = log_bessel(nu, x)
    r = mp.exp(log_bessel(nu + 1, x) - value)
    r1 = 1 - r**2 - (2 * nu + 1) * r / x
    return value, r, r1, -2 * r * r1 - (2 * nu + 1) * (r1 / x - r / x**2)


def only_x(first, second):
    """Derivatives to ν are not provided; the tables hold those to x."""
    return [first], [second]


def log_iv(nu, x):
    value, r, r1, _ = bessel_slopes(nu, x)
    return value, *only_x(r + nu / x, r1 - nu / x**2)


def log_ive(nu, x):
    value, r, r1, _ = bessel_slopes(nu, x)
    return value - x, *only_x(r + nu / x - 1, r1 - nu / x**2)


def bessel_ratio(nu, x):
    _, r, r1, r2 = bessel_slopes(nu, x)
    return r, *only_x(r1, r2)


def bessel():
    rng = random.Random(5)
    orders = (0.0, 0.5, 1.0, 2.5, 10.0, 24.9, 25.0, 63.5, 1000.0, 10000.0)
    points = [(nu, x) for nu in orders for x in (1e-300, 1e-10, 0.01, 1.0, 7.9, 8.1, 30.0, 300.0, 3000.0, 1e15)]
    points += [(nu, 1e6) for nu in orders if nu < 100] + [(1e4, 2e4), (100.0, 5000.0), (1000.0, 20000.0)]
    points += [(rng.uniform(0, 40), log_uniform(rng, 0.1, 1e3)) for _ in range(20)]
    points += [(float32(rng.uniform(0, 9)), float32(rng.uniform(0.1, 50))) for _ in range(6)]
    # Where the derivatives of the ratio cancel most: between its expansions.
    points += [(0.0, 27.5), (0.0, 39.5), (0.0755, 19.07), (3.0, 44.0), (8.0, 59.5), (29.0, 440.0), (300.0, 1190.0)]
    tables = []
    for function in (log_iv, log_ive, bessel_ratio):
        # Riccati's equation cancels 1/x² against it: tiny arguments need the digits.
        name, rows = table(function.__name__, function, [p for p in points if p[1] < 1e-3], 1400)
        tables.append((name, rows + table(name, function, [p for p in points if p[1] >= 1e-3], 120)[1]))
    return tables


def main():
    save("exp_log", exp_log() + log_difference())
    save("gamma", gamma())
    save("normal", normal())
    save("bessel", bessel())


if __name__ == "__main__":
    main()
