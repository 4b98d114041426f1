"""Make distribution_sisters.json: the divergences beside KL of univariate laws, from their definitions.

    python -m tests.golden.make_distribution_sisters

Densities are those of `univariate_laws`, evaluated with 50 digits at the stored floats. Every divergence is an integral
of a function of p(x) and q(x) over the union of the supports, by Gauss–Legendre on panels that double away from every
end, place and kink of either law, and from where the densities cross; laws of counts are summed. What diverges is said
so here.
"""

import itertools
import json
from pathlib import Path

import mpmath as mp

from tests.golden.univariate_laws import _rule, make

DIGITS = 50
ORDER = 20
INF = "inf"


def js(p, q):
    m = (p + q) / 2
    return (_x_log(p, m) + _x_log(q, m)) / 2


def skew_kl(share):
    return lambda p, q: _x_log(p, share * p + (1 - share) * q)


def scaled_js(beta):
    def integrand(p, q):
        m = beta * p + (1 - beta) * q
        return (beta * _x_log(p, m) + (1 - beta) * _x_log(q, m)) / (beta * (1 - beta))

    return integrand


def power(alpha):
    """What p^α q^(1−α) differs from αp + (1−α)q by."""
    return lambda p, q: (p**alpha * q ** (1 - alpha) if p and q else mp.mpf(0)) - alpha * p - (1 - alpha) * q


def _x_log(x, y):
    return x * mp.log(x / y) if x else mp.mpf(0)


INTEGRANDS = {
    "js": js,
    "skew_kl 0.1": skew_kl(mp.mpf(0.1)),
    "scaled_js 0.3": scaled_js(mp.mpf(0.3)),
    "total_variation": lambda p, q: abs(p - q) / 2,
    "power 0.3": power(mp.mpf(0.3)),
    "power 0.5": power(mp.mpf(0.5)),
    "power 2": power(mp.mpf(2)),
    "power 1.5": power(mp.mpf(1.5)),
}


def finished(sums):
    """Divergences from the integrals."""
    found = {name: sums[name] for name in ("js", "skew_kl 0.1", "scaled_js 0.3", "total_variation")}
    found["hellinger"] = mp.sqrt(-sums["power 0.5"])
    for alpha in ("0.3", "0.5", "1.5", "2"):
        value = sums[f"power {alpha}"]
        found[f"renyi {alpha}"] = INF if value == INF else mp.log1p(value) / (mp.mpf(float(alpha)) - 1)
    found["chi2"] = sums["power 2"]
    return found


def by_integral(p, q, infinite=()):
    wanted = {name: f for name, f in INTEGRANDS.items() if name not in infinite}
    sums = dict.fromkeys(wanted, mp.mpf(0))
    for low, high in _panels(p, q):
        half, middle = (high - low) / 2, (low + high) / 2
        for node, weight in _rule(ORDER):
            x = middle + half * node
            at = _pdf(p, x), _pdf(q, x)
            for name, f in wanted.items():
                sums[name] += half * weight * f(*at)
    return finished({**sums, **dict.fromkeys(infinite, INF)})


def _pdf(law, x):
    return mp.exp(law.log_pdf(x)) if law.lower < x < law.upper else mp.mpf(0)


def _panels(p, q):
    ends = [e for law in (p, q) for e in (law.lower, law.upper) if mp.isfinite(e)]
    lowest, highest = min(p.lower, q.lower), max(p.upper, q.upper)
    marks = [(place, width) for law in (p, q) for place, width in law.places]
    marks += [(k, w) for law in (p, q) for k in law.kinks for _, w in law.places]
    least = min(w for _, w in marks)
    points = set(ends) | {k for law in (p, q) for k in law.kinks}
    for place, width in marks:
        points |= {place + s * width * mp.mpf(2) ** k for s in (-1, 1) for k in range(-1, 150)} | {place}
    for end in ends:
        points |= {end + s * least * mp.mpf(2) ** k for s in (-1, 1) for k in range(-180, 20)}
    ordered = sorted(x for x in points if lowest <= x <= highest)
    kept = []
    for low, high in itertools.pairwise(ordered):
        if high - low > mp.mpf(10) ** -45 * max(abs(low), abs(high)) and _matters(p, q, low, high):
            kept += _split_at_crossings(p, q, low, high)
    return kept


def _matters(p, q, low, high):
    inside = (low + high) / 2, low + (high - low) / 1000, high - (high - low) / 1000
    sizes = [(_pdf(p, x), _pdf(q, x)) for x in inside]
    largest = max(max(a, b, a * a / b if a and b else mp.mpf(0)) for a, b in sizes)
    return largest * (high - low) > mp.mpf(10) ** -34


