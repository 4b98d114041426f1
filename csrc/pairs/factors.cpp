// Two lower triangular factors compared, for one instruction set; CMake compiles this file once per set.
//
// Forward substitution on L_p - L_q in panels of columns: eight rows at a time stay in registers while the rows above them
// stream by. Only the lower triangle is touched, a sixth of the operations of a general triangular solve, and everything is
// in double.
#include "factors.h"

#include "../elementwise.h"
#include "../math/log.h"
#include "interleaved.h"
#include "low_rank.h"
#include "matrices.h"

namespace kullback::KULLBACK_SET {
namespace {

constexpr int kVectors = int(kPanel) / kLanes;

struct Tile {
    Vector rows[kRowsAtOnce][kVectors];
};

// tile -= lower (8 x count) times panel (count x 24).
inline void subtract_product(Tile& tile, const double* lower, int64_t stride, const double* panel, int64_t count) {
    Tile t = tile;
    for (int64_t k = 0; k < count; ++k) {
        Vector above[kVectors];
        for (int v = 0; v < kVectors; ++v) __builtin_memcpy(&above[v], panel + k * kPanel + v * kLanes, sizeof(Vector));
        for (int r = 0; r < kRowsAtOnce; ++r) {
            const double factor = lower[r * stride + k];
            for (int v = 0; v < kVectors; ++v) t.rows[r][v] -= factor * above[v];
        }
    }
    tile = t;
}

template <class S>
const S* matrix(const void* data, int64_t index) {
    return static_cast<const S*>(data) + index;
}

template <class S>
void panel_of(const FactorCall& call, int64_t b, int64_t first, double* scratch) {
    const int64_t n = call.size, width = n - first < kPanel ? n - first : kPanel;
    const S* p = matrix<S>(call.lower_p, b * call.stride_p);
    const S* q = matrix<S>(call.lower_q, b * call.stride_q);
    double* w = call.w == nullptr ? nullptr : call.w + b * n * n;
    double* panel = scratch;                    // rows first ... n of the panel
    double* lower = scratch + (n + kRowsAtOnce) * kPanel;  // eight rows of L_q from column `first` on
    for (int64_t i = 0; i < first && w != nullptr; ++i) {
        for (int64_t c = 0; c < width; ++c) w[i * n + first + c] = 0;
    }
    const int64_t stride = n + kRowsAtOnce;
    Vector squares{};
    double gap = 0;
    for (int64_t i = first; i < n; i += kRowsAtOnce) {
        const int64_t rows = n - i < kRowsAtOnce ? n - i : kRowsAtOnce, before = i - first;
        Tile tile{};
        for (int64_t r = 0; r < kRowsAtOnce; ++r) {
            const int64_t row = i + (r < rows ? r : 0);  // rows past the end repeat one; their results are not stored
            const S* row_q = q + row * n + first;
            for (int64_t k = 0; k < before; ++k) lower[r * stride + k] = double(row_q[k]);
            for (int64_t k = before; k <= row - first; ++k) lower[r * stride + k] = double(row_q[k]);
            double start[kPanel] = {};
            const S* row_p = p + row * n + first;
            const int64_t inside = row - first + 1 < width ? row - first + 1 : width;
            for (int64_t c = 0; c < inside; ++c) start[c] = double(row_p[c]) - double(row_q[c]);
            __builtin_memcpy(&tile.rows[r], start, sizeof(start));
        }
        subtract_product(tile, lower, stride, panel, before);
        for (int64_t r = 0; r < rows; ++r) {
            for (int64_t above = 0; above < r; ++above) {
                const double factor = lower[r * stride + before + above];
                for (int v = 0; v < kVectors; ++v) tile.rows[r][v] -= factor * tile.rows[above][v];
            }
            const double inverse = 1 / lower[r * stride + before + r];
            for (int v = 0; v < kVectors; ++v) tile.rows[r][v] *= inverse;
            double* found = panel + (before + r) * kPanel;
            __builtin_memcpy(found, &tile.rows[r], sizeof(tile.rows[r]));
            for (int v = 0; v < kVectors; ++v) squares += tile.rows[r][v] * tile.rows[r][v];
            for (int64_t c = 0; c < width && w != nullptr; ++c) w[(i + r) * n + first + c] = found[c];
            if (i + r < first + width) {
                const double on_p = double(p[(i + r) * n + i + r]), on_q = double(q[(i + r) * n + i + r]);
                gap += diagonal_gap(on_p, on_q, found[before + r]);
            }
        }
    }
    double* parts = call.parts + (b * (panels_of(n) + 1) + first / kPanel) * 3;
    parts[0] = sum_of(squares), parts[1] = gap;
}

template <class S>
void shift_of(const FactorCall& call, int64_t b, double* row) {
    const int64_t n = call.size;
    const S* q = matrix<S>(call.lower_q, b * call.stride_q);
    const double* shift = call.shift + b * n;
    double* y = call.y + b * n;
    double square = 0;
    for (int64_t i = 0; i < n; ++i) {
        for (int64_t k = 0; k < i; ++k) row[k] = double(q[i * n + k]);
        Vector sums{};
        int64_t k = 0;
        for (; k + kLanes <= i; k += kLanes) {
            Vector l, x;
            __builtin_memcpy(&l, row + k, sizeof(l));
            __builtin_memcpy(&x, y + k, sizeof(x));
            sums += l * x;
        }
        double sum = 0;
        for (int l = 0; l < kLanes; ++l) sum += sums[l];
        for (; k < i; ++k) sum += row[k] * y[k];
        y[i] = (shift[i] - sum) / double(q[i * n + i]);
        square += y[i] * y[i];
    }
    call.parts[(b * (panels_of(n) + 1) + panels_of(n)) * 3 + 2] = square;
}

template <class S>
void item(const FactorCall& call, int64_t index, double* scratch) {
    const int64_t items = panels_of(call.size) + 1, b = index / items, panel = index - b * items;
    if (panel + 1 == items) shift_of<S>(call, b, scratch);
    else panel_of<S>(call, b, panel * kPanel, scratch);
}

}  // namespace

extern const FactorKernels kFactors;
const FactorKernels kFactors = {{item<double>, item<float>},
                                {compare_matrices<double>, compare_matrices<float>},
                                {compare_lanes<double>, compare_lanes<float>},
                                {compare_low_rank<double>, compare_low_rank<float>}};

}  // namespace kullback::KULLBACK_SET
