// A request to compare two lower triangular factors, as Python packs it (src/kullback/kernels/factor_op.py).
#pragma once

#include <cstdint>

namespace kullback {

// W with L_p = L_q (I + W) and y = L_q^-1 shift, and of each matrix of the batch
//   ||W||^2, the sum over i of w_ii - log(1 + w_ii), ||y||^2.
struct FactorCall {
    int64_t dtype;  // of the factors, as abi.h numbers them: 0 or 1
    int64_t batch, size, threads;
    const void *lower_p, *lower_q;       // what is above the diagonal does not count
    int64_t by_columns;                  // 1 if their columns are contiguous, else their rows are
    int64_t stride_p, stride_q;          // from one matrix to the next, in elements; 0 repeats one
    const double* shift;                 // batch x size
    double *w, *y;                       // batch x size x size (null: not wanted), batch x size
    double* parts;                       // batch x (panels + 1) x 3, zeros at first; the three sums in parts
    double* traces;                      // batch x 4 (null: not wanted): of Sigma_q, its inverse (estimated), and p's two
};

// One column panel of one matrix, y with q's traces, or p's traces: item in [0, batch * items_of(call)).
using FactorKernel = void (*)(const FactorCall&, int64_t item, double* scratch);

// 24 vectors of sums stay in registers, three more pass by: few enough loads that the second cache keeps up.
constexpr int64_t kPanel = 24;
constexpr int64_t kRowsAtOnce = 8;

inline int64_t panels_of(int64_t size) { return (size + kPanel - 1) / kPanel; }
inline int64_t items_of(const FactorCall& call) { return panels_of(call.size) + (call.traces == nullptr ? 1 : 2); }
inline int64_t factor_scratch(int64_t size) { return (size + kRowsAtOnce) * (kPanel + kRowsAtOnce); }

// The same three sums for small matrices given as they are: covariances, or precision matrices (whose roles are exchanged,
// since the inverse of Sigma_q times Sigma_p is P_q times the inverse of P_p). They are factored in scratch, and where
// ||W||^2 is below `near` W is refined from the difference of the matrices (relative_factor.py).
enum MatrixKind : int64_t { kByFactors = 0, kByCovariances = 1, kByPrecisions = 2 };

struct MatrixCall {
    int64_t dtype;
    int64_t batch, size, threads;
    const void *p, *q;      // rows contiguous; of the matrices only what is on and below the diagonal is read
    const double* shift;    // batch x size
    double* value;          // batch
    int64_t kind;
    double near;
};

// One matrix of the batch; false if it is not positive definite. scratch holds matrix_scratch(size) doubles.
using MatrixKernel = bool (*)(const MatrixCall&, int64_t item, double* scratch);

// Matrices [item, item + count) of the batch at once, count <= kMatrixLanes. scratch holds lanes_scratch(size) doubles.
using LanesKernel = bool (*)(const MatrixCall&, int64_t item, int64_t count, double* scratch);

constexpr int64_t kLargestMatrix = 96;
constexpr int64_t kMatrixLanes = 8, kLargestInLanes = 64;
inline int64_t matrix_stride(int64_t size) { return (size + 7) / 8 * 8; }
inline int64_t matrix_scratch(int64_t size) { return (4 * size + 4) * matrix_stride(size); }
inline int64_t lanes_scratch(int64_t size) { return kMatrixLanes * (3 * (size * (size + 1) / 2) + 2 * size); }

// The gradients of the same; of factors with W and y = L_q^-1 shift as a comparison left them.
struct MatrixGradientCall {
    int64_t dtype;
    int64_t batch, size, threads;
    const void *p, *q;               // as in MatrixCall
    const double *shift, *w, *grad;  // batch x size (y for factors), batch x size x size (null but for factors), batch
    void *to_p, *to_q, *to_loc;      // of the matrices' dtype; the last is p's, q's is its negative
    int64_t kind;
};

// One matrix of the batch; false if it is not positive definite. scratch holds matrix_scratch(size) doubles.
using MatrixGradientKernel = bool (*)(const MatrixGradientCall&, int64_t item, double* scratch);

// The divergence of two Gaussians with covariances D + U U^T of equal rank; exact to second order where tr M^2 < `near`.
struct LowRankCall {
    int64_t dtype;
    int64_t batch, size, rank, threads;
    const void *loc_p, *factor_p, *diagonal_p, *loc_q, *factor_q, *diagonal_q;  // contiguous
    double* value;  // batch
    double near;
};

// One of the batch; false if a capacitance matrix overflows. scratch holds low_rank_scratch(size, rank) doubles.
using LowRankKernel = bool (*)(const LowRankCall&, int64_t item, double* scratch);

constexpr int64_t kLargestRank = 16;
inline int64_t low_rank_scratch(int64_t size, int64_t rank) {
    return (3 + 10 * rank) * matrix_stride(size) + rank * (2 * rank + 1) + 9 * 16 * rank * rank;
}

// L of D + U U^T, batch x size x size by rows.
struct LowRankFactorCall {
    int64_t dtype;
    int64_t batch, size, rank, threads;
    const void *factor, *diagonal;  // contiguous
    double* lower;
};

// A Gaussian by its factor against one with D + U U^T; `excess` tells how far apart they are.
struct ApartCall {
    int64_t dtype;
    int64_t batch, size, rank, threads;
    const void *loc_p, *lower_p, *loc_q, *factor_q, *diagonal_q;  // contiguous
    double *value, *excess;                                       // batch
};

// One of the batch; false where numbers overflow. scratch holds apart_scratch(size, rank) doubles.
using LowRankFactorKernel = bool (*)(const LowRankFactorCall&, int64_t item, double* scratch);
using ApartKernel = bool (*)(const ApartCall&, int64_t item, double* scratch);
inline int64_t apart_scratch(int64_t size, int64_t rank) { return (2 + 2 * rank + size) * matrix_stride(size) + rank * (rank + 1); }

struct FactorKernels {
    FactorKernel by_dtype[2];
    MatrixKernel matrices[2];
    LanesKernel lanes[2];
    LowRankKernel low_rank[2];
    MatrixGradientKernel gradients[2];
    LowRankFactorKernel low_rank_factor[2];
    ApartKernel apart[2];
};

}  // namespace kullback
