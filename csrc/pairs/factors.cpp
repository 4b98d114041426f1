// Two lower triangular factors compared, for one instruction set; CMake compiles this file once per set.
//
// Forward substitution on L_p - L_q K, K a diagonal of ones and zeros, in panels of columns: eight rows at a time stay in
// registers while the rows above them stream by. Only the lower triangle is touched, a sixth of the operations of a general
// triangular solve, and everything is in double.
#include "factors.h"

#include "../elementwise.h"
#include "../math/log.h"
#include "apart.h"
#include "interleaved.h"
#include "low_rank.h"
#include "matrices.h"
#include "matrix_gradients.h"

namespace kullback::KULLBACK_SET {
namespace {

constexpr int kVectors = int(kPanel) / kLanes;

// Eight rows of a right side, N vectors of columns wide.
template <int N>
struct Tile {
    Vector rows[kRowsAtOnce][N];
};

// A factor as it is stored: its columns contiguous, as LAPACK leaves them, or its rows.
template <class S, bool kByColumns>
struct Factor {
    const S* data;
    int64_t n;

    double operator()(int64_t i, int64_t j) const { return double(kByColumns ? data[j * n + i] : data[i * n + j]); }

    // Where `pack` leaves column k of row r.
    static int64_t packed(int64_t r, int64_t k, int64_t n) { return kByColumns ? k * kRowsAtOnce + r : r * (n + kRowsAtOnce) + k; }

