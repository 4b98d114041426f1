"""KL(Dirichlet ‖ LogisticNormal) in mpmath: entropy of the Dirichlet, and E log q with torch's stick-breaking map.

y_i = log(x_i/r_i) + log(K − i), r_i = 1 − x_1 − … − x_i, and log|dx/dy| = Σ log x_i + log r_i − log r_{i−1}, r_0 = 1.
"""

from mpmath import digamma, log, loggamma, pi, psi

from tests.golden.pairs import rounded, write


def dirichlet_logistic_normal(p, q):
    alpha, loc, scale = p["concentration"], q["loc"], q["scale"]
    total, count = sum(alpha), len(alpha)
    log_beta = sum(loggamma(a) for a in alpha) - loggamma(total)
    negative_entropy = -log_beta + sum((a - 1) * (digamma(a) - digamma(total)) for a in alpha)
    cross = 0
    for i in range(count - 1):
        left, before = sum(alpha[i + 1 :]), sum(alpha[i:])
        log_x, log_left = digamma(alpha[i]) - digamma(total), digamma(left) - digamma(total)
        log_before = digamma(before) - digamma(total)
        mean = log_x - log_left + log(count - 1 - i)
        square = psi(1, alpha[i]) + psi(1, left) + (mean - loc[i]) ** 2
        cross += log(2 * pi * scale[i] ** 2) / 2 + square / (2 * scale[i] ** 2) + log_x + log_left - log_before
    return negative_entropy + cross


def main():
    given = [
        ([2.0, 3.0, 1.5], [0.1, -0.4], [0.9, 1.3]),
        ([1.0, 1.0, 1.0], [0.0, 0.0], [1.0, 1.0]),
        ([0.01, 5.0, 0.3], [2.0, -7.0], [3.0, 0.2]),
        ([1e6, 1e6, 1e6], [0.0, 0.0], [1.3e-3, 1.5e-3]),
        ([3e4, 2e-3, 7.0], [1e3, -5.0], [1e5, 1e-2]),
        ([2.0, 3.0], [-0.4], [0.9]),
        ([0.5, 1.0, 2.0, 4.0, 8.0], [0.3, -0.2, 0.1, 0.0], [1.0, 0.7, 1.5, 2.0]),
    ]
    cases = [(rounded({"concentration": alpha}), rounded({"loc": loc, "scale": scale})) for alpha, loc, scale in given]
    write("Dirichlet", "LogisticNormal", dirichlet_logistic_normal, cases)
