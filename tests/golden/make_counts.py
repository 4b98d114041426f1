"""Make counts.json: KL and its sisters of laws of counts, and their gradients, from the definitions.

    python -m tests.golden.make_counts

Probabilities are the textbook ones with 50 digits at the stored floats, summed one by one until nothing is left of
either law, or of p^α q^(1−α). Gradients are central differences. What is infinite is said by support and tail.
"""

import json
from pathlib import Path

import mpmath as mp

mp.mp.dps = 50
INF = "inf"
ORDERS = (0.0, 1e-9, 0.3, 0.9999999, 1.0000001, 2.5, 40.0)
STEP = mp.mpf("1e-16")
# A geometric tail is summed to 1e-40 of its largest, and not farther than this.
LEAST, MOST = mp.mpf("1e-40"), 20000


def chances(given):
    if "logits" in given:
        return 1 / (1 + mp.exp(-given["logits"])), 1 / (1 + mp.exp(given["logits"]))
    return given["probs"], 1 - given["probs"]


def largest(name, given):
    """The largest count that has a probability."""
    if name == "Poisson":
        return 0 if given["rate"] == 0 else mp.inf
    if name == "Categorical":
        weights = given["probs"] if "probs" in given else [mp.exp(v) for v in given["logits"]]
        return max(k for k, w in enumerate(weights) if w > 0)
    success, failure = chances(given)
    if name == "Geometric":
        return 0 if failure == 0 else mp.inf
    if name == "NegativeBinomial":
        return 0 if success == 0 else mp.inf
    return 0 if success == 0 else 1 if name == "Bernoulli" else int(given["total_count"])


def probability(name, given, k):
    if k > largest(name, given):
        return mp.mpf(0)
    if name == "Poisson":
        return mp.exp(-given["rate"]) * given["rate"] ** k / mp.factorial(k)
    if name == "Categorical":
        weights = given["probs"] if "probs" in given else [mp.exp(v) for v in given["logits"]]
        return weights[k] / mp.fsum(weights)
    success, failure = chances(given)
    if name == "Geometric":
        return success * failure**k
    if name == "NegativeBinomial":
        r = given["total_count"]
        return mp.gammaprod([k + r], [k + 1, r]) * success**k * failure**r
    n = 1 if name == "Bernoulli" else int(given["total_count"])
    return mp.binomial(n, k) * success**k * failure ** (n - k)


def table(p, q, orders):
    """Both probabilities of all counts that matter to either law, or to a power of their ratio."""
    pairs, end = [], max(largest(*p), largest(*q))
    tops = {}
    for k in range(MOST):
        if k > end:
            return pairs
        x, y = probability(*p, k), probability(*q, k)
        pairs.append((x, y))
        parts = {"p": x, "q": y} | {a: x**a * y ** (1 - a) for a in orders if x and y}
        tops = {name: max(tops.get(name, 0), part) for name, part in parts.items()}
        if k > 60 and all(part <= LEAST * tops[name] for name, part in parts.items()):
            return pairs
    raise ArithmeticError(f"{p} {q}")


def tail(name, given):
    """Rate and order of k^order·e^(−rate·k)."""
    if name == "Geometric":
        return -mp.log(chances(given)[1]), mp.mpf(0)
    if name == "NegativeBinomial":
        return -mp.log(chances(given)[0]), given["total_count"] - 1
    return mp.inf, given.get("rate")


def diverges(p, q, order):
    """Whether Σ p^α q^(1−α), α > 1, is infinite by what q lacks, or by its tail."""
    end_p, end_q = largest(*p), largest(*q)
    if end_p > end_q or any(probability(*p, k) > 0 and probability(*q, k) == 0 for k in range(int(min(end_p, 40)) + 1)):
        return True
    if end_p < mp.inf or order == 1:
        return False
    (rate_p, order_p), (rate_q, order_q) = tail(*p), tail(*q)
    if mp.inf in (rate_p, rate_q):
        return rate_p < rate_q
    rate, power = (order * x - (order - 1) * y for x, y in ((rate_p, rate_q), (order_p, order_q)))
    return rate < 0 or (rate == 0 and power >= -1)


def sisters(p, q):
    outside = diverges(p, q, 1)
    orders = [mp.mpf(a) for a in (*ORDERS, 2.0) if a > 0 and not (a > 1 and diverges(p, q, mp.mpf(a)))]
    pairs = table(p, q, orders)
    found = {
        "kl": INF if outside else mp.fsum(_x_log(x, y) for x, y in pairs),
        "js": mp.fsum(_x_log(x, (x + y) / 2) + _x_log(y, (x + y) / 2) for x, y in pairs) / 2,
        "total_variation": mp.fsum(abs(x - y) for x, y in pairs) / 2,
        "hellinger": mp.sqrt(mp.fsum((mp.sqrt(x) - mp.sqrt(y)) ** 2 for x, y in pairs) / 2),
        "entropy": -mp.fsum(_x_log(x, 1) for x, _ in pairs),
        "cross_entropy": INF if outside else -mp.fsum(x * mp.log(y) for x, y in pairs if x),
        "chi2": INF if mp.mpf(2) not in orders else mp.fsum((x - y) ** 2 / y for x, y in pairs if y),
    }
    for order in ORDERS:
        if order == 0:
            value = -_log(mp.fsum(y for x, y in pairs if x), -mp.fsum(y for x, y in pairs if not x))
        elif order in orders:
            a = mp.mpf(order)
            powers = [x**a * y ** (1 - a) if x and y else mp.mpf(0) for x, y in pairs]
            less = mp.fsum(power - a * x - (1 - a) * y for power, (x, y) in zip(powers, pairs, strict=True))
            value = _log(mp.fsum(powers), less) / (a - 1)
        else:
            value = INF
        found[f"renyi {order}"] = INF if value == mp.inf else value
    return found


