"""Make distribution_divergences*.json: the divergences beside KL of univariate laws, from their definitions.

    python -m tests.golden.make_distribution_divergences [values pairs mixtures gradients random]

Densities are those of `univariate_laws`, evaluated with 50 digits at the stored floats. Every divergence is an integral
of a function of p(x) and q(x) over the union of the supports, by Gauss–Legendre on panels that double away from every
end, place and kink of either law, and from where the densities cross; laws of counts are summed. What diverges is said
so here, or found by following the integrand towards the ends of p's support; what falls too slowly there is left out.
Gradients are central differences.
"""

import itertools
import json
import sys
from pathlib import Path

import mpmath as mp

from tests.golden import divergence_cases as cases
from tests.golden.univariate_laws import _rule, make, mixture

DIGITS = 50
ORDER = 20
INF = "inf"


def js(p, q):
    m = (p + q) / 2
    return (_x_log(p, m) + _x_log(q, m)) / 2


def skew_kl(share):
    """With what makes it second order, whose integral is 0: the circle of torch is not a whole one."""

    def integrand(p, q):
        m = share * p + (1 - share) * q
        return _x_log(p, m) - p + m

    return integrand


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
    "power 0.99999": power(mp.mpf(0.99999)),
    "kl": lambda p, q: _x_log(p, q) - p + q,
    "kl back": lambda p, q: _x_log(q, p) - q + p,
    "entropy": lambda p, q: -p * mp.log(p) if p else mp.mpf(0),
}


def finished(sums):
    """Divergences from the integrals."""
    found = {name: sums[name] for name in ("js", "skew_kl 0.1", "scaled_js 0.3", "total_variation")}
    found["hellinger"] = mp.sqrt(-sums["power 0.5"])
    for alpha in ("0.3", "0.5", "0.99999", "1.5", "2"):
        value = sums[f"power {alpha}"]
        found[f"renyi {alpha}"] = INF if value == INF else mp.log1p(value) / (mp.mpf(float(alpha)) - 1)
    found["chi2"] = sums["power 2"]
    found["entropy"] = sums["entropy"]
    there, back = sums["kl"], sums["kl back"]
    found["cross_entropy"] = INF if there == INF else sums["entropy"] + there
    found["jeffreys"] = INF if INF in (there, back) else there + back
    return found


# What each integrand is for.
USES = {
    "kl": ("cross_entropy", "jeffreys"),
    "kl back": ("jeffreys",),
    "power 1.5": ("renyi 1.5",),
    "power 2": ("renyi 2", "chi2"),
}
# Slower than this power of the distance an integrand may not fall: the axis of x does not reach far enough.
SLOWEST = 0.25


def ends_of(p, q):
    """The integrands that have no integral, since p is where q is not or an end takes too much, and those too slow."""
    infinite, slow = set(), set()
    for name, first, second in (("kl", p, q), ("power 1.5", p, q), ("power 2", p, q), ("kl back", q, p)):
        if first.lower < second.lower or first.upper > second.upper:
            infinite.add(name)
            continue
        alpha = {"power 1.5": mp.mpf(1.5), "power 2": mp.mpf(2)}.get(name)
        falls = min(_fall(first, second, alpha, sign) for sign in (-1, 1))
        if falls < SLOWEST:
            (infinite if falls <= 0 else slow).add(name)
    return infinite, slow


def _fall(p, q, alpha, sign):
    """The power of the distance with which the integrand of its logarithm falls towards an end of p."""
    end = p.lower if sign < 0 else p.upper
    with mp.workprec(2000):
        if mp.isfinite(end):
            xs = [end - sign * mp.mpf(2) ** -k for k in (400, 800)]
        else:
            start, width = p.places[0]
            # Beyond this the logarithm of a double exponential is cut off.
            steps = (8, 12) if any(_double_exponential(each) for each in (p, q)) else (300, 600)
            xs = [start + sign * max(width, q.places[0][1]) * mp.mpf(2) ** k for k in steps]
        logs = [mp.log(abs(x - end if mp.isfinite(end) else x)) for x in xs]
        near, far = (_log_height(p, q, alpha, x) + log for x, log in zip(xs, logs, strict=True))
        return (near - far) / abs(logs[1] - logs[0])


def _double_exponential(one):
    return one.lower == -mp.inf and one.log_pdf(mp.mpf(-(2**40))) < -(mp.mpf(10) ** 3000)


def _log_height(p, q, alpha, x):
    log_p, log_q = p.log_pdf(x), q.log_pdf(x)
    return log_p + mp.log(1 + abs(log_q)) if alpha is None else alpha * log_p + (1 - alpha) * log_q


