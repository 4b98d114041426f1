"""KL(Wishart ‖ ·) in mpmath."""

from mpmath import det, digamma, fsum, inverse, log, loggamma, mpf

from tests.golden.make_pairs_multivariate_normal import MATRIX, OTHER_MATRIX, close, covariance, moved
from tests.golden.pairs import rounded, write


def wishart_wishart(p, q):
    n, m = p["df"], q["df"]
    ratio = inverse(covariance(q)) * covariance(p)
    d = ratio.rows
    trace = fsum(ratio[i, i] for i in range(d))
    halves = [mpf(j) / 2 for j in range(d)]
    gamma = fsum(loggamma(m / 2 - j) - loggamma(n / 2 - j) + (n - m) / 2 * digamma(n / 2 - j) for j in halves)
    return (n * (trace - d) - m * log(det(ratio))) / 2 + gamma


def main():
    lower = [[1.5, 0.0, 0.0], [0.5, 0.75, 0.0], [-1.0, 0.25, 2.0]]
    other = [[1.0, 0.0, 0.0], [-0.5, 2.0, 0.0], [0.25, 0.5, 0.5]]

    def law(df, scale_tril):
        return rounded({"df": df, "scale_tril": scale_tril})

    rows = [(law(n, lower), law(m, other)) for n, m in ((5.0, 7.5), (1e6, 1.001e6), (1e12, 3.0), (2.0625, 40.0))]
    for df in (4.5, 1e9):
        for k in (1, 4, 8, 11):
            at = {"df": df, "scale_tril": lower}
            near = {"df": df * (1 + 10.0**-k), "scale_tril": moved({"s": lower}, 10.0**-k)["s"]}
            pairs = [(at, near), (at, {**at, "df": near["df"]}), (at, {**at, "scale_tril": near["scale_tril"]})]
            rows += pairs if k > 6 else [(rounded(p), rounded(q)) for p, q in pairs]
    # The mean df·V kept: the leading terms of the divergence cancel.
    rows.append((law(1e6, lower), law(4e6, [[v / 2 for v in row] for row in lower])))
    # df·V kept in one direction although V is on another scale, beside which the difference of the factors loses V.
    wide = [[1e6 * v for v in row] for row in other]
    rows += [
        (law(1e12, lower), law(2.5, wide)),
        (law(1e9, lower), law(30.0, [[1e4 * v for v in row] for row in other])),
    ]
    tiny = [[1e-20 * v for v in row] for row in lower]
    rows += [(law(5.0, tiny), law(7.5, other)), (law(7.5, other), law(5.0, tiny))]
    write("Wishart", "Wishart", wishart_wishart, rows, digits=120)
    for name in ("covariance_matrix", "precision_matrix"):
        p, q = {"df": 5.0, name: MATRIX}, {"df": 6.5, name: OTHER_MATRIX}
        close_rows = [({"df": 5.0, **a}, {"df": 5.0 + 1e-5, **b}) for a, b in close({name: MATRIX}, (2, 5, 9))]
        # Equal matrices have a derivative where the degrees of freedom differ.
        close_rows += [(p, {**p, "df": 5.0 + 2.0**-8}), (p, {**p, "df": 5.0 + 2.0**-30})]
        write("Wishart", f"Wishart_{name}", wishart_wishart, [(p, q), *close_rows], digits=80)
