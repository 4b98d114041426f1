// A covariance D + U U^T beside one given by its triangular factor: src/kullback/pairs/gaussian_apart.py has the formulas.
#pragma once

#include "low_rank.h"

namespace kullback::KULLBACK_SET {

// L with L L^T = D + U U^T: a plane rotation per entry takes each column of U into the diagonal matrix, which costs no more
// digits than an orthogonal factorisation of [D^1/2 U]. False if a square overflows.
template <class S>
bool factor_low_rank(const LowRankFactorCall& call, int64_t item, double* scratch) {
    const int64_t n = call.size, rank = call.rank;
    const S *diagonal = static_cast<const S*>(call.diagonal) + item * n, *factor = static_cast<const S*>(call.factor) + item * n * rank;
    double *lower = call.lower + item * n * n, *column = scratch;
    for (int64_t i = 0; i < n * n; ++i) lower[i] = 0;
    for (int64_t i = 0; i < n; ++i) lower[i * n + i] = __builtin_sqrt(double(diagonal[i]));
    for (int64_t c = 0; c < rank; ++c) {
        for (int64_t i = 0; i < n; ++i) column[i] = double(factor[i * rank + c]);
        for (int64_t j = 0; j < n; ++j) {
            const double own = lower[j * n + j], length = __builtin_sqrt(own * own + column[j] * column[j]);
            if (!(length < kInfinity<double>)) return false;
            const double cosine = own / length, sine = column[j] / length;
            lower[j * n + j] = length;
            for (int64_t i = j + 1; i < n; ++i) {
                const double x = lower[i * n + j], y = column[i];
                lower[i * n + j] = cosine * x + sine * y, column[i] = cosine * y - sine * x;
            }
        }
    }
    return true;
}

// The divergence of a Gaussian by its factor from one with D + U U^T, and |Z Z^T - I|^2 of the first one's covariance
// whitened by the second's. False if the capacitance matrix overflows.
template <class S>
bool compare_apart(const ApartCall& call, int64_t item, double* scratch) {
    const int64_t n = call.size, rank = call.rank, stride = matrix_stride(n);
    const S *loc_p = static_cast<const S*>(call.loc_p) + item * n, *loc_q = static_cast<const S*>(call.loc_q) + item * n;
    const S *lower = static_cast<const S*>(call.lower_p) + item * n * n, *d = static_cast<const S*>(call.diagonal_q) + item * n;
    double *inverse = scratch, *offset = inverse + stride, *outer = offset + stride, *inner = outer + rank * stride;
    double *z = inner + rank * stride, *k = z + n * stride, *parts = k + rank * rank;
    double log_det = 0, square = 0;
    for (int64_t i = 0; i < n; ++i) {
        inverse[i] = 1 / __builtin_sqrt(double(d[i]));
        offset[i] = (double(loc_p[i]) - double(loc_q[i])) * inverse[i];
        log_det += 2 * log_of(double(lower[i * n + i]) * inverse[i]);
    }
    for (int64_t i = n; i < stride; ++i) inverse[i] = offset[i] = 0;
    whiten(static_cast<const S*>(call.factor_q) + item * n * rank, inverse, outer, n, rank, stride);
    if (!capacitance(outer, k, rank, stride)) return false;
    for (int64_t i = 0; i < rank * stride; ++i) inner[i] = outer[i];
    solve_capacitance(k, 0, outer, rank, stride);
    solve_capacitance(k, 1, inner, rank, stride);
    for (int64_t j = 0; j < rank; ++j) log_det -= 2 * log_of(k[j * rank + j]);
    apply_root(inner, outer, offset, parts, rank, stride);
    for (int64_t j = 0; j < n; ++j) {
        double* column = z + j * stride;
        for (int64_t i = 0; i < j; ++i) column[i] = 0;
        for (int64_t i = j; i < n; ++i) column[i] = double(lower[i * n + j]) * inverse[i];
        for (int64_t i = n; i < stride; ++i) column[i] = 0;
        apply_root(inner, outer, column, parts, rank, stride);
        square += dot(column, column, stride);
    }
    // Z^T Z has the eigenvalues of Z Z^T.
    double excess = 0;
    for (int64_t i = 0; i < n; ++i) {
        for (int64_t j = 0; j <= i; ++j) {
            const double x = dot(z + i * stride, z + j * stride, stride) - (i == j);
            excess += (i == j ? 1 : 2) * x * x;
        }
    }
    call.value[item] = 0.5 * ((square - double(n)) - log_det + dot(offset, offset, stride));
    call.excess[item] = excess;
    return true;
}

}  // namespace kullback::KULLBACK_SET