def by_integral(p, q, infinite=()):
    found, slow = ends_of(p, q)
    infinite = set(infinite) | found
    wanted = {name: f for name, f in INTEGRANDS.items() if name not in infinite}
    sums = dict.fromkeys(wanted, mp.mpf(0))
    for low, high in _panels(p, q):
        half, middle = (high - low) / 2, (low + high) / 2
        for node, weight in _rule(ORDER):
            x = middle + half * node
            at = _pdf(p, x), _pdf(q, x)
            for name, f in wanted.items():
                sums[name] += half * weight * f(*at)
    truth = finished({**sums, **dict.fromkeys(infinite, INF)})
    unknown = {use for name in slow for use in USES[name]}
    return {name: value for name, value in truth.items() if name not in unknown}


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
    xs = [low + inset, *(low + (high - low) * mp.mpf(k) / 6 for k in range(1, 6)), high - inset]
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
            if sums[name] != INF:
                lacking = (name == "kl" and not at[1]) or (name == "kl back" and not at[0])
                sums[name] = INF if lacking and any(at) else sums[name] + f(*at)
        total += sum(at)
        if 2 - total < mp.mpf(10) ** -30 and max(at) < mp.mpf(10) ** -40:
            break
    return finished({**sums, **dict.fromkeys(infinite, INF)})


def _exact(parameters):
    return {k: mp.mpf(v) if isinstance(v, float) else v for k, v in parameters.items()}


def law(name, parameters):
    """A family by its name, or a mixture of one: parameters are lists then, one number a component."""
    if name != "Mixture":
        return make(name, parameters)
    inner = [{k: v[i] for k, v in parameters["parts"].items()} for i in range(len(parameters["weights"]))]
    return mixture(parameters["weights"], [make(parameters["of"], each) for each in inner])


def values():
    rows = []
    near = [
        (n, a, n, cases.moved(a, k), cases.HEAVY if n in cases.LIGHTER else ())
        for n, a in cases.NEAR.items()
        for k in cases.STEPS
    ]
    for name_p, p, name_q, q, infinite in [*cases.CONTINUOUS, *near]:
        rows.append(_row(name_p, p, name_q, q, by_integral(make(name_p, p), make(name_q, q), infinite)))
    near = [(n, a, n, cases.moved(a, k), ()) for n, a in cases.NEAR_COUNTS.items() for k in cases.STEPS]
    for name_p, p, name_q, q, infinite in [*cases.DISCRETE, *near]:
        laws = COUNTS[name_p](**_exact(p)), COUNTS[name_q](**_exact(q))
        rows.append(_row(name_p, p, name_q, q, by_sum(*laws, infinite)))
    _write("distribution_divergences", rows)


def pairs():
    _rows("distribution_divergences_pairs", [*cases.NEAR_SINGLE, *cases.rotated(), *cases.HARD])


def mixtures():
    _rows("distribution_divergences_mixtures", cases.mixtures())


def random_pairs():
    """Of divergences that are next to infinite, 1 − ∫ p^α q^(1−α) has no digits left: they are left out."""
    rows = []
    for name_p, p, name_q, q in cases.drawn(120):
        found = by_integral(law(name_p, p), law(name_q, q))
        known = {k: v for k, v in found.items() if v == INF or not (k.startswith("renyi") and _is_large(v))}
        known.pop("jeffreys", None)
        rows.append(_row(name_p, p, name_q, q, known))
    _write("distribution_divergences_random", rows)


def _is_large(value):
    return mp.im(value) != 0 or value > 25


def _rows(name, chosen):
    rows = [_row(name_p, p, name_q, q, by_integral(law(name_p, p), law(name_q, q))) for name_p, p, name_q, q in chosen]
    _write(name, rows)


def gradients():
    """Derivatives to every parameter, by central differences whose error is of the order 1e-24."""
    rows, step = [], mp.mpf(10) ** -12
    for name_p, p, name_q, q in cases.GRADIENTS:
        found = {}
        for side, own in enumerate((p, q)):
            for name, value in own.items():
                ends = []
                for sign in (1, -1):
                    moved = [dict(p), dict(q)]
                    moved[side][name] = mp.mpf(value) + sign * step
                    ends.append(by_integral(make(name_p, moved[0]), make(name_q, moved[1])))
                up, down = ends
                found[f"{'pq'[side]}.{name}"] = {k: 0 if up[k] == INF else (up[k] - down[k]) / (2 * step) for k in up}
        names = next(iter(found.values()))
        truth = {k: {at: mp.nstr(each[k], 15) for at, each in found.items()} for k in names}
        rows.append({"p": [name_p, p], "q": [name_q, q], "gradient": truth})
        _write("distribution_divergences_gradients", rows)


def _write(name, rows):
    text = ",\n".join(json.dumps(row) for row in rows)
    Path(__file__).with_name(f"{name}.json").write_text(f"[\n{text}\n]\n", encoding="utf-8")


def _row(name_p, p, name_q, q, truth):
    shown = {k: v if v == INF else mp.nstr(v, 18) for k, v in truth.items()}
    return {"p": [name_p, p], "q": [name_q, q], "truth": shown}


if __name__ == "__main__":
    with mp.workdps(DIGITS):
        makers = {
            "values": values,
            "pairs": pairs,
            "mixtures": mixtures,
            "gradients": gradients,
            "random": random_pairs,
        }
        for table in sys.argv[1:] or makers:
            makers[table]()
