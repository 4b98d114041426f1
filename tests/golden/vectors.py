"""KL(p ‖ q) of distributions of vectors and matrices in mpmath, from textbook formulas; `make_pairs` calls it."""

from __future__ import annotations

from typing import Any

from mpmath import det, digamma, euler, exp, fsum, inf, inverse, log, loggamma, matrix, mpf, pi, psi

Parameters = dict[str, Any]


def kl_gaussian(p: Parameters, q: Parameters) -> Any:
    sigma, inverse_q = covariance(p), inverse(covariance(q))
    ratio, shift = inverse_q * sigma, matrix(p["loc"]) - matrix(q["loc"])
    trace = fsum(ratio[i, i] for i in range(ratio.rows))
    return (trace - ratio.rows - log(det(ratio)) + (shift.T * inverse_q * shift)[0]) / 2


def covariance(d: Parameters) -> Any:
    if "cov_factor" in d:
        u = matrix(d["cov_factor"])
        return u * u.T + matrix([[v if i == j else 0 for j in range(u.rows)] for i, v in enumerate(d["cov_diag"])])
    if "scale_tril" in d:
        rows = enumerate(d["scale_tril"])
        lower = matrix([[v if j <= i else 0 for j, v in enumerate(row)] for i, row in rows])
        return lower * lower.T
    return matrix(d["covariance_matrix"]) if "covariance_matrix" in d else inverse(matrix(d["precision_matrix"]))


def kl_wishart(p: Parameters, q: Parameters) -> Any:
    n, m, ratio = p["df"], q["df"], inverse(covariance(q)) * covariance(p)
    trace, halves = fsum(ratio[i, i] for i in range(ratio.rows)), [mpf(j) / 2 for j in range(ratio.rows)]
    gamma = fsum(loggamma(m / 2 - j) - loggamma(n / 2 - j) + (n - m) / 2 * digamma(n / 2 - j) for j in halves)
    return (n * (trace - ratio.rows) - m * log(det(ratio))) / 2 + gamma


def kl_lkj(p: Parameters, q: Parameters) -> Any:
    d, eta, other = int(p["dim"]), p["concentration"], q["concentration"]
    shifts = [mpf(d - 2 - j) / 2 for j in range(d - 1)]

    def normaliser(x: Any, gamma: Any) -> Any:
        return fsum(gamma(x + s) for s in shifts) - (d - 1) * gamma(x + mpf(d - 1) / 2)

    return normaliser(other, loggamma) - normaliser(eta, loggamma) - (other - eta) * normaliser(eta, digamma)


def kl_dirichlet(p: Parameters, q: Parameters) -> Any:
    a, b = p["concentration"], q["concentration"]

    def bregman(x: Any, y: Any) -> Any:
        return loggamma(y) - loggamma(x) - (y - x) * digamma(x)

    return fsum(map(bregman, a, b)) - bregman(fsum(a), fsum(b))


def kl_dirichlet_logistic_normal(p: Parameters, q: Parameters) -> Any:
    """Entropy of the Dirichlet, and E log q with torch's stick-breaking map.

    y_i = log(x_i/r_i) + log(K − i), r_i = 1 − x_1 − … − x_i, r_0 = 1;
    log|dx/dy| = Σ log x_i + log r_i − log r_{i−1}.
    """
    alpha, loc, scale = p["concentration"], q["loc"], q["scale"]
    total, count = fsum(alpha), len(alpha)
    value = loggamma(total) + fsum((a - 1) * (digamma(a) - digamma(total)) - loggamma(a) for a in alpha)
    for i in range(count - 1):
        left = fsum(alpha[i + 1 :])
        log_x, log_left, log_before = (digamma(x) - digamma(total) for x in (alpha[i], left, alpha[i] + left))
        mean = log_x - log_left + log(count - 1 - i)
        square = psi(1, alpha[i]) + psi(1, left) + (mean - loc[i]) ** 2
        value += log(2 * pi * scale[i] ** 2) / 2 + square / (2 * scale[i] ** 2) + log_x + log_left - log_before
    return value


def kl_categorical(p: Parameters, q: Parameters) -> Any:
    """Probabilities and logits are normalised here; a Multinomial is as many draws."""
    pairs = list(zip(_probabilities(p), _probabilities(q), strict=True))
    if any(x and not y for x, y in pairs):
        return inf
    return p.get("total_count", 1) * fsum(x * log(x / y) for x, y in pairs if x)


def _probabilities(params: Parameters) -> list[Any]:
    given = params["probs"] if "probs" in params else [exp(x) for x in params["logits"]]
    total = fsum(given)
    return [x / total for x in given]


def kl_relaxed_one_hot_categorical(p: Parameters, q: Parameters) -> Any:
    """Partial fractions of the expected logarithm, for equal temperatures."""
    u = [log(y / x) for x, y in zip(_probabilities(p), _probabilities(q), strict=True)]
    r, count = [exp(x) for x in u], len(u)
    if len(set(u)) < count:  # equal ratios are the limit of distinct ones
        r = [x * (1 + mpf(10) ** -60 * i) for i, x in enumerate(r)]
    total = mpf(0)
    for i, x in enumerate(r):
        weight = mpf(1)
        for j, y in enumerate(r):
            weight *= x / (x - y) if i != j else 1
        total += weight * (log(x) - euler)
    return count * (total - digamma(count)) - fsum(u)


KL = {
    ("Categorical", "Categorical"): kl_categorical,
    ("Dirichlet", "Dirichlet"): kl_dirichlet,
    ("Dirichlet", "LogisticNormal"): kl_dirichlet_logistic_normal,
    ("LKJCholesky", "LKJCholesky"): kl_lkj,
    ("LowRankMultivariateNormal", "LowRankMultivariateNormal"): kl_gaussian,
    ("LowRankMultivariateNormal", "MultivariateNormal"): kl_gaussian,
    ("Multinomial", "Multinomial"): kl_categorical,
    ("MultivariateNormal", "LowRankMultivariateNormal"): kl_gaussian,
    ("MultivariateNormal", "MultivariateNormal"): kl_gaussian,
    ("OneHotCategorical", "OneHotCategorical"): kl_categorical,
    ("RelaxedOneHotCategorical", "RelaxedOneHotCategorical"): kl_relaxed_one_hot_categorical,
    ("Wishart", "Wishart"): kl_wishart,
}
