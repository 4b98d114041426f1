// Gradients of the divergence of two Gaussians with small matrices, given as they are, in one thread's scratch; see factors.h,
// and src/kullback/pairs/gaussian_gradients.py and src/kullback/kernels/factor_op.py for the formulas.
#pragma once

#include "matrices.h"

namespace kullback::KULLBACK_SET {

enum class Shape { kFull, kLower, kUpper };  // where a left factor is not zero

// Rows i ... i + R of vectors [at, at + N): the sum over k of a(i, k) b's row k.
template <int R, int N>
inline void multiply_piece(const double* a, int64_t a_row, int64_t a_column, const double* b, double* c, int64_t begin, int64_t end,
                           int64_t stride) {
    Vector sums[R][N] = {};
    for (int64_t k = begin; k < end; ++k) {
        Vector row[N];
        __builtin_memcpy(row, b + k * stride, sizeof(row));
        for (int r = 0; r < R; ++r) {
            const double factor = a[r * a_row + k * a_column];
            for (int v = 0; v < N; ++v) sums[r][v] += factor * row[v];
        }
    }
    for (int r = 0; r < R; ++r) __builtin_memcpy(c + r * stride, sums[r], sizeof(sums[r]));
}

template <int R>
inline void multiply_rows(const double* a, int64_t a_row, int64_t a_column, const double* b, double* c, int64_t begin, int64_t end,
                          int64_t stride) {
    int64_t at = 0;
    for (; at + 4 * kLanes <= stride; at += 4 * kLanes) {
        multiply_piece<R, 4>(a, a_row, a_column, b + at, c + at, begin, end, stride);
    }
    for (; at + 2 * kLanes <= stride; at += 2 * kLanes) {
        multiply_piece<R, 2>(a, a_row, a_column, b + at, c + at, begin, end, stride);
    }
    for (; at < stride; at += kLanes) multiply_piece<R, 1>(a, a_row, a_column, b + at, c + at, begin, end, stride);
}

// c = a b, where a(i, k) is a[i a_row + k a_column].
inline void multiply(const double* a, int64_t a_row, int64_t a_column, Shape shape, const double* b, double* c, int64_t n,
                     int64_t stride) {
    for (int64_t i = 0; i < n;) {
        const int64_t rows = i + 4 <= n ? 4 : 1;
        const int64_t begin = shape == Shape::kUpper ? i : 0, end = shape == Shape::kLower ? i + rows : n;
        const double* from = a + i * a_row;
        if (rows == 4) multiply_rows<4>(from, a_row, a_column, b, c + i * stride, begin, end, stride);
        else multiply_rows<1>(from, a_row, a_column, b, c + i * stride, begin, end, stride);
        i += rows;
    }
}

// The inverse of a matrix given by its lower triangle; false if it is not positive definite. `l` and `k` are scratch of its
// size, `columns` of four rows.
template <class S>
bool invert(const S* matrix, double* out, double* l, double* k, double* columns, int64_t n, int64_t stride) {
    load_lower(matrix, l, n, stride);
    if (!factor_lower(l, n, stride, columns)) return false;
    for (int64_t i = 0; i < n * stride; ++i) k[i] = 0;
    for (int64_t i = 0; i < n; ++i) k[i * stride + i] = 1;
    solve_rows(l, k, n, stride, true);
    multiply(k, 1, stride, Shape::kUpper, k, out, n, stride);
    return true;
}

// scale (x + y y^T), y null for nothing.
template <class S>
void store(const double* x, const double* y, double scale, S* out, int64_t n, int64_t stride) {
    for (int64_t i = 0; i < n; ++i) {
        const double* row = x + i * stride;
        const double of_row = y == nullptr ? 0 : y[i];
        if (y == nullptr) {
            for (int64_t j = 0; j < n; ++j) out[i * n + j] = S(scale * row[j]);
        } else {
            for (int64_t j = 0; j < n; ++j) out[i * n + j] = S(scale * (row[j] + of_row * y[j]));
        }
    }
}

// With B the matrix that is inverted twice, q's covariance or p's precision, A the other and D = A - B:
//   A: 1/2 B^-1 D A^-1,   B: -1/2 B^-1 D B^-1,   and 1/2 of an outer product, of u = Sigma_q^-1 shift from the gradient in
// q's covariance, of the shift to that in its precision.
template <class S>
bool gradients_of_matrices(const MatrixGradientCall& call, int64_t item, double* scratch) {
    const int64_t n = call.size, stride = matrix_stride(n), block = n * stride;
    const bool covariances = call.kind == kByCovariances;
    const S *p = static_cast<const S*>(call.p) + item * n * n, *q = static_cast<const S*>(call.q) + item * n * n;
    const S *a = covariances ? p : q, *b = covariances ? q : p;
    double *of_a = scratch, *of_b = of_a + block, *x = of_b + block, *mixed = x + block, *columns = mixed + block;
    if (!invert(a, of_a, x, mixed, columns, n, stride) || !invert(b, of_b, x, mixed, columns, n, stride)) return false;
    double *shift = columns, *u = columns + stride;
    for (int64_t i = 0; i < stride; ++i) shift[i] = i < n ? call.shift[item * n + i] : 0, u[i] = 0;
    for (int64_t i = 0; i < n; ++i) {
        for (int64_t j = 0; j <= i; ++j) x[i * stride + j] = x[j * stride + i] = double(a[i * n + j]) - double(b[i * n + j]);
        for (int64_t j = n; j < stride; ++j) x[i * stride + j] = 0;
    }
    if (covariances) {
        for (int64_t i = 0; i < n; ++i) u[i] = dot(of_b + i * stride, shift, stride);
    } else {
        for (int64_t i = 0; i < n; ++i) {
            for (int64_t j = 0; j < i; ++j) u[i] += double(q[i * n + j]) * shift[j], u[j] += double(q[i * n + j]) * shift[i];
            u[i] += double(q[i * n + i]) * shift[i];
        }
    }
    const double grad = call.grad[item];
    multiply(of_b, stride, 1, Shape::kFull, x, mixed, n, stride);
    S* to_a = static_cast<S*>(covariances ? call.to_p : call.to_q) + item * n * n;
    S* to_b = static_cast<S*>(covariances ? call.to_q : call.to_p) + item * n * n;
    multiply(mixed, stride, 1, Shape::kFull, of_a, x, n, stride);
    store(x, covariances ? nullptr : shift, 0.5 * grad, to_a, n, stride);
    multiply(mixed, stride, 1, Shape::kFull, of_b, x, n, stride);
    store(x, covariances ? u : nullptr, -0.5 * grad, to_b, n, stride);
    S* to_loc = static_cast<S*>(call.to_loc) + item * n;
    for (int64_t i = 0; i < n; ++i) to_loc[i] = S(grad * u[i]);
    return true;
}

// x = L^-T x, lower triangles only: what is above the diagonal of the result is left as it comes.
inline void solve_back(const double* l, double* x, int64_t n, int64_t stride) {
    for (int64_t i = n - 1; i >= 0; --i) {
        double* row = x + i * stride;
        for (int64_t at = 0; at <= i; at += 2 * kLanes) {
            const bool two = at + 2 * kLanes <= stride;
            Vector sums[2] = {};
            __builtin_memcpy(sums, row + at, (two ? 2 : 1) * sizeof(Vector));
            for (int64_t k = i + 1; k < n; ++k) {
                const double factor = l[k * stride + i];
                Vector below[2] = {};
                __builtin_memcpy(below, x + k * stride + at, (two ? 2 : 1) * sizeof(Vector));
                sums[0] -= factor * below[0], sums[1] -= factor * below[1];
            }
            const double inverse = 1 / l[i * stride + i];
            sums[0] *= inverse, sums[1] *= inverse;
            __builtin_memcpy(row + at, sums, (two ? 2 : 1) * sizeof(Vector));
        }
    }
}

// With Z = L_q^-T G and z = L_q^-T y:  L_p: tril Z,  L_q: -tril(Z (I + W)^T + z y^T),  loc: z.
template <class S>
bool gradients_of_factors(const MatrixGradientCall& call, int64_t item, double* scratch) {
    const int64_t n = call.size, stride = matrix_stride(n), block = n * stride;
    const S *p = static_cast<const S*>(call.p) + item * n * n, *q = static_cast<const S*>(call.q) + item * n * n;
    const double *w = call.w + item * n * n, *y = call.shift + item * n;
    double *l = scratch, *x = l + block, *across = x + block, *product = across + block, *z = product + block;
    load_lower(q, l, n, stride);
    load_lower(w, x, n, stride);
    for (int64_t i = 0; i < block; ++i) across[i] = 0;
    for (int64_t i = 0; i < n; ++i) {
        const double on_p = double(p[i * n + i]), on_q = l[i * stride + i];
        for (int64_t j = 0; j < i; ++j) across[j * stride + i] = x[i * stride + j];
        across[i * stride + i] = on_p / on_q;  // 1 + w, which survives w = -1
        x[i * stride + i] += (on_p - on_q) / on_p;
    }
    solve_back(l, x, n, stride);
    for (int64_t i = n - 1; i >= 0; --i) {
        double sum = y[i];
        for (int64_t k = i + 1; k < n; ++k) sum -= l[k * stride + i] * z[k];
        z[i] = sum / l[i * stride + i];
    }
    for (int64_t i = 0; i < n; ++i) {
        for (int64_t j = i + 1; j < stride; ++j) x[i * stride + j] = 0;
    }
    multiply(x, stride, 1, Shape::kLower, across, product, n, stride);
    const double grad = call.grad[item];
    S *to_p = static_cast<S*>(call.to_p) + item * n * n, *to_q = static_cast<S*>(call.to_q) + item * n * n;
    S* to_loc = static_cast<S*>(call.to_loc) + item * n;
    for (int64_t i = 0; i < n; ++i) {
        to_loc[i] = S(grad * z[i]);
        for (int64_t j = 0; j < n; ++j) {
            to_p[i * n + j] = S(grad * x[i * stride + j]);
            to_q[i * n + j] = j > i ? S(0) : S(-grad * (product[i * stride + j] + z[i] * y[j]));
        }
    }
    return true;
}

template <class S>
bool matrix_gradients(const MatrixGradientCall& call, int64_t item, double* scratch) {
    return call.kind == kByFactors ? gradients_of_factors<S>(call, item, scratch) : gradients_of_matrices<S>(call, item, scratch);
}

}  // namespace kullback::KULLBACK_SET
