// A request to the row kernels, as Python packs it (src/kullback/kernels/native_rows.py): fields of 8 bytes, in this order.
#pragma once

#include <cstdint>

namespace kullback {

// Which function of two rows.
enum class RowFunction : int64_t {
    kKl = 0,       // KL(p || q)
    kMixture = 1,  // A KL(p || m) + B KL(q || m), m = share p + (1 - share) q, 0 < share < 1
    kCrossEntropy = 2,  // -sum p log q; with the same side twice the entropy, whose derivative to q is 0
    kLogSum = 3,        // the log of the sum of the weights of p; q is the same side
    kPower = 4,         // L = log sum p^share q^(1 - share), 0 < share != 1
    kJeffreys = 5,      // KL(p || q) + KL(q || p)
    kVariation = 6,     // total variation
    kMeasures = 7,      // KL(p || q); the statistics hold the other measures and `gradient` the top classes, see measures.h
    kGeneralized = 8,   // sum p log(p/q) - p + q of weights that need not sum to 1
};

// What becomes of the function's value f of a row in the end.
enum class Outer : int64_t {
    kNone = 0,
    kTimes = 1,       // unit f
    kRoot = 2,        // sqrt(unit f), with slope 0 at 0
    kExpm1 = 3,       // e^f - 1
    kRootOfLack = 4,  // sqrt(1 - e^f), with slope 0 at 0
};

// One side: how its rows lie and what their numbers mean.
struct RowsSide {
    int64_t row_stride;    // in elements; 0 repeats one row
    int64_t class_stride;
    int64_t dtype;         // as abi.h numbers them
    int64_t linear;        // 1: weights; 0: logarithms of weights
    double smoothing;      // added to every weight
    double tolerance;      // how far from 0 the log of a row's sum may be before the row is reported
};

// What the backward pass knows of a row without reading it. Log-weights are a = log p's - shift[0], b = log q's - shift[1].
struct RowStatistics {
    double shift[2];
    double scale[2], total[2];  // sum e^a = 2^scale[0] total[0], sum e^b = 2^scale[1] total[1]
    double gap, gap_low;        // log of the ratio of these sums, b's over a's, as an unevaluated sum
    double kl;                  // KL(p || q); of total variation in the end E_p |log q/p|
    double value;               // of the function, before the outer one; of measures total variation
    double mean[2];             // of a mixture: the means of its derivatives with respect to p and q; of a cross-entropy: E_p b,
                                // as an unevaluated sum; of Jeffreys: nothing and KL(q || p); of total variation: see
                                // symmetric.h; of measures: Jensen-Shannon and KL(q || p)
    int64_t state;              // of RowState, added up
};

enum RowState : int64_t {
    kClean = 0,
    kMasked = 1,     // a log-weight is -inf
    kDouble = 2,     // computed in double although the input is narrower
    kInfinite = 4,   // q is zero where p is not
    kAbsent = 8,     // the row is left out
    kUndefined = 16,  // NaN, +inf, or no weight at all
    kRefined = 32     // the gap comes from a second pass
};

// First what every call has of its own, then what calls of one kind share.
struct RowsCall {
    int64_t rows;
    int64_t threads;
    const int64_t* layout;       // null, or {dimensions, sizes, p's strides, q's strides} of a batch with jumps
    const uint8_t* keep;         // null, or one byte a row: 0 leaves it out
    RowStatistics* statistics;   // null if no backward pass will follow
    void* value;                 // forward
    const void* grad;            // backward: incoming gradient of each row
    int64_t grad_stride;         // in elements
    const void* data[2];
    void* gradient[2];           // contiguous rows of the dtype of the side, or null; backward, and see kMeasures and `written`
    uint8_t* written;            // null, or one byte a row: 1 where the forward pass has written the gradient instead of statistics

    int64_t function;            // RowFunction
    int64_t classes;
    int64_t wide;                // 1: computation is in double; 0: in float where that is accurate enough
    int64_t result_wide;         // 1: value and grad are double; 0: float
    double share, weights[2];    // of a mixture: share, A, B; of a power: share; of measures: how many top classes
    int64_t outer;               // Outer
    double unit;                 // of the outer function
    RowsSide sides[2];
};

inline bool is_mixture(const RowsCall& call) { return call.function == int64_t(RowFunction::kMixture); }
inline bool is_entropy(const RowsCall& call) {
    return call.function == int64_t(RowFunction::kCrossEntropy) || call.function == int64_t(RowFunction::kLogSum);
}
inline bool is_power(const RowsCall& call) { return call.function == int64_t(RowFunction::kPower); }
inline bool is_jeffreys(const RowsCall& call) { return call.function == int64_t(RowFunction::kJeffreys); }
inline bool is_variation(const RowsCall& call) { return call.function == int64_t(RowFunction::kVariation); }
inline bool is_generalized(const RowsCall& call) { return call.function == int64_t(RowFunction::kGeneralized); }
inline bool is_measures(const RowsCall& call) { return call.function == int64_t(RowFunction::kMeasures); }
// A function that follows from the log-ratios that KL(p || q) is found with.
inline bool follows_kl(const RowsCall& call) { return is_mixture(call) || is_power(call) || is_jeffreys(call) || is_variation(call); }

// Rows of floats up to this length have their exponentials in the first-level cache until their sums are known: a forward pass may
// write their gradients, for a backward pass to multiply by the incoming gradient.
constexpr int64_t kClassesAtOnce = 4096;
inline bool writes_at_once(const RowsCall& call) {
    const bool of_floats = call.sides[0].dtype == 1 && call.sides[1].dtype == 1 && !call.sides[0].linear && !call.sides[1].linear;
    const bool plain = call.function == int64_t(RowFunction::kKl) && call.outer <= int64_t(Outer::kTimes);
    return plain && of_floats && !call.wide && call.classes <= kClassesAtOnce;
}

// Whether both sides are one: the same numbers in the same order with the same meaning.
inline bool is_one_sided(const RowsCall& call) {
    if (!is_entropy(call) || call.data[0] != call.data[1]) return false;
    const RowsSide &p = call.sides[0], &q = call.sides[1];
    for (int64_t d = 1; call.layout != nullptr && d <= call.layout[0]; ++d) {
        if (call.layout[call.layout[0] + d] != call.layout[2 * call.layout[0] + d]) return false;
    }
    return p.row_stride == q.row_stride && p.class_stride == q.class_stride && p.dtype == q.dtype && p.linear == q.linear &&
           p.smoothing == q.smoothing;
}

// Rows [begin, end). The forward pass returns 1 for a row of p, 2 for a row of q that may break the rules of its view, added
// up.
using RowsKernel = int64_t (*)(const RowsCall&, int64_t begin, int64_t end);

struct RowKernels {
    RowsKernel forward, backward;
};

}  // namespace kullback
