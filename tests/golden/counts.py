"""Probabilities of counts in mpmath, from their textbook definitions; `make_pairs` and `make_divergences` call it."""

from __future__ import annotations

from typing import Any

import mpmath as mp

Parameters = dict[str, Any]
FAMILIES = ("Bernoulli", "Binomial", "Categorical", "Geometric", "NegativeBinomial", "Poisson")
# A sum ends where its terms are below this fraction of the largest, and has no more terms than this.
_SMALLEST_TERM, _MAX_TERMS = mp.mpf("1e-40"), 40_000


def _success(given: Parameters) -> tuple[Any, Any]:
    """The probabilities of success and failure."""
    if "logits" in given:
        return 1 / (1 + mp.exp(-given["logits"])), 1 / (1 + mp.exp(given["logits"]))
    return given["probs"], 1 - given["probs"]


def _weights(given: Parameters) -> list[Any]:
    return given["probs"] if "probs" in given else [mp.exp(v) for v in given["logits"]]


def largest(name: str, given: Parameters) -> Any:
    """The largest count that has a probability."""
    if name == "Poisson":
        return 0 if given["rate"] == 0 else mp.inf
    if name == "Categorical":
        return max(k for k, w in enumerate(_weights(given)) if w > 0)
    success, failure = _success(given)
    if name in ("Geometric", "NegativeBinomial"):
        return 0 if (failure if name == "Geometric" else success) == 0 else mp.inf
    return 0 if success == 0 else 1 if name == "Bernoulli" else int(given["total_count"])


def probability(name: str, given: Parameters, k: int) -> Any:
    if k > largest(name, given):
        return mp.mpf(0)
    if name == "Poisson":
        rate = given["rate"]
        return mp.exp(k * mp.log(rate) - rate - mp.loggamma(k + 1)) if rate else mp.mpf(k == 0)
    if name == "Categorical":
        return _weights(given)[k] / mp.fsum(_weights(given))
    success, failure = _success(given)
    if name == "Geometric":
        return success * failure**k
    if name == "NegativeBinomial":
        r = given["total_count"]
        return mp.exp(mp.loggamma(k + r) - mp.loggamma(k + 1) - mp.loggamma(r)) * success**k * failure**r
    n = 1 if name == "Bernoulli" else int(given["total_count"])
    return mp.binomial(n, k) * success**k * failure ** (n - k)


def _mean(name: str, given: Parameters) -> Any:
    if name == "Poisson":
        return given["rate"]
    if name == "Categorical":
        return 0
    success, failure = _success(given)
    odds = {"Geometric": failure / success if success else 0, "NegativeBinomial": success / failure if failure else 0}
    return odds.get(name, success) * given.get("total_count", 1)


def pairs_of_probabilities(p: str, params_p: Parameters, q: str, params_q: Parameters, powers: Any = ()) -> list[Any]:
    """(p(k), q(k)) of all counts that matter to p, to q or to p^α q^(1−α), from both means outwards."""
    found, tops = {}, {}
    for start in {int(_mean(p, params_p)), int(_mean(q, params_q))}:
        for step in (1, -1):
            k, small = start, False
            while not small and 0 <= k <= max(largest(p, params_p), largest(q, params_q)):
                if k not in found:
                    found[k] = probability(p, params_p, k), probability(q, params_q, k)
                x, y = found[k]
                terms = {"p": x, "q": y} | {a: x**a * y ** (1 - a) for a in powers if x and y}
                tops = {name: max(tops.get(name, 0), term) for name, term in terms.items()}
                small = all(term <= _SMALLEST_TERM * tops[name] for name, term in terms.items())
                k += step
                if len(found) > _MAX_TERMS:
                    raise ArithmeticError(f"too many terms: {p} {params_p}, {q} {params_q}")
    return list(found.values())


def _tail(name: str, given: Parameters) -> tuple[Any, Any]:
    """Rate and order of k^order·e^(−rate·k)."""
    if name == "Geometric":
        return -mp.log(_success(given)[1]), mp.mpf(0)
    if name == "NegativeBinomial":
        return -mp.log(_success(given)[0]), given["total_count"] - 1
    return mp.inf, given.get("rate")


def diverges(p: str, params_p: Parameters, q: str, params_q: Parameters, alpha: Any) -> bool:
    """Whether Σ p^α q^(1−α), α > 1, or KL, α = 1, is infinite by what q lacks, or by its tail."""
    end_p, end_q = largest(p, params_p), largest(q, params_q)
    counts = range(int(min(end_p, 40)) + 1)
    if end_p > end_q or any(probability(p, params_p, k) > 0 and probability(q, params_q, k) == 0 for k in counts):
        return True
    if end_p < mp.inf or alpha == 1:
        return False
    (rate_p, order_p), (rate_q, order_q) = _tail(p, params_p), _tail(q, params_q)
    if mp.inf in (rate_p, rate_q):
        return rate_p < rate_q
    rate, power = (alpha * x - (alpha - 1) * y for x, y in ((rate_p, rate_q), (order_p, order_q)))
    return rate < 0 or (rate == 0 and power >= -1)


def kl(p: str, params_p: Parameters, q: str, params_q: Parameters) -> Any:
    if diverges(p, params_p, q, params_q, 1):
        return mp.inf
    return mp.fsum(x * mp.log(x / y) - x + y if x else y for x, y in pairs_of_probabilities(p, params_p, q, params_q))
