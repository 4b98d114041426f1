"""KL(Poisson ‖ ·) in mpmath."""

from mpmath import inf, log, log1p

from tests.golden.pairs import near, rounded, write


def poisson_poisson(p, q):
    return p["rate"] * log(p["rate"] / q["rate"]) - p["rate"] + q["rate"]


def poisson_binomial(p, q):
    """Only a Poisson that is always 0 stays within the trials."""
    trials = q.get("total_count", 1)
    if p["rate"] or q["probs"] == 1:
        return inf if p["rate"] or trials else log(1)
    return -trials * log1p(-q["probs"])


def main():
    hard = [(2.0, 3.5), (1e6, 1.0001e6), (1e-30, 1e30), (1e30, 1e-30), (1e30, 2e30), (1e-30, 3e-30), (1e-3, 7.0)]
    cases = [(rounded({"rate": a}), rounded({"rate": b})) for a, b in hard]
    cases += near({"rate": 1.3}) + near({"rate": 1e6}) + near({"rate": 1e-20})
    write("Poisson", "Poisson", poisson_poisson, cases)
    chances = [0.25, 1e-30, 1 - 2.0**-24, 0.0, 1.0]
    cases = [(rounded({"rate": a}), rounded({"probs": b})) for a in (0.0, 1e-30, 2.0) for b in chances]
    write("Poisson", "Bernoulli", poisson_binomial, cases, gradients=[("q", "probs")])
    counted = [(p, {"total_count": n, **q}) for p, q in cases for n in (0, 7)]
    write("Poisson", "Binomial", poisson_binomial, counted, gradients=[("q", "probs")])
