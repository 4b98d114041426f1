// The exported C interface. Every function validates what would make it read or write out of bounds and returns a
// status; shapes, dtypes and strides are checked in Python, which knows the tensors.
#include <cstring>

#include "abi.h"
#include "dispatch.h"
#include "memory.h"
#include "parallel.h"

namespace kullback {
namespace {

constexpr int64_t kElementSize[] = {8, 4, 2, 2};
constexpr int64_t kGrain = 8192;            // elements a thread takes at once
constexpr int64_t kParallelFrom = 32768;    // below, waking a second thread costs more than it saves
constexpr int64_t kHugeFrom = int64_t(3) << 20;  // bytes; a fresh page costs more than the numbers on it

}  // namespace
}  // namespace kullback

using namespace kullback;

KULLBACK_API int32_t kullback_abi_version() { return kAbiVersion; }

KULLBACK_API const char* kullback_instruction_set() { return instruction_set().name; }

KULLBACK_API const char* kullback_parallel_runtime() { return parallel_runtime(); }

// Index of a function for kullback_elementwise, or -1.
KULLBACK_API int32_t kullback_function_index(const char* name) {
    const InstructionSet& set = instruction_set();
    for (int32_t i = 0; i < set.function_count; ++i) {
        if (std::strcmp(set.functions[i].name, name) == 0) return i;
    }
    return -1;
}

// output[i] = function(inputs[0][i], ...) for i < count. `layout`, if not null, describes the operands as {rows, columns, then
// row and column stride of each}, in elements; without it all are contiguous.
static int32_t evaluate(int32_t function, int32_t dtype, int64_t count, const void* const* inputs, void* output,
                        int32_t threads, const int64_t* layout) {
    const InstructionSet& set = instruction_set();
    if (function < 0 || function >= set.function_count || dtype < 0 || dtype > 3 || count < 0) return 1;
    if (count == 0) return 0;
    const ElementwiseFunction& chosen = set.functions[function];
    ElementwiseCall call{1, count, {}, output};
    if (layout != nullptr) {
        call.rows = layout[0], call.columns = layout[1];
        if (call.rows <= 0 || call.columns <= 0 || call.rows * call.columns != count) return 1;
    }
    if (output == nullptr) return 1;
    for (int i = 0; i < chosen.arity; ++i) {
        if (inputs[i] == nullptr) return 1;
        call.inputs[i] = layout == nullptr ? Operand{inputs[i], count, 1}
                                           : Operand{inputs[i], layout[2 + 2 * i], layout[3 + 2 * i]};
    }
    const int64_t bytes = count * kElementSize[dtype];
    if (bytes >= kHugeFrom) advise_huge_pages(output, static_cast<size_t>(bytes));
    const ElementwiseKernel kernel = chosen.by_dtype[dtype];
    parallel_for(count, kGrain, count < kParallelFrom ? 1 : threads,
                 [&](int64_t begin, int64_t end) { kernel(call, begin, end); });
    return 0;
}

// Arguments past the function's arity are ignored.
KULLBACK_API int32_t kullback_elementwise(int32_t function, int32_t dtype, int64_t count, const void* x, const void* y,
                                          const void* z, void* output, int32_t threads, const int64_t* layout) {
    const void* const inputs[] = {x, y, z};
    return evaluate(function, dtype, count, inputs, output, threads, layout);
}

// The same for contiguous operands: the signature that python/dense_call.cpp calls.
KULLBACK_API int32_t kullback_elementwise_dense(int32_t function, int32_t dtype, int64_t count, const void* const* inputs,
                                                void* output, int32_t threads) {
    return evaluate(function, dtype, count, inputs, output, threads, nullptr);
}
