"""KL between Gaussians in several dimensions in mpmath, whatever their parameters: the textbook formula."""

from mpmath import det, inverse, log, matrix

from tests.golden.pairs import rounded, write

LOC = [("p", "loc"), ("q", "loc")]


def covariance(d):
    if "cov_factor" in d:
        u = matrix(d["cov_factor"])
        n = u.rows
        return u * u.T + matrix([[d["cov_diag"][i] if i == j else 0 for j in range(n)] for i in range(n)])
    if "scale_tril" in d:
        rows = d["scale_tril"]
        lower = matrix([[v if j <= i else 0 for j, v in enumerate(row)] for i, row in enumerate(rows)])
        return lower * lower.T
    return matrix(d["covariance_matrix"]) if "covariance_matrix" in d else inverse(matrix(d["precision_matrix"]))


def gaussian_gaussian(p, q):
    sigma, inverse_q = covariance(p), inverse(covariance(q))
    ratio, shift = inverse_q * sigma, matrix(p["loc"]) - matrix(q["loc"])
    trace = sum(ratio[i, i] for i in range(ratio.rows))
    return (trace - ratio.rows - log(det(ratio)) + (shift.T * inverse_q * shift)[0]) / 2


SHARES = [[1.0, -0.7, 0.4, 0.6], [-0.7, 0.3, 0.9, -0.2], [0.4, 0.9, -0.5, 0.8]]


def moved(d, step):
    """Every entry moved by its own share of a relative step, symmetric matrices symmetrically."""

    def along(value, i):
        if isinstance(value, list):
            return [v * (1 + step * SHARES[i][j]) for j, v in enumerate(value)]
        return value * (1 + step * SHARES[i][i])

    return {name: [along(v, i) for i, v in enumerate(value)] for name, value in d.items()}


def close(d, steps):
    pairs = []
    for k in steps:
        p, q = d, moved(d, 10.0**-k)
        pairs.append((p, q) if k > 6 else (rounded(p), rounded(q)))
    return pairs


TRIL = {"loc": [0.5, -1.0, 2.0], "scale_tril": [[1.5, 0.0, 0.0], [0.5, 0.75, 0.0], [-1.0, 0.25, 2.0]]}
OTHER = {"loc": [0.0, 0.0, 1.0], "scale_tril": [[1.0, 0.0, 0.0], [-0.5, 2.0, 0.0], [0.25, 0.5, 0.5]]}
MATRIX = [[2.0, 0.5, -0.25], [0.5, 1.5, 0.75], [-0.25, 0.75, 3.0]]
OTHER_MATRIX = [[1.0, 0.25, 0.0], [0.25, 2.0, -0.5], [0.0, -0.5, 1.5]]
LOW = {"loc": [0.5, -1.0, 2.0], "cov_factor": [[1.0, 0.5], [-0.25, 2.0], [0.5, 0.5]], "cov_diag": [1.0, 0.5, 2.0]}
OTHER_LOW = {"loc": [0.0, 0.0, 1.0], "cov_factor": [[0.5], [1.5], [-1.0]], "cov_diag": [2.0, 1.0, 0.5]}
# A part that is a million times the rest, and more columns than rows. The 0.1 is no float32, so `MANY` is a row for
# float64 only: its capacitance has condition 1e13, which torch's constructor cannot factor in float32 with every BLAS.
LARGE = {**LOW, "cov_factor": [[1e6, 5e5], [-250000.0, 2e6], [5e5, 3e6]]}
MANY = {**LOW, "cov_factor": [[1e6, 5e5, 0.1, 3e6], [-250000.0, 2e6, 4e5, 1e6], [5e5, 3e6, 1e3, -2e6]]}
WIDE = {**LOW, "cov_factor": [[1.0, 0.5, 0.25, 3.0], [-0.25, 2.0, 0.5, 1.0], [0.5, 3.0, 1.0, -2.0]]}


def given(name, value, loc=(0.5, -1.0, 2.0)):
    return {"loc": list(loc), name: value}


def main():
    tiny = {"loc": [0.0, 0.0, 0.0], "scale_tril": [[1e-30, 0.0, 0.0], [0.0, 1e-30, 0.0], [0.0, 1e-31, 1e-30]]}
    huge = {"loc": [1e30, 0.0, 0.0], "scale_tril": [[1e30, 0.0, 0.0], [1e29, 1e30, 0.0], [0.0, 0.0, 1e30]]}
    cases = [(TRIL, OTHER), (OTHER, TRIL), (rounded(tiny), rounded(huge)), *close(TRIL, range(1, 13, 2))]
    write("MultivariateNormal", "MultivariateNormal", gaussian_gaussian, cases, digits=120)
    for name in ("covariance_matrix", "precision_matrix"):
        p, q = given(name, MATRIX), given(name, OTHER_MATRIX, (0.0, 0.0, 1.0))
        # Every entry of a symmetric matrix has two places, so that only the derivatives to the means are unambiguous.
        rows = [(p, q), (q, p), (p, OTHER), (TRIL, q), *close(p, range(1, 13, 2))]
        write("MultivariateNormal", f"MultivariateNormal_{name}", gaussian_gaussian, rows, gradients=LOC, digits=80)
    spike = {"loc": [0.0, 0.0, 0.0], "cov_factor": [[1e6], [1e6], [1e6]], "cov_diag": [1.0, 1.0, 1.0]}
    wide = {**spike, "cov_diag": [1.01, 1.01, 1.01]}
    none = {"loc": [0.0, 0.0, 0.0], "cov_factor": [[0.0], [0.0], [0.0]], "cov_diag": [1.0, 1e-30, 1e30]}
    large = [(LARGE, OTHER_LOW), (OTHER_LOW, LARGE), (MANY, OTHER_LOW), (OTHER_LOW, MANY)]
    rows = [(LOW, OTHER_LOW), (OTHER_LOW, LOW), *close(LOW, range(1, 13, 2)), *large, *close(WIDE, (1, 2, 8, 12))]
    write("LowRankMultivariateNormal", "LowRankMultivariateNormal", gaussian_gaussian, rows, digits=120)
    rows = [(spike, wide), (rounded(none), OTHER_LOW)]
    write(
        "LowRankMultivariateNormal",
        "LowRankMultivariateNormal_spike",
        gaussian_gaussian,
        rows,
        gradients=LOC,
        digits=80,
    )
    write(
        "MultivariateNormal",
        "LowRankMultivariateNormal",
        gaussian_gaussian,
        [(TRIL, LOW), (OTHER, OTHER_LOW), (TRIL, LARGE), (TRIL, MANY)],
        digits=80,
    )
    write(
        "LowRankMultivariateNormal",
        "MultivariateNormal",
        gaussian_gaussian,
        [(LOW, TRIL), (OTHER_LOW, OTHER), (LARGE, TRIL), (MANY, TRIL)],
        digits=80,
    )
