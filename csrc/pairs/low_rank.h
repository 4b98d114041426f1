// Two Gaussians with covariances D + U U^T compared, all of it in one thread's scratch; the formula is that of
// src/kullback/pairs/low_rank_multivariate_normal.py, whose names are used here.
//
// A matrix of n rows and k columns is kept as k rows of n, padded with zeros to whole vectors.
#pragma once

#include "matrices.h"

namespace kullback::KULLBACK_SET {

constexpr int kPowers = 8;
constexpr double kNotNormal = 100;

// target += factor source, whole vectors.
inline void add_row(double* target, double factor, const double* source, int64_t stride) {
    subtract_row(target, -factor, source, 0, stride);
}

// The columns of a factor, each divided by the square root of the diagonal.
template <class S>
void whiten(const S* factor, const double* inverse_scale, double* out, int64_t n, int64_t rank, int64_t stride) {
    for (int64_t j = 0; j < rank; ++j) {
        for (int64_t i = 0; i < n; ++i) out[j * stride + i] = double(factor[i * rank + j]) * inverse_scale[i];
        for (int64_t i = n; i < stride; ++i) out[j * stride + i] = 0;
    }
}

// K of K K^T = I + A^T A, k x k without padding; false if it overflows.
inline bool capacitance(const double* a, double* k, int64_t rank, int64_t stride) {
    for (int64_t i = 0; i < rank; ++i) {
        for (int64_t j = 0; j <= i; ++j) {
            double x = dot(a + i * stride, a + j * stride, stride) + (i == j);
            for (int64_t r = 0; r < j; ++r) x -= k[i * rank + r] * k[j * rank + r];
            if (i == j && (!(x > 0) || x == kInfinity<double>)) return false;
            k[i * rank + j] = i == j ? __builtin_sqrt(x) : x / k[j * rank + j];
        }
        for (int64_t j = i + 1; j < rank; ++j) k[i * rank + j] = 0;
    }
    return true;
}

inline double log_det(const double* k, int64_t rank) {
    double sum = 0;
    for (int64_t j = 0; j < rank; ++j) sum += log_of(k[j * rank + j]);
    return sum;
}

// x = (K + shift I)^-1 x, rows of x.
inline void solve_capacitance(const double* k, double shift, double* x, int64_t rank, int64_t stride) {
    for (int64_t j = 0; j < rank; ++j) {
        for (int64_t l = 0; l < j; ++l) add_row(x + j * stride, -k[j * rank + l], x + l * stride, stride);
        const double inverse = 1 / (k[j * rank + j] + shift);
        for (int64_t i = 0; i < stride; ++i) x[j * stride + i] *= inverse;
    }
}

// x -= inner^T (outer x): F^T x.
inline void apply_root(const double* inner, const double* outer, double* x, double* parts, int64_t rank, int64_t stride) {
    for (int64_t j = 0; j < rank; ++j) parts[j] = dot(outer + j * stride, x, stride);
    for (int64_t j = 0; j < rank; ++j) add_row(x, -parts[j], inner + j * stride, stride);
}

// The trace of M^2 / 2 - M^3 / 3 + ..., which is tr M - log det(I + M) to 1e-16 for eigenvalues of M below 0.1: they are real.
inline double trace_gap(double* powers, int64_t size) {
    const int64_t block = size * size;
    for (int p = 1; p < kPowers; ++p) {
        double* next = powers + p * block;
        for (int64_t i = 0; i < block; ++i) next[i] = 0;
        for (int64_t i = 0; i < size; ++i) {
            for (int64_t l = 0; l < size; ++l) {
                const double factor = powers[(p - 1) * block + i * size + l];
                for (int64_t j = 0; j < size; ++j) next[i * size + j] += factor * powers[l * size + j];
            }
        }
    }
    double sum = 0;
    for (int m = 2 * kPowers; m >= 2; --m) {
        const double *left = powers + (m / 2 - 1) * block, *right = powers + (m - m / 2 - 1) * block;
        double trace = 0;
        for (int64_t i = 0; i < size; ++i) {
            for (int64_t j = 0; j < size; ++j) trace += left[i * size + j] * right[j * size + i];
        }
        sum += m % 2 == 0 ? trace / m : -trace / m;
    }
    return sum;
}

struct SecondOrder {
    double value;
    bool holds;
};

// `v` holds inner, the rows of rho * outer, the moved columns and the root of A, k rows each; the middle ones are scaled here.
inline SecondOrder second_order(double* v, const double* outer, const double* rho, double* scratch, int64_t rank, int64_t stride,
                                double near) {
    const int64_t size = 4 * rank, block = size * size;
    double *weighted = scratch, *s = weighted + size * stride, *powers = s + block;
    double squares[2] = {0, 0};
    for (int64_t i = 0; i < block; ++i) s[i] = 0;
    for (int64_t j = 0; j < rank; ++j) {
        for (int64_t l = 0; l < rank; ++l) s[j * size + l] = dot(outer + j * stride, v + (rank + l) * stride, stride);
        for (int part = 0; part < 2; ++part) {
            const double* row = v + ((1 + part) * rank + j) * stride;
            squares[part] += dot(row, row, stride);
        }
    }
    constexpr double kTiny = 1e-30;
    double norms[2];
    for (int part = 0; part < 2; ++part) {
        const double norm = __builtin_sqrt(squares[part]);
        norms[part] = norm > kTiny ? norm : kTiny;
        const double inverse = 1 / norms[part];
        for (int64_t i = (1 + part) * rank * stride; i < (2 + part) * rank * stride; ++i) v[i] *= inverse;
    }
    for (int64_t j = 0; j < rank; ++j) {
        s[j * size + rank + j] = s[(rank + j) * size + j] = -norms[0];
        s[(2 * rank + j) * size + 2 * rank + j] = norms[1] * norms[1];
        s[(2 * rank + j) * size + 3 * rank + j] = s[(3 * rank + j) * size + 2 * rank + j] = norms[1];
    }
    double middle = 0, square = 0;
    for (int pass = 0; pass < 2; ++pass) {
        for (int64_t j = 0; j < size; ++j) {
            for (int64_t i = 0; i < stride; ++i) {
                weighted[j * stride + i] = v[j * stride + i] * ((pass == 0 ? rho[i] : 1.0) / (1 + rho[i]));
            }
        }
        double* gram = powers + block;
        for (int64_t j = 0; j < size; ++j) {
            for (int64_t l = 0; l < size; ++l) gram[j * size + l] = dot(v + j * stride, weighted + l * stride, stride);
        }
        for (int64_t j = 0; j < size; ++j) {
            for (int64_t l = 0; l < size; ++l) {
                if (pass == 0) {
                    middle += s[j * size + l] * gram[j * size + l];
                    continue;
                }
                double x = 0;
                for (int64_t r = 0; r < size; ++r) x += s[j * size + r] * gram[r * size + l];
                powers[j * size + l] = x;
                square += x * x;
            }
        }
    }
    // The eigenvalues are real, so that the trace of M^2 bounds their squares; M itself is larger where it is not normal.
    double trace = 0;
    for (int64_t j = 0; j < size; ++j) {
        for (int64_t l = 0; l < size; ++l) trace += powers[j * size + l] * powers[l * size + j];
    }
    if (!(trace < near && square < kNotNormal * near)) return {0, false};
    return {middle + trace_gap(powers, size), true};
}

template <class S>
bool compare_low_rank(const LowRankCall& call, int64_t item, double* scratch) {
    const int64_t n = call.size, rank = call.rank, stride = matrix_stride(n);
    const S *loc_p = static_cast<const S*>(call.loc_p) + item * n, *loc_q = static_cast<const S*>(call.loc_q) + item * n;
    const S *d_p = static_cast<const S*>(call.diagonal_p) + item * n, *d_q = static_cast<const S*>(call.diagonal_q) + item * n;
    const S* u_p = static_cast<const S*>(call.factor_p) + item * n * rank;
    const S* u_q = static_cast<const S*>(call.factor_q) + item * n * rank;
    double *inverse = scratch, *rho = inverse + stride, *offset = rho + stride, *a = offset + stride;
    double *outer = a + rank * stride, *v = outer + rank * stride;
    double *inner = v, *changed = v + rank * stride, *moved = changed + rank * stride, *root_a = moved + rank * stride;
    double *k = v + 4 * rank * stride, *own = k + rank * rank, *parts = own + rank * rank, *rest = parts + rank;
    double diagonal = 0;
    bool small = true;
    uint32_t apart = 0;  // columns, one bit each
    for (int64_t i = n; i < stride; ++i) inverse[i] = rho[i] = offset[i] = 0;
    // p's own capacitance first: its rows may be overwritten.
    for (int64_t i = 0; i < n; ++i) inverse[i] = 1 / __builtin_sqrt(double(d_p[i]));
    whiten(u_p, inverse, a, n, rank, stride);
    if (!capacitance(a, own, rank, stride)) return false;
    for (int64_t i = 0; i < n; ++i) {
        const double p = double(d_p[i]), q = double(d_q[i]);
        inverse[i] = 1 / __builtin_sqrt(q);
        rho[i] = (p - q) / q;
        const bool is_small = __builtin_fabs(rho[i]) < 0.5;
        small &= is_small;
        diagonal += is_small ? -log1pmx_of(rho[i]) : rho[i] - log_of(split_log_ratio(p, q));
        offset[i] = (double(loc_p[i]) - double(loc_q[i])) * inverse[i];
    }
    whiten(u_q, inverse, a, n, rank, stride);
    if (!capacitance(a, k, rank, stride)) return false;
    for (int64_t j = 0; j < rank; ++j) {
        for (int64_t i = 0; i < stride; ++i) outer[j * stride + i] = inner[j * stride + i] = a[j * stride + i];
        double* row = moved + j * stride;
        double own_square = 0, square = 0;
        for (int64_t i = 0; i < n; ++i) {
            const double column = double(u_p[i * rank + j]) * inverse[i];
            row[i] = (double(u_p[i * rank + j]) - double(u_q[i * rank + j])) * inverse[i];
            own_square += column * column;
            square += row[i] * row[i];
        }
        for (int64_t i = n; i < stride; ++i) row[i] = 0;
        // A column of U_p that is smaller than its difference keeps its own rounding errors; the root of A is subtracted later.
        if (own_square < square) {
            apart |= 1u << j;
            for (int64_t i = 0; i < n; ++i) row[i] = double(u_p[i * rank + j]) * inverse[i];
        }
    }
    solve_capacitance(k, 0, outer, rank, stride);
    solve_capacitance(k, 1, inner, rank, stride);
    apply_root(inner, outer, offset, parts, rank, stride);
    for (int64_t j = 0; j < rank; ++j) apply_root(inner, outer, moved + j * stride, parts, rank, stride);
    // The root of A is inner^T (I + K^-1), and the rows of (K^T)^-1 inner by substitution from the last.
    for (int64_t j = rank - 1; j >= 0; --j) {
        double* row = root_a + j * stride;
        for (int64_t i = 0; i < stride; ++i) row[i] = inner[j * stride + i];
        for (int64_t l = j + 1; l < rank; ++l) add_row(row, -k[l * rank + j], root_a + l * stride, stride);
        const double reciprocal = 1 / k[j * rank + j];
        for (int64_t i = 0; i < stride; ++i) row[i] *= reciprocal;
    }
    double far = 2 * (log_det(k, rank) - log_det(own, rank));
    for (int64_t j = 0; j < rank; ++j) {
        add_row(root_a + j * stride, 1, inner + j * stride, stride);
        if ((apart >> j & 1u) != 0) add_row(moved + j * stride, -1, root_a + j * stride, stride);
        const double *m = moved + j * stride, *o = outer + j * stride;
        for (int64_t i = 0; i < stride; ++i) changed[j * stride + i] = rho[i] * o[i];
        far += 2 * dot(m, root_a + j * stride, stride) + dot(m, m, stride) - dot(changed + j * stride, o, stride);
    }
    if (small) {
        const SecondOrder close = second_order(v, outer, rho, rest, rank, stride, call.near);
        if (close.holds) far = close.value;
    }
    call.value[item] = 0.5 * (diagonal + far + dot(offset, offset, stride));
    return true;
}

}  // namespace kullback::KULLBACK_SET
