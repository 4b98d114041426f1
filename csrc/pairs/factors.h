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

struct FactorKernels {
    FactorKernel by_dtype[2];
};

}  // namespace kullback
