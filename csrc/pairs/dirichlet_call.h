// A request to the Dirichlet kernels, as Python packs it (src/kullback/kernels/dirichlet_op.py).
#pragma once

#include <cstdint>

namespace kullback {

// Rows are contiguous.
struct DirichletCall {
    int64_t dtype, rows, classes, threads;
    const void *alpha, *beta;
    void* value;                        // forward: one per row
    const void* grad;                   // backward: one per row
    void *to_alpha, *to_beta;           // backward; null: not wanted
};

// One row; scratch holds dirichlet_scratch(classes) doubles.
using DirichletKernel = void (*)(const DirichletCall&, int64_t row, double* scratch);

inline int64_t dirichlet_scratch(int64_t classes) { return 4 * (classes + 8); }

struct DirichletKernels {
    DirichletKernel forward[2], backward[2];
};

}  // namespace kullback