def _x_log(x, y):
    return x * mp.log(x / y) if x else mp.mpf(0)


def _log(total, less):
    """The logarithm of a sum that differs by so much from 1."""
    if not total:
        return -mp.inf
    return mp.log1p(less) if abs(less) < 0.5 else mp.log(total)


def stored(given):
    return {k: [mp.mpf(x) for x in v] if isinstance(v, list) else mp.mpf(v) for k, v in given.items()}


def gradient(p, q):
    """Derivatives of every divergence by every parameter that is a number, and by the first one of a list."""
    found: dict[str, dict[str, str]] = {}
    for side, (name, given) in (("p", p), ("q", q)):
        for parameter, value in given.items():
            if name == "Binomial" and parameter == "total_count":
                continue
            ends = []
            for sign in (1, -1):
                moved = {**given, parameter: _moved(value, sign * STEP)}
                ends.append(sisters((name, moved), q) if side == "p" else sisters(p, (name, moved)))
            for divergence, above in ends[0].items():
                if above == INF or divergence == "renyi 0.0":
                    continue
                slope = (above - ends[1][divergence]) / (2 * STEP)
                found.setdefault(divergence, {})[f"{side}.{parameter}"] = mp.nstr(slope, 18)
    return found


def _moved(value, step):
    return [value[0] + step, *value[1:]] if isinstance(value, list) else value + step


PLAIN = {
    "Bernoulli": {"probs": 0.3125},
    "Binomial": {"total_count": 7.0, "logits": -0.375},
    "Categorical": {"probs": [0.25, 0.125, 0.375, 0.1875, 0.0625]},
    "Geometric": {"logits": -0.8125},
    "NegativeBinomial": {"total_count": 2.6875, "probs": 0.4375},
    "Poisson": {"rate": 2.3125},
}
OTHER = {
    "Bernoulli": {"logits": 0.4375},
    "Binomial": {"total_count": 9.0, "probs": 0.4375},
    "Categorical": {"logits": [0.25, -1.125, 0.5, 0.0, -0.75]},
    "Geometric": {"probs": 0.1875},
    "NegativeBinomial": {"total_count": 5.3125, "logits": 0.1875},
    "Poisson": {"rate": 3.6875},
}
HARD = [
    # Products of log-odds beyond ±709 with counts are no product of numbers.
    ("Categorical", {"probs": [0.25, 0.5, 0.25]}, "Binomial", {"total_count": 5.0, "logits": -800.0}),
    ("Categorical", {"probs": [0.25, 0.5, 0.25]}, "Binomial", {"total_count": 5.0, "logits": 735.0}),
    ("Binomial", {"total_count": 3.0, "probs": 0.3125}, "NegativeBinomial", {"total_count": 5.0, "logits": -735.0}),
    ("Bernoulli", {"probs": 0.3125}, "NegativeBinomial", {"total_count": 0.5, "logits": -800.0}),
    # All of p at 0, q far beyond.
    ("Geometric", {"logits": 800.0}, "NegativeBinomial", {"total_count": 2.0**-20, "logits": 4.875}),
    # Next to all of q in one class.
    ("Poisson", {"rate": 0.0}, "Categorical", {"probs": [1 - 2.0**-40, 2.0**-40]}),
    ("Poisson", {"rate": 0.0}, "Categorical", {"logits": [0.0, -30.0]}),
    ("Categorical", {"probs": [1 - 2.0**-39, 2.0**-40, 2.0**-40]}, "Poisson", {"rate": 2.0**-20}),
    ("Bernoulli", {"probs": 0.0}, "Binomial", {"total_count": 1.0, "logits": -0.375}),
    # Next to nothing of q where p is.
    ("Bernoulli", {"probs": 0.6875}, "Binomial", {"total_count": 86.0, "logits": 2.5}),
    ("Bernoulli", {"probs": 2.0**-40}, "Poisson", {"rate": 2.0**-19}),
    ("Poisson", {"rate": 60.5}, "Poisson", {"rate": 75.25}),
    ("Poisson", {"rate": 3.25}, "Poisson", {"rate": 3.2501}),
    ("Geometric", {"probs": 0.3125}, "Geometric", {"probs": 0.3124999}),
    (
        "NegativeBinomial",
        {"total_count": 2.5, "probs": 0.5},
        "NegativeBinomial",
        {"total_count": 2.5000001, "probs": 0.5},
    ),
]

FOLLOWED = {
    ("Bernoulli", "Poisson"), ("Binomial", "NegativeBinomial"), ("Binomial", "Categorical"),
    ("Categorical", "Binomial"), ("Geometric", "NegativeBinomial"), ("NegativeBinomial", "Poisson"),
    ("Poisson", "Geometric"),
}  # fmt: skip


def main() -> None:
    cases = [(p, PLAIN[p], q, OTHER[q]) for p in PLAIN for q in OTHER] + HARD
    rows = []
    for p, given_p, q, given_q in cases:
        laws = (p, stored(given_p)), (q, stored(given_q))
        if laws[0][0] == laws[1][0] == "Categorical" and len(given_p["probs"]) != len(given_q["logits"]):
            continue
        truth = {k: INF if v == INF else mp.nstr(v, 20) for k, v in sisters(*laws).items()}
        row = {"p": [p, given_p], "q": [q, given_q], "truth": truth}
        if (p, q) in FOLLOWED:
            row["gradient"] = gradient(*laws)
        rows.append(row)
    lines = ",\n".join(json.dumps(row) for row in rows)
    Path(__file__).with_name("counts.json").write_text(f"[\n{lines}\n]\n", encoding="utf-8")


if __name__ == "__main__":
    main()
