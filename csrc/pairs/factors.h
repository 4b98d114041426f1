// A request to compare two lower triangular factors, as Python packs it (src/kullback/kernels/factor_op.py).
#pragma once

#include <cstdint>

namespace kullback {

// W with L_p = L_q (I + W) and y = L_q^-1 shift, and of each matrix of the batch
//   ||W||^2, the sum over i of w_ii - log(1 + w_ii), ||y||^2.
struct FactorCall {
    int64_t dtype;  // of the factors, as abi.h numbers them: 0 or 1
    int64_t batch, size, threads;
    const void *lower_p, *lower_q;       // rows contiguous; what is above the diagonal is not read
    int64_t stride_p, stride_q;          // from one matrix to the next, in elements; 0 repeats one
    const double* shift;                 // batch x size
    double *w, *y;                       // batch x size x size, batch x size
    double* parts;                       // batch x (panels + 1) x 3, zeros at first; the three sums in parts
};

// One column panel of one matrix, or its y: item in [0, batch * (panels + 1)).
using FactorKernel = void (*)(const FactorCall&, int64_t item, double* scratch);

constexpr int64_t kPanel = 32;
constexpr int64_t kRowsAtOnce = 4;

inline int64_t panels_of(int64_t size) { return (size + kPanel - 1) / kPanel; }

// L with A = L L^T in double, of a batch of small matrices; a matrix that is not positive definite sets `failed`.
struct CholeskyCall {
    int64_t dtype;  // of the matrices
    int64_t batch, size, threads;
    const void* matrices;  // rows contiguous; what is above the diagonal is not read
    double* factors;       // the same shape, zeros above the diagonal
    int64_t* failed;
};

// One matrix; scratch holds cholesky_scratch(size) doubles.
using CholeskyKernel = void (*)(const CholeskyCall&, int64_t item, double* scratch);

inline int64_t cholesky_stride(int64_t size) { return (size + 7) / 8 * 8; }
inline int64_t cholesky_scratch(int64_t size) { return (size + 1) * cholesky_stride(size); }

struct FactorKernels {
    FactorKernel by_dtype[2];
    CholeskyKernel cholesky[2];
};

}  // namespace kullback
