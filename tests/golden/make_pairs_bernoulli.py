"""KL(Bernoulli ‖ ·) in mpmath."""

from mpmath import exp, inf, log

from tests.golden.pairs import near, rounded, write


def success(params):
    return params["probs"] if "probs" in params else 1 / (1 + exp(-params["logits"]))


def term(x, y):
    return x * log(x / y) if x and y else (inf if x else 0)


def bernoulli_bernoulli(p, q):
    a, b = success(p), success(q)
    return term(a, b) + term(1 - a, 1 - b)


def bernoulli_poisson(p, q):
    a = success(p)
    return term(a, q["rate"]) + term(1 - a, 1) + q["rate"]


def main():
    probs = [(0.3, 0.6), (0.01, 0.99), (0.5, 1e-30), (1e-30, 0.5), (1e-30, 2e-30), (0.75, 0.999), (1e-3, 0.9)]
    cases = [(rounded({"probs": a}), rounded({"probs": b})) for a, b in probs]
    cases += near({"probs": 0.3}) + near({"probs": 1e-4}) + near({"probs": 0.9995}, steps=range(4, 13))
    logits = [
        (1.0, -2.0),
        (40.0, -40.0),
        (200.0, -200.0),
        (800.0, -800.0),
        (-800.0, 800.0),
        (-800.0, -799.0),
        (790.0, 800.0),
    ]
    logits += [(0.0, 800.0), (0.5, -800.0), (30.0, 31.0), (-600.0, 90.0), (-20.0, 0.0)]
    cases += [(rounded({"logits": a}), rounded({"logits": b})) for a, b in logits]
    cases += near({"logits": 1.7}) + near({"logits": -30.0}, steps=[1, 3, 6, 9, 12])
    cases += near({"logits": 600.0}, steps=[1, 3, 6, 9, 12])
    mixed = [({"probs": 0.5}, {"logits": 20.0}), ({"probs": 0.5}, {"logits": 40.0}), ({"logits": 3.0}, {"probs": 0.1})]
    mixed += [
        ({"probs": 1e-10}, {"logits": -700.0}),
        ({"logits": -700.0}, {"probs": 1e-10}),
        ({"logits": 9.0}, {"probs": 0.75}),
    ]
    cases += [(rounded(p), rounded(q)) for p, q in mixed]
    write("Bernoulli", "Bernoulli", bernoulli_bernoulli, cases, digits=2000 // 2)
    cases = [
        ({"probs": a}, {"rate": b}) for a, b in [(0.3, 1.5), (0.99, 0.01), (1e-30, 2e-30), (1e-8, 1e-8), (1e-4, 1e4)]
    ]
    cases += [
        ({"logits": a}, {"rate": b}) for a, b in [(0.3, 1.5), (40.0, 0.5), (-800.0, 2.0), (800.0, 1e-3), (-20.0, 1e-9)]
    ]
    write("Bernoulli", "Poisson", bernoulli_poisson, [(rounded(p), rounded(q)) for p, q in cases], digits=1000)
