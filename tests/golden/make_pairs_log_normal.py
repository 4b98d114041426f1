"""KL(LogNormal ‖ LogNormal) in mpmath: that of the Normals."""

from tests.golden.make_pairs_normal import normal_normal
from tests.golden.pairs import near, rounded, write


def main():
    hard = [(0.0, 0.5, 1.0, 2.0), (-3.5, 0.25, 2.25, 7.0), (0.0, 1e-25, 0.0, 1.0), (700.0, 1e-3, 700.0, 2e-3)]
    cases = [(rounded({"loc": m, "scale": s}), rounded({"loc": n, "scale": t})) for m, s, n, t in hard]
    write("LogNormal", "LogNormal", normal_normal, cases + near({"loc": 0.75, "scale": 0.3}))
