// What the elementwise kernels of every instruction set share: the request, and the table a set provides.
#pragma once

#include <cstdint>

#include "abi.h"
#include "pairs/call.h"
#include "pairs/dirichlet_call.h"
#include "rows/call.h"

namespace kullback {

struct ElementwiseCall {
    int64_t rows, columns;
    Operand inputs[3];
    void* output;  // contiguous
};

// Evaluates elements [begin, end) of the flattened output.
using ElementwiseKernel = void (*)(const ElementwiseCall&, int64_t begin, int64_t end);

struct ElementwiseFunction {
    const char* name;
    int32_t arity;
    ElementwiseKernel by_dtype[4];
};

struct InstructionSet {
    const char* name;
    const ElementwiseFunction* functions;
    int32_t function_count;
    const RowKernels* rows;
    const PairFunction* pairs;
    const int32_t* pair_count;
    const DirichletKernels* dirichlet;
};

}  // namespace kullback
