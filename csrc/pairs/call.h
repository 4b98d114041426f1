// A request to the pair kernels, as Python packs it (src/kullback/kernels/pair_ops.py): fields of 8 bytes, in this order.
#pragma once

#include <cstdint>

#include "../abi.h"

namespace kullback {

constexpr int kPairArity = 4;

// Element i of the flattened result is written at i * stride.
struct PairOutput {
    void* data;
    int64_t stride;
};

struct PairCall {
    int64_t function, dtype;  // dtype as abi.h numbers them: 0 or 1
    int64_t rows, columns;
    int64_t threads;
    void* value;                        // forward; contiguous
    Operand grad;                       // backward: the incoming gradient
    Operand inputs[kPairArity];
    PairOutput gradients[kPairArity];   // backward, and with the value; null data: not wanted
    int64_t* lost;                      // with the value: set to 1 if a slope is no finite normal number
};

// Elements [begin, end) of the flattened result.
using PairKernel = void (*)(const PairCall&, int64_t begin, int64_t end);

struct PairFunction {
    const char* name;
    int32_t arity;
    PairKernel forward[2], backward[2], together[2];  // by dtype
};

}  // namespace kullback