    // Rows i ... i + 7 from column `first` up to the diagonal, in the order of the storage; past the end row i again.
    void pack(int64_t i, int64_t first, double* out) const {
        const int64_t rows = n - i < kRowsAtOnce ? n - i : kRowsAtOnce;
        if constexpr (kByColumns) {
            if (rows == kRowsAtOnce) {
                for (int64_t k = first; k < i + rows; ++k) {
                    for (int64_t r = 0; r < kRowsAtOnce; ++r) out[(k - first) * kRowsAtOnce + r] = double(data[k * n + i + r]);
                }
                return;
            }
        }
        for (int64_t r = 0; r < kRowsAtOnce; ++r) {
            const int64_t row = i + (r < rows ? r : 0), width = row - first + 1;
            const S* from = data + (kByColumns ? first * n + row : row * n + first);
            double* to = out + packed(r, 0, n);
            for (int64_t k = 0; k < width; ++k) to[kByColumns ? k * kRowsAtOnce : k] = double(from[kByColumns ? k * n : k]);
        }
    }
};

// tile -= lower (8 x count) times above (count x 8 N).
template <class F, int N>
inline void subtract_product(Tile<N>& tile, const double* lower, int64_t n, const double* above, int64_t count) {
    Tile<N> t = tile;
    for (int64_t k = 0; k < count; ++k) {
        Vector row[N];
        __builtin_memcpy(row, above + k * N * kLanes, sizeof(row));
        for (int r = 0; r < kRowsAtOnce; ++r) {
            const double factor = lower[F::packed(r, k, n)];
            for (int v = 0; v < N; ++v) t.rows[r][v] -= factor * row[v];
        }
    }
    tile = t;
}

// The tile at row i solved for, given the rows `first` ... i of the solution in `above`, to which it is added.
template <class F, int N>
inline void substitute(const F& q, int64_t i, int64_t first, Tile<N>& tile, double* above, double* lower) {
    const int64_t before = i - first, rows = q.n - i < kRowsAtOnce ? q.n - i : kRowsAtOnce;
    q.pack(i, first, lower);
    subtract_product<F>(tile, lower, q.n, above, before);
    for (int64_t r = 0; r < rows; ++r) {
        for (int64_t k = 0; k < r; ++k) {
            const double factor = lower[F::packed(r, before + k, q.n)];
            for (int v = 0; v < N; ++v) tile.rows[r][v] -= factor * tile.rows[k][v];
        }
        const double inverse = 1 / lower[F::packed(r, before + r, q.n)];
        for (int v = 0; v < N; ++v) tile.rows[r][v] *= inverse;
    }
    __builtin_memcpy(above + before * N * kLanes, &tile, static_cast<size_t>(rows) * sizeof(tile.rows[0]));
}

// Eight columns, each a vector of rows, to eight rows.
inline void transpose(Vector (&x)[kLanes]) {
    typedef int64_t Index __attribute__((vector_size(8 * kLanes)));
    constexpr Index low[3] = {{0, 8, 2, 10, 4, 12, 6, 14}, {0, 1, 8, 9, 4, 5, 12, 13}, {0, 1, 2, 3, 8, 9, 10, 11}};
    constexpr Index high[3] = {{1, 9, 3, 11, 5, 13, 7, 15}, {2, 3, 10, 11, 6, 7, 14, 15}, {4, 5, 6, 7, 12, 13, 14, 15}};
    for (int level = 0; level < 3; ++level) {
        const int apart = 1 << level;
        for (int i = 0; i < kLanes; ++i) {
            if (i & apart) continue;
            const Vector a = x[i], b = x[i + apart];
            x[i] = __builtin_shuffle(a, b, low[level]), x[i + apart] = __builtin_shuffle(a, b, high[level]);
        }
    }
}

// Eight numbers as doubles. Written lane by lane the loop below is miscompiled by GCC 12's elimination of redundancies.
template <class S>
inline Vector widened(const S* from) {
    typedef S Stored __attribute__((vector_size(sizeof(S) * kLanes)));
    Stored stored;
    __builtin_memcpy(&stored, from, sizeof(stored));
    return __builtin_convertvector(stored, Vector);
}

// L_p - L_q K at rows i ... i + 7 of a panel; zero above the diagonal and past the end.
template <class S, bool kByColumns>
inline void load_difference(const Factor<S, kByColumns>& p, const Factor<S, kByColumns>& q, const double* keeps, int64_t i, int64_t first,
                            int64_t width, Tile<kVectors>& tile) {
    if (kByColumns && i >= first + kPanel && i + kRowsAtOnce <= q.n) {
        for (int v = 0; v < kVectors; ++v) {
            Vector columns[kLanes];
            for (int c = 0; c < kLanes; ++c) {
                const int64_t at = (first + v * kLanes + c) * q.n + i;
                columns[c] = widened(p.data + at) - keeps[v * kLanes + c] * widened(q.data + at);
            }
            transpose(columns);
            for (int r = 0; r < kRowsAtOnce; ++r) tile.rows[r][v] = columns[r];
        }
        return;
    }
    for (int64_t r = 0; r < kRowsAtOnce; ++r) {
        const int64_t row = i + r, reached = row - first + 1 < width ? row - first + 1 : width, inside = row < q.n ? reached : 0;
        double start[kPanel] = {};
        const int64_t at = kByColumns ? first * q.n + row : row * q.n + first, step = kByColumns ? q.n : 1;
        for (int64_t c = 0; c < inside; ++c) start[c] = double(p.data[at + c * step]) - keeps[c] * double(q.data[at + c * step]);
        __builtin_memcpy(&tile.rows[r], start, sizeof(start));
    }
}

template <class S, bool kByColumns>
Factor<S, kByColumns> factor_of(const void* data, int64_t n, int64_t at) {
    return {static_cast<const S*>(data) + at, n};
}

template <class S, bool kByColumns>
void panel_of(const FactorCall& call, int64_t b, int64_t first, double* scratch) {
    const int64_t n = call.size, width = n - first < kPanel ? n - first : kPanel;
    const auto p = factor_of<S, kByColumns>(call.lower_p, n, b * call.stride_p);
    const auto q = factor_of<S, kByColumns>(call.lower_q, n, b * call.stride_q);
    double* w = call.w == nullptr ? nullptr : call.w + b * n * n;
    double* panel = scratch;                               // rows first ... n of the panel
    double* lower = scratch + (n + kRowsAtOnce) * kPanel;  // eight rows of L_q from column `first` on
    for (int64_t i = 0; i < first && w != nullptr; ++i) {
        for (int64_t c = 0; c < width; ++c) w[i * n + first + c] = 0;
    }
    double keeps[kPanel] = {};  // K
    for (int64_t c = 0; c < width; ++c) keeps[c] = kept(p(first + c, first + c) / q(first + c, first + c));
    Vector squares{};
    double gap = 0, less = 0;
    for (int64_t i = first; i < n; i += kRowsAtOnce) {
        const int64_t rows = n - i < kRowsAtOnce ? n - i : kRowsAtOnce;
        Tile<kVectors> tile;
        load_difference(p, q, keeps, i, first, width, tile);
        substitute(q, i, first, tile, panel, lower);
        for (int64_t r = 0; r < rows; ++r) {
            const double* found = panel + (i - first + r) * kPanel;
            for (int v = 0; v < kVectors; ++v) squares += tile.rows[r][v] * tile.rows[r][v];
            for (int64_t c = 0; c < width && w != nullptr; ++c) w[(i + r) * n + first + c] = found[c];
            const int64_t on = i - first + r;
            if (on >= width) continue;
            const double diagonal = found[on] - (1 - keeps[on]);
            if (keeps[on] == 0) less += 2 * found[on] - 1;
            if (w != nullptr) w[(i + r) * n + i + r] = diagonal;
            gap += diagonal_gap(p(i + r, i + r), q(i + r, i + r), diagonal);
        }
    }
    double* parts = call.parts + (b * (panels_of(n) + 1) + first / kPanel) * 3;
    parts[0] = sum_of(squares) - less, parts[1] = gap;
}

// Seven signs that look random, in lanes 1 to 7.
inline void draw_signs(uint64_t i, Vector& out) {
    uint64_t z = (i + 1) * 0x9E3779B97F4A7C15u;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    for (int l = 1; l < kLanes; ++l) out[l] = (z >> (8 * l)) & 1 ? 1.0 : -1.0;
}

// Of rows i ... as `pack` left them, from column 0 up to the diagonal.
template <class F, bool kByColumns>
inline double squares_of_packed(const double* lower, int64_t n, int64_t i, int64_t rows) {
    double sum = kByColumns && rows == kRowsAtOnce ? dot(lower, lower, i * kRowsAtOnce) : 0;
    for (int64_t r = 0; r < rows; ++r) {
        if (!kByColumns) sum += dot(lower + F::packed(r, 0, n), lower + F::packed(r, 0, n), i);
        for (int64_t k = kByColumns && rows < kRowsAtOnce ? 0 : i; k <= i + r; ++k) {
            sum += lower[F::packed(r, k, n)] * lower[F::packed(r, k, n)];
        }
    }
    return sum;
}

// L^-1 (shift, signs) and, where traces are wanted, those of L L^T and, estimated, of its inverse, whose mean over random
// signs r is |L^-1 r|^2.
template <class S, bool kByColumns>
double solve_vectors(const Factor<S, kByColumns>& l, const double* shift, double* y, double* traces, double* scratch) {
    const int64_t n = l.n;
    double* lower = scratch + (n + kRowsAtOnce) * kLanes;
    Vector squares{};
    double entries = 0;
    for (int64_t i = 0; i < n; i += kRowsAtOnce) {
        const int64_t rows = n - i < kRowsAtOnce ? n - i : kRowsAtOnce;
        Tile<1> tile{};
        for (int64_t r = 0; r < rows; ++r) {
            if (traces != nullptr) draw_signs(static_cast<uint64_t>(i + r), tile.rows[r][0]);
            if (shift != nullptr) tile.rows[r][0][0] = shift[i + r];
        }
        substitute(l, i, 0, tile, scratch, lower);
        for (int64_t r = 0; r < rows; ++r) {
            squares += tile.rows[r][0] * tile.rows[r][0];
            if (y != nullptr) y[i + r] = tile.rows[r][0][0];
        }
        if (traces != nullptr) entries += squares_of_packed<Factor<S, kByColumns>, kByColumns>(lower, n, i, rows);
    }
    if (traces != nullptr) traces[0] = entries, traces[1] = (sum_of(squares) - squares[0]) / (kLanes - 1);
    return squares[0];
}

template <class S, bool kByColumns>
void run_item(const FactorCall& call, int64_t index, double* scratch) {
    const int64_t n = call.size, items = items_of(call), b = index / items, panel = index - b * items;
    double* traces = call.traces == nullptr ? nullptr : call.traces + 4 * b;
    if (panel < panels_of(n)) {
        panel_of<S, kByColumns>(call, b, panel * kPanel, scratch);
    } else if (panel == panels_of(n)) {
        const auto q = factor_of<S, kByColumns>(call.lower_q, n, b * call.stride_q);
        double* parts = call.parts + (b * (panels_of(n) + 1) + panel) * 3;
        parts[2] = solve_vectors(q, call.shift + b * n, call.y + b * n, traces, scratch);
    } else {
        const auto p = factor_of<S, kByColumns>(call.lower_p, n, b * call.stride_p);
        solve_vectors(p, nullptr, nullptr, traces + 2, scratch);
    }
}

template <class S>
void item(const FactorCall& call, int64_t index, double* scratch) {
    call.by_columns != 0 ? run_item<S, true>(call, index, scratch) : run_item<S, false>(call, index, scratch);
}

}  // namespace

extern const FactorKernels kFactors;
const FactorKernels kFactors = {{item<double>, item<float>},
                                {compare_matrices<double>, compare_matrices<float>},
                                {compare_lanes<double>, compare_lanes<float>},
                                {compare_low_rank<double>, compare_low_rank<float>},
                                {matrix_gradients<double>, matrix_gradients<float>},
                                {factor_low_rank<double>, factor_low_rank<float>},
                                {compare_apart<double>, compare_apart<float>}};

}  // namespace kullback::KULLBACK_SET
