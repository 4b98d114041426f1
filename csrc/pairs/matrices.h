// Two small positive definite matrices compared, all of it in one thread's scratch; see factors.h.
//
// Rows are padded to whole vectors, so that no loop has a rest; what lies past a row's end is zero or is not read.
#pragma once

#include "../math/log.h"
#include "factors.h"

namespace kullback::KULLBACK_SET {

constexpr int kLanes = 8;
typedef double Vector __attribute__((vector_size(8 * kLanes), aligned(8)));

inline double sum_of(const Vector& v) {
    return ((v[0] + v[1]) + (v[2] + v[3])) + ((v[4] + v[5]) + (v[6] + v[7]));
}

// w - log(1+w) of a diagonal entry, 1 + w = p/q; w - 2 s is exactly w s where log(1+w) = 2 atanh(s).
inline double diagonal_gap(double p, double q, double w) {
    const LogRatio l = split_log_ratio(p, q);
    return l.k == 0 ? l.s * (w - 2 * (l.s * l.s) * l.remainder) : w - log_of(l);
}

// target -= factor source over [begin, end), both rounded to whole vectors.
inline void subtract_row(double* target, double factor, const double* source, int64_t begin, int64_t end) {
    for (int64_t j = begin / kLanes * kLanes; j < end; j += kLanes) {
        Vector x, y;
        __builtin_memcpy(&x, target + j, sizeof(x));
        __builtin_memcpy(&y, source + j, sizeof(y));
        x -= factor * y;
        __builtin_memcpy(target + j, &x, sizeof(x));
    }
}

inline double dot(const double* x, const double* y, int64_t n) {
    Vector sum{};
    for (int64_t j = 0; j < n; j += kLanes) {
        Vector a, b;
        __builtin_memcpy(&a, x + j, sizeof(a));
        __builtin_memcpy(&b, y + j, sizeof(b));
        sum += a * b;
    }
    return sum_of(sum);
}

// Lower triangle of an n x n matrix, zeros above and past the end.
template <class S>
void load_lower(const S* a, double* out, int64_t n, int64_t stride) {
    for (int64_t i = 0; i < n; ++i) {
        for (int64_t j = 0; j <= i; ++j) out[i * stride + j] = double(a[i * n + j]);
        for (int64_t j = i + 1; j < stride; ++j) out[i * stride + j] = 0;
    }
}

constexpr int kColumns = 4;

// In place, four columns at a time; false if the matrix is not positive definite. `columns` holds four rows.
inline bool factor_lower(double* a, int64_t n, int64_t stride, double* columns) {
    for (int64_t j = 0; j < kColumns * stride; ++j) columns[j] = 0;
    for (int64_t first = 0; first < n; first += kColumns) {
        const int64_t next = first + kColumns < n ? first + kColumns : n;
        for (int64_t k = first; k < next; ++k) {
            double* column = columns + (k - first) * stride;
            for (int64_t i = k; i < n; ++i) {
                double x = a[i * stride + k];
                for (int64_t r = first; r < k; ++r) x -= a[i * stride + r] * a[k * stride + r];
                a[i * stride + k] = x;
            }
            const double square = a[k * stride + k];
            if (!(square > 0) || square == kInfinity<double>) return false;
            const double root = __builtin_sqrt(square), inverse = 1 / root;
            a[k * stride + k] = root;
            for (int64_t i = k + 1; i < n; ++i) column[i] = a[i * stride + k] *= inverse;
        }
        // Columns before `next` are final: a vector that begins before it must not change them.
        for (int64_t k = first; k < next; ++k) {
            for (int64_t j = first / kLanes * kLanes; j < next; ++j) columns[(k - first) * stride + j] = 0;
        }
        for (int64_t i = next; i < n; ++i) {
            double* row = a + i * stride;
            double factors[kColumns] = {};
            for (int64_t k = first; k < next; ++k) factors[k - first] = row[k];
            for (int64_t j = next / kLanes * kLanes; j <= i; j += kLanes) {
                Vector x;
                __builtin_memcpy(&x, row + j, sizeof(x));
                for (int r = 0; r < kColumns; ++r) {
                    Vector y;
                    __builtin_memcpy(&y, columns + r * stride + j, sizeof(y));
                    x -= factors[r] * y;
                }
                __builtin_memcpy(row + j, &x, sizeof(x));
            }
            for (int64_t j = i + 1; j < i / kLanes * kLanes + kLanes; ++j) row[j] = 0;
        }
    }
    return true;
}

// Vectors [at, at + N) of one row of x, less what the rows from `begin` on contribute, times `inverse`.
template <int N>
inline void solve_piece(const double* l, double* x, int64_t i, int64_t begin, int64_t at, int64_t stride, double inverse) {
    Vector sums[N];
    __builtin_memcpy(sums, x + i * stride + at, sizeof(sums));
    for (int64_t k = begin; k < i; ++k) {
        for (int v = 0; v < N; ++v) {
            Vector above;
            __builtin_memcpy(&above, x + k * stride + at + v * kLanes, sizeof(above));
            sums[v] -= l[k] * above;
        }
    }
    for (int v = 0; v < N; ++v) sums[v] *= inverse;
    __builtin_memcpy(x + i * stride + at, sums, sizeof(sums));
}

// x = L^-1 x, x lower triangular itself if `lower` says so.
inline void solve_rows(const double* l, double* x, int64_t n, int64_t stride, bool lower) {
    for (int64_t i = 0; i < n; ++i) {
        const double inverse = 1 / l[i * stride + i];
        const int64_t end = lower ? i + 1 : n;
        for (int64_t at = 0; at < end; at += 4 * kLanes) {
            const int64_t begin = lower ? at : 0;  // rows above are zero here
            const int64_t left = (stride - at) / kLanes;
            if (left >= 4) solve_piece<4>(l + i * stride, x, i, begin, at, stride, inverse);
            else if (left == 3) solve_piece<3>(l + i * stride, x, i, begin, at, stride, inverse);
            else if (left == 2) solve_piece<2>(l + i * stride, x, i, begin, at, stride, inverse);
            else solve_piece<1>(l + i * stride, x, i, begin, at, stride, inverse);
        }
    }
}

inline void transpose(double* x, int64_t n, int64_t stride) {
    for (int64_t i = 0; i < n; ++i) {
        for (int64_t j = 0; j < i; ++j) {
            const double t = x[i * stride + j];
            x[i * stride + j] = x[j * stride + i], x[j * stride + i] = t;
        }
    }
}

// Of K: 0 for a column of L_p on another scale than L_q's, which would be lost beside it, and is solved for alone; that leaves
// 1 + w on its diagonal.
inline double kept(double ratio) { return ratio > 0.5 && ratio < 2 ? 1.0 : 0.0; }

struct Sums {
    double square, gap;
};

// W = Phi(E - W0 W0^T), E = L^-1 (A - B) L^-T, Phi the lower half: an error r of W0 enters only as |W0| r. `e` is scratch.
template <class S>
Sums refined(const S* a, const S* b, const double* l, const double* w, double* e, int64_t n, int64_t stride) {
    bool equal = true;
    for (int64_t i = 0; i < n; ++i) {
        for (int64_t j = 0; j <= i; ++j) {
            const double gap = double(a[i * n + j]) - double(b[i * n + j]);
            equal &= gap == 0;
            e[i * stride + j] = e[j * stride + i] = gap;
        }
        for (int64_t j = n; j < stride; ++j) e[i * stride + j] = 0;
    }
    if (equal) return {0, 0};
    solve_rows(l, e, n, stride, false);
    transpose(e, n, stride);
    solve_rows(l, e, n, stride, false);
    Sums found{0, 0};
    for (int64_t i = 0; i < n; ++i) {
        for (int64_t j = 0; j <= i; ++j) {
            const double whole = e[i * stride + j] - dot(w + i * stride, w + j * stride, j + 1);
            const double half = i == j ? 0.5 * whole : whole;
            found.square += half * half;
            if (i == j) found.gap += -log1pmx_of(half);
        }
    }
    return found;
}

// What is on the diagonal of I + W is known from the factors.
inline Sums plain(const double* w, const double* p, const double* q, int64_t n, int64_t stride) {
    Vector squares{};
    double gap = 0;
    for (int64_t i = 0; i < n; ++i) {
        for (int64_t j = 0; j <= i; j += kLanes) {
            Vector x;
            __builtin_memcpy(&x, w + i * stride + j, sizeof(x));
            squares += x * x;
        }
        gap += diagonal_gap(p[i * stride + i], q[i * stride + i], w[i * stride + i]);
    }
    return {sum_of(squares), gap};
}

template <class S>
bool compare_matrices(const MatrixCall& call, int64_t item, double* scratch) {
    const int64_t n = call.size, stride = matrix_stride(n), block = n * stride;
    const S *a = static_cast<const S*>(call.p) + item * n * n, *b = static_cast<const S*>(call.q) + item * n * n;
    if (call.kind == kByPrecisions) {
        const S* swap = a;
        a = b, b = swap;
    }
    double *p = scratch, *q = p + block, *w = q + block, *e = w + block, *row = e + block;
    load_lower(a, p, n, stride);
    load_lower(b, q, n, stride);
    if (call.kind != kByFactors && !(factor_lower(p, n, stride, row) && factor_lower(q, n, stride, row))) return false;
    // L_p - L_q K, as in factors.cpp; `row` holds K.
    for (int64_t j = 0; j < stride; ++j) row[j] = j < n ? kept(p[j * stride + j] / q[j * stride + j]) : 1.0;
    for (int64_t i = 0; i < n; ++i) {
        for (int64_t j = 0; j < stride; ++j) w[i * stride + j] = p[i * stride + j] - row[j] * q[i * stride + j];
    }
    solve_rows(q, w, n, stride, true);
    for (int64_t j = 0; j < n; ++j) w[j * stride + j] -= 1 - row[j];
    Sums sums = plain(w, p, q, n, stride);
    if (call.kind != kByFactors && sums.square < call.near) sums = refined(a, b, q, w, e, n, stride);
    const double* shift = call.shift + item * n;
    double distance = 0;
    if (call.kind == kByPrecisions) {
        // The factor of q's precision matrix is p here: its transpose times the shift.
        for (int64_t j = 0; j < stride; ++j) row[j] = 0;
        for (int64_t i = 0; i < n; ++i) subtract_row(row, shift[i], p + i * stride, 0, i + 1);
        distance = dot(row, row, n);
    } else {
        for (int64_t j = 0; j < stride; ++j) row[j] = 0;
        for (int64_t i = 0; i < n; ++i) {
            row[i] = (shift[i] - dot(q + i * stride, row, i)) / q[i * stride + i];
            distance += row[i] * row[i];
        }
    }
    call.value[item] = 0.5 * (sums.square + distance) + sums.gap;
    return true;
}

}  // namespace kullback::KULLBACK_SET
