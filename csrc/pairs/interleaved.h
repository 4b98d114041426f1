// Eight small positive definite matrices compared at once, one per lane of a vector; see factors.h and matrices.h, which does
// the same to one matrix.
//
// Of a lower triangle the rows follow one another without gaps, so that three triangles of 32 rows stay near the first cache.
#pragma once

#include "matrices.h"

namespace kullback::KULLBACK_SET {

constexpr int kRowsOfLanes = 4;

inline int64_t row_start(int64_t i) { return i * (i + 1) / 2; }

// The lower triangles of `count` matrices from `item` on; lanes past the last repeat it.
template <class S>
void load_lanes(const void* matrices, int64_t item, int64_t count, Vector* out, int64_t n) {
    const S* of_lane[kLanes];
    for (int l = 0; l < kLanes; ++l) {
        of_lane[l] = static_cast<const S*>(matrices) + (item + (l < count ? l : count - 1)) * n * n;
    }
    for (int64_t i = 0; i < n; ++i) {
        Vector* row = out + row_start(i);
        for (int64_t j = 0; j <= i; ++j) {
            Vector x;
            for (int l = 0; l < kLanes; ++l) x[l] = double(of_lane[l][i * n + j]);
            row[j] = x;
        }
    }
}

// sums[r] -= the sum over k of left[r][k] right(k); four chains hide the latency of one.
template <class Right>
inline void subtract_dots(Vector (&sums)[kRowsOfLanes], const Vector* const (&left)[kRowsOfLanes], int64_t begin, int64_t end,
                          Right right) {
    Vector s[kRowsOfLanes];
    for (int r = 0; r < kRowsOfLanes; ++r) s[r] = sums[r];
    for (int64_t k = begin; k < end; ++k) {
        const Vector& x = right(k);
        for (int r = 0; r < kRowsOfLanes; ++r) s[r] -= left[r][k] * x;
    }
    for (int r = 0; r < kRowsOfLanes; ++r) sums[r] = s[r];
}

// Rows i ... i + 3 of a triangle; past its end the last one again, whose results are not stored.
inline int rows_of_block(const Vector* a, int64_t i, int64_t n, const Vector* (&rows)[kRowsOfLanes]) {
    const int count = int(n - i < kRowsOfLanes ? n - i : kRowsOfLanes);
    for (int r = 0; r < kRowsOfLanes; ++r) rows[r] = a + row_start(i + (r < count ? r : count - 1));
    return count;
}

inline void take_root(const Vector& x, Vector& root) {
    for (int l = 0; l < kLanes; ++l) root[l] = __builtin_sqrt(x[l]);
}

inline bool all_positive(const Vector& x) {
    bool all = true;
    for (int l = 0; l < kLanes; ++l) all &= x[l] > 0 && x[l] < kInfinity<double>;
    return all;
}

// In place; `inverse` becomes the reciprocals of the diagonal. False if a matrix is not positive definite.
inline bool factor_lanes(Vector* a, int64_t n, Vector* inverse) {
    for (int64_t i = 0; i < n; i += kRowsOfLanes) {
        const Vector* rows[kRowsOfLanes];
        const int count = rows_of_block(a, i, n, rows);
        for (int64_t j = 0; j < i; ++j) {
            Vector sums[kRowsOfLanes];
            for (int r = 0; r < kRowsOfLanes; ++r) sums[r] = rows[r][j];
            const Vector* other = a + row_start(j);
            subtract_dots(sums, rows, 0, j, [&](int64_t k) -> const Vector& { return other[k]; });
            for (int r = 0; r < count; ++r) a[row_start(i + r) + j] = sums[r] * inverse[j];
        }
        for (int64_t r = i; r < i + count; ++r) {
            Vector* row = a + row_start(r);
            for (int64_t j = i; j <= r; ++j) {
                const Vector* other = a + row_start(j);
                Vector even = row[j], odd{};
                int64_t k = 0;
                for (; k + 2 <= j; k += 2) even -= row[k] * other[k], odd -= row[k + 1] * other[k + 1];
                if (k < j) even -= row[k] * other[k];
                const Vector sum = even + odd;
                if (j < r) {
                    row[j] = sum * inverse[j];
                } else {
                    if (!all_positive(sum)) return false;
                    take_root(sum, row[j]);
                    inverse[j] = 1.0 / row[j];
                }
            }
        }
    }
    return true;
}

// W = L_q^-1 (L_p - L_q K) + K - I, and its sum of squares; K as in matrices.h is left in `keeps`.
inline void solve_lanes(const Vector* p, const Vector* q, Vector* w, int64_t n, const Vector* inverse, Vector* keeps, Vector& squares) {
    squares = Vector{};
    for (int64_t j = 0; j < n; ++j) {
        const Vector ratio = p[row_start(j) + j] * inverse[j];
        keeps[j] = (ratio > 0.5) & (ratio < 2.0) ? Vector{} + 1.0 : Vector{};
    }
    for (int64_t i = 0; i < n; i += kRowsOfLanes) {
        const Vector* rows[kRowsOfLanes];
        const int count = rows_of_block(q, i, n, rows);
        for (int64_t j = 0; j < i + count; ++j) {
            Vector sums[kRowsOfLanes] = {};
            for (int r = 0; r < count; ++r) {
                if (j <= i + r) sums[r] = p[row_start(i + r) + j] - keeps[j] * rows[r][j];
            }
            if (j < i) subtract_dots(sums, rows, j, i, [&](int64_t k) -> const Vector& { return w[row_start(k) + j]; });
            for (int64_t r = j > i ? j - i : 0; r < count; ++r) {
                for (int64_t above = j > i ? j - i : 0; above < r; ++above) sums[r] -= rows[r][i + above] * sums[above];
                sums[r] *= inverse[i + r];
                w[row_start(i + r) + j] = sums[r];
                squares += sums[r] * sums[r];
            }
        }
    }
    for (int64_t j = 0; j < n; ++j) {
        Vector& diagonal = w[row_start(j) + j];
        squares -= (1.0 - keeps[j]) * (2.0 * diagonal - 1.0);
        diagonal -= 1.0 - keeps[j];
    }
}

// |L^-1 shift|^2, or |L^T shift|^2.
inline void measure_shift(const Vector* l, const Vector* inverse, const double* shift, int64_t count, int64_t n,
                          bool transposed, Vector* y, Vector& sum) {
    for (int64_t i = 0; i < n; ++i) y[i] = Vector{};
    for (int64_t i = 0; i < n; ++i) {
        const Vector* row = l + row_start(i);
        Vector x;
        for (int lane = 0; lane < kLanes; ++lane) x[lane] = shift[(lane < count ? lane : count - 1) * n + i];
        if (transposed) {
            for (int64_t j = 0; j <= i; ++j) y[j] += x * row[j];
        } else {
            Vector even = x, odd{};
            int64_t k = 0;
            for (; k + 2 <= i; k += 2) even -= row[k] * y[k], odd -= row[k + 1] * y[k + 1];
            if (k < i) even -= row[k] * y[k];
            y[i] = (even + odd) * inverse[i];
        }
    }
    sum = Vector{};
    for (int64_t i = 0; i < n; ++i) sum += y[i] * y[i];
}

// Matrices [item, item + count) of the batch, count <= 8; those to be refined are left to compare_matrices.
template <class S>
bool compare_lanes(const MatrixCall& call, int64_t item, int64_t count, double* scratch) {
    const int64_t n = call.size, block = row_start(n);
    const bool swapped = call.kind == kByPrecisions;
    Vector *p = reinterpret_cast<Vector*>(scratch), *q = p + block, *w = q + block, *inverse = w + block, *y = inverse + n;
    load_lanes<S>(swapped ? call.q : call.p, item, count, p, n);
    load_lanes<S>(swapped ? call.p : call.q, item, count, q, n);
    if (call.kind == kByFactors) {
        for (int64_t i = 0; i < n; ++i) inverse[i] = 1.0 / q[row_start(i) + i];
    } else if (!factor_lanes(p, n, inverse) || !factor_lanes(q, n, inverse)) {
        return false;
    }
    Vector squares, distances, gaps{};
    solve_lanes(p, q, w, n, inverse, y, squares);
    for (int64_t i = 0; i < n; ++i) {
        const int64_t at = row_start(i) + i;
        double each[kLanes];
        for (int l = 0; l < kLanes; ++l) each[l] = diagonal_gap(p[at][l], q[at][l], w[at][l]);
        for (int l = 0; l < kLanes; ++l) gaps[l] += each[l];
    }
    measure_shift(swapped ? p : q, inverse, call.shift + item * n, count, n, swapped, y, distances);
    bool well = true;
    for (int l = 0; l < count; ++l) {
        if (call.kind != kByFactors && squares[l] < call.near) well &= compare_matrices<S>(call, item + l, scratch);
        else call.value[item + l] = 0.5 * (squares[l] + distances[l]) + gaps[l];
    }
    return well;
}

}  // namespace kullback::KULLBACK_SET