def _split_at_crossings(p, q, low, high):
    def gap(x):
        return _pdf(p, x) - _pdf(q, x)

    inset = (high - low) * mp.mpf(10) ** -30
    xs = [low + inset, *(low + (high - low) * mp.mpf(k) / 12 for k in range(1, 12)), high - inset]
    signs = [mp.sign(gap(x)) for x in xs]
    cuts = [low]
    for a, b, s, t in zip(xs, xs[1:], signs, signs[1:], strict=False):
        if s * t < 0:
            cuts.append(_bisected(gap, a, b, s))
    return list(zip(cuts, [*cuts[1:], high], strict=True))


def _bisected(gap, low, high, sign):
    for _ in range(100):
        middle = (low + high) / 2
        low, high = (middle, high) if mp.sign(gap(middle)) == sign else (low, middle)
    return low


COUNTS = {
    "Poisson": lambda rate: lambda k: mp.exp(-rate + k * mp.log(rate) - mp.loggamma(k + 1)),
    "Geometric": lambda probs: lambda k: probs * (1 - probs) ** k,
    "Bernoulli": lambda probs: lambda k: (1 - probs, probs)[k] if k < 2 else mp.mpf(0),
    "Binomial": lambda total_count, probs: (
        lambda k: (
            mp.binomial(total_count, k) * probs**k * (1 - probs) ** (total_count - k) if k <= total_count else mp.mpf(0)
        )
    ),
    "NegativeBinomial": lambda total_count, probs: (
        lambda k: mp.binomial(total_count + k - 1, k) * probs**k * (1 - probs) ** total_count
    ),
}


def by_sum(p, q, infinite=()):
    wanted = {name: f for name, f in INTEGRANDS.items() if name not in infinite}
    sums, total = dict.fromkeys(wanted, mp.mpf(0)), mp.mpf(0)
    for k in range(100_000):
        at = p(k), q(k)
        for name, f in wanted.items():
            sums[name] += f(*at)
        total += sum(at)
        if 2 - total < mp.mpf(10) ** -30 and max(at) < mp.mpf(10) ** -40:
            break
    return finished({**sums, **dict.fromkeys(infinite, INF)})


