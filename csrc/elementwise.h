// What the elementwise kernels of every instruction set share: the request, and the table a set provides.
#pragma once

#include <cstdint>

#include "abi.h"
#include "rows/call.h"

namespace kullback {

// An operand seen as rows x columns of elements; a stride of 0 repeats, so broadcasting copies nothing.
struct Operand {
    const void* data;
    int64_t row_stride, column_stride;
};

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
};

}  // namespace kullback
