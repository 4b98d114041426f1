"""KL(Geometric ‖ ·) in mpmath."""

from mpmath import log

from tests.golden.make_pairs_bernoulli import success
from tests.golden.pairs import near, rounded, write


def geometric_geometric(p, q):
    a, b = success(p), success(q)
    return log(a / b) + (1 - a) / a * log((1 - a) / (1 - b))


def main():
    probs = [(0.4, 0.1), (1e-6, 1.1e-6), (1e-30, 1e-29), (0.999, 1e-30), (1e-30, 0.999), (0.01, 0.99)]
    cases = [(rounded({"probs": a}), rounded({"probs": b})) for a, b in probs]
    cases += near({"probs": 0.3}) + near({"probs": 1e-6}) + near({"probs": 0.9995}, steps=range(4, 13))
    logits = [(0.5, -2.0), (20.0, 21.0), (-2.0, 40.0), (40.0, -2.0), (800.0, -800.0), (-800.0, 800.0), (-800.0, -799.0)]
    logits += [(790.0, 800.0), (-800.0, -810.0), (-800.0, -120.0), (-400.0, 3.0), (-705.0, -5.0), (798.25, 480.0)]
    cases += [(rounded({"logits": a}), rounded({"logits": b})) for a, b in logits]
    cases += near({"logits": 1.7}) + near({"logits": -30.0}, steps=[1, 3, 6, 9, 12])
    cases += near({"logits": -790.0}, steps=[1, 3, 6, 9, 12])
    cases += [(rounded({"probs": 0.5}), {"logits": 12.0}), ({"logits": -50.0}, rounded({"probs": 0.5}))]
    write("Geometric", "Geometric", geometric_geometric, cases, digits=1600)