HEAVY = ("power 1.5", "power 2")
# p, its parameters, q, its parameters, and which powers diverge.
CONTINUOUS = [
    ("Normal", {"loc": 0.0, "scale": 1.0}, "Normal", {"loc": 0.7, "scale": 1.3}, ()),
    ("Normal", {"loc": 0.0, "scale": 1.0}, "Normal", {"loc": 9.0, "scale": 2.5}, ()),
    ("Normal", {"loc": 0.0, "scale": 2.0}, "Normal", {"loc": 0.5, "scale": 1.0}, HEAVY),
    ("Normal", {"loc": 3.0, "scale": 1e-4}, "Normal", {"loc": 3.5, "scale": 2.0}, ()),
    ("Normal", {"loc": 0.0, "scale": 1.0}, "Laplace", {"loc": 0.3, "scale": 0.8}, ()),
    ("Laplace", {"loc": 0.0, "scale": 1.0}, "Normal", {"loc": 0.3, "scale": 0.8}, HEAVY),
    ("Laplace", {"loc": 0.0, "scale": 1.0}, "Laplace", {"loc": 0.5, "scale": 1.5}, ()),
    ("Normal", {"loc": 0.0, "scale": 1.0}, "Cauchy", {"loc": 0.5, "scale": 0.7}, ()),
    ("Cauchy", {"loc": 0.0, "scale": 1.0}, "StudentT", {"df": 1.5, "loc": 0.3, "scale": 1.0}, ()),
    ("StudentT", {"df": 5.0, "loc": 0.0, "scale": 1.0}, "Normal", {"loc": 0.0, "scale": 1.2}, HEAVY),
    ("Gumbel", {"loc": 0.0, "scale": 1.0}, "Normal", {"loc": 0.5, "scale": 1.5}, HEAVY),
    ("Gamma", {"concentration": 2.0, "rate": 3.0}, "Gamma", {"concentration": 3.0, "rate": 2.5}, ()),
    ("Gamma", {"concentration": 2.5, "rate": 1.5}, "Exponential", {"rate": 0.7}, ()),
    ("Gamma", {"concentration": 2.0, "rate": 3.0}, "LogNormal", {"loc": -0.5, "scale": 0.7}, HEAVY),
    ("Gamma", {"concentration": 0.6, "rate": 1.0}, "Normal", {"loc": 0.0, "scale": 2.0}, HEAVY),
    ("Weibull", {"scale": 1.0, "concentration": 1.7}, "Gamma", {"concentration": 1.5, "rate": 1.2}, ()),
    ("Exponential", {"rate": 1.0}, "HalfNormal", {"scale": 1.5}, HEAVY),
    ("HalfNormal", {"scale": 1.0}, "HalfCauchy", {"scale": 0.8}, ()),
    ("Pareto", {"scale": 1.0, "alpha": 2.5}, "Exponential", {"rate": 0.5}, HEAVY),
    ("Beta", {"concentration1": 2.0, "concentration0": 3.0}, "Uniform", {"low": 0.0, "high": 1.0}, ()),
    ("Beta", {"concentration1": 0.5, "concentration0": 0.8}, "Beta", {"concentration1": 0.7, "concentration0": 0.5}, ()),  # noqa: E501
    ("Uniform", {"low": 0.0, "high": 1.0}, "Uniform", {"low": 0.25, "high": 1.5}, HEAVY),
    ("Uniform", {"low": -1.0, "high": 2.0}, "Normal", {"loc": 0.0, "scale": 1.0}, ()),
    ("Normal", {"loc": 0.5, "scale": 1.0}, "Uniform", {"low": -1.0, "high": 2.0}, HEAVY),
    ("Kumaraswamy", {"concentration1": 2.0, "concentration0": 3.0}, "Beta", {"concentration1": 2.5, "concentration0": 2.0}, ()),  # noqa: E501
    ("VonMises", {"loc": 0.3, "concentration": 2.0}, "VonMises", {"loc": -0.5, "concentration": 0.7}, ()),
    ("InverseGamma", {"concentration": 3.0, "rate": 2.0}, "Gamma", {"concentration": 2.0, "rate": 2.0}, HEAVY),
]  # fmt: skip
NEAR = {
    "Normal": {"loc": 0.4, "scale": 1.7},
    "Gamma": {"concentration": 2.3, "rate": 3.1},
    "StudentT": {"df": 3.2, "loc": 0.3, "scale": 0.9},
    "Beta": {"concentration1": 2.2, "concentration0": 0.9},
    "Weibull": {"scale": 1.4, "concentration": 1.8},
    "Gumbel": {"loc": 0.4, "scale": 1.7},
}
# The double exponential tail of the moved law is the lighter one.
LIGHTER = ("Gumbel",)
DISCRETE = [
    ("Poisson", {"rate": 2.0}, "Poisson", {"rate": 3.5}, ()),
    ("Poisson", {"rate": 40.0}, "Poisson", {"rate": 41.0}, ()),
    ("Bernoulli", {"probs": 0.3}, "Bernoulli", {"probs": 0.6}, ()),
    ("Geometric", {"probs": 0.4}, "Geometric", {"probs": 0.3}, ()),
    ("Binomial", {"total_count": 7, "probs": 0.3}, "Binomial", {"total_count": 7, "probs": 0.45}, ()),
    ("Binomial", {"total_count": 5, "probs": 0.3}, "Binomial", {"total_count": 9, "probs": 0.45}, ()),
    ("Binomial", {"total_count": 9, "probs": 0.3}, "Poisson", {"rate": 2.5}, ()),
    ("Poisson", {"rate": 2.5}, "Binomial", {"total_count": 9, "probs": 0.3}, HEAVY),
    ("NegativeBinomial", {"total_count": 3.0, "probs": 0.4}, "NegativeBinomial", {"total_count": 4.5, "probs": 0.5}, ()),  # noqa: E501
    ("NegativeBinomial", {"total_count": 3.0, "probs": 0.4}, "Poisson", {"rate": 2.5}, HEAVY),
    ("Geometric", {"probs": 0.5}, "Poisson", {"rate": 1.5}, HEAVY),
]  # fmt: skip
NEAR_COUNTS = {"Poisson": {"rate": 3.3}, "Geometric": {"probs": 0.35}, "Bernoulli": {"probs": 0.3}}
STEPS = (1, 3, 6, 9)


def _moved(parameters, exponent):
    return {k: v * (1 + (-1) ** i * 10.0**-exponent) for i, (k, v) in enumerate(parameters.items())}


def _exact(parameters):
    return {k: mp.mpf(v) if isinstance(v, float) else v for k, v in parameters.items()}


def main():
    rows = []
    with mp.workdps(DIGITS):
        near = [(n, a, n, _moved(a, k), HEAVY if n in LIGHTER else ()) for n, a in NEAR.items() for k in STEPS]
        for name_p, p, name_q, q, infinite in [*CONTINUOUS, *near]:
            truth = by_integral(make(name_p, p), make(name_q, q), infinite)
            rows.append(_row(name_p, p, name_q, q, truth))
        near = [(n, a, n, _moved(a, k), ()) for n, a in NEAR_COUNTS.items() for k in STEPS]
        for name_p, p, name_q, q, infinite in [*DISCRETE, *near]:
            laws = COUNTS[name_p](**_exact(p)), COUNTS[name_q](**_exact(q))
            rows.append(_row(name_p, p, name_q, q, by_sum(*laws, infinite)))
    text = ",\n".join(json.dumps(row) for row in rows)
    Path(__file__).with_name("distribution_sisters.json").write_text(f"[\n{text}\n]\n", encoding="utf-8")


def _row(name_p, p, name_q, q, truth):
    shown = {k: v if v == INF else mp.nstr(v, 20) for k, v in truth.items()}
    return {"p": [name_p, p], "q": [name_q, q], "truth": shown}


if __name__ == "__main__":
    main()
