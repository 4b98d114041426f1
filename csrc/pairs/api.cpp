// The exported functions of the pair kernels: threads around the kernels of the chosen instruction set.
#include <atomic>
#include <cstring>
#include <memory>
#include <vector>

#include "../abi.h"
#include "../dispatch.h"
#include "../memory.h"
#include "../parallel.h"
#include "call.h"

namespace kullback {
namespace {

constexpr int64_t kGrain = 4096;          // elements a thread takes at once
constexpr int64_t kParallelFrom = 16384;  // below, waking a second thread costs more than it saves
constexpr int64_t kHugeFrom = int64_t(3) << 20;  // bytes

const PairFunction* function_of(const PairCall* call) {
    const InstructionSet& set = instruction_set();
    if (call == nullptr || call->function < 0 || call->function >= *set.pair_count) return nullptr;
    if (call->dtype < 0 || call->dtype > 1 || call->rows < 0 || call->columns < 0) return nullptr;
    const PairFunction* function = set.pairs + call->function;
    for (int i = 0; i < function->arity; ++i) {
        if (call->inputs[i].data == nullptr && call->rows * call->columns > 0) return nullptr;
    }
    return function;
}

int32_t run(const PairCall& call, PairKernel kernel) {
    const int64_t count = call.rows * call.columns, bytes = count * (call.dtype == 0 ? 8 : 4);
    if (bytes >= kHugeFrom) {
        if (call.value != nullptr) advise_huge_pages(call.value, static_cast<size_t>(bytes));
        for (const PairOutput& out : call.gradients) {
            if (out.data != nullptr) advise_huge_pages(out.data, static_cast<size_t>(bytes * out.stride));
        }
    }
    parallel_for(count, kGrain, count < kParallelFrom ? 1 : static_cast<int32_t>(call.threads),
                 [&](int64_t begin, int64_t end) { kernel(call, begin, end); });
    return 0;
}

}  // namespace
}  // namespace kullback

using namespace kullback;

// Index of a function for the calls below, or -1.
KULLBACK_API int32_t kullback_pair_index(const char* name) {
    const InstructionSet& set = instruction_set();
    for (int32_t i = 0; i < *set.pair_count; ++i) {
        if (std::strcmp(set.pairs[i].name, name) == 0) return i;
    }
    return -1;
}

// Both return 0, or 1 for a request that makes no sense.
KULLBACK_API int32_t kullback_pair_forward(const PairCall* call) {
    const PairFunction* function = function_of(call);
    if (function == nullptr || (call->value == nullptr && call->rows * call->columns > 0)) return 1;
    return run(*call, function->forward[call->dtype]);
}

KULLBACK_API int32_t kullback_pair_backward(const PairCall* call) {
    const PairFunction* function = function_of(call);
    if (function == nullptr || (call->grad.data == nullptr && call->rows * call->columns > 0)) return 1;
    return run(*call, function->backward[call->dtype]);
}

// The value and its slopes in one pass, those of an incoming gradient of 1.
KULLBACK_API int32_t kullback_pair_together(const PairCall* call) {
    const PairFunction* function = function_of(call);
    if (function == nullptr || call->lost == nullptr || (call->value == nullptr && call->rows * call->columns > 0)) return 1;
    return run(*call, function->together[call->dtype]);
}

static int32_t run_dirichlet(const DirichletCall* call, const DirichletKernel (&kernels)[2]) {
    if (call == nullptr || call->dtype < 0 || call->dtype > 1 || call->rows < 0 || call->classes < 1) return 1;
    const DirichletKernel kernel = kernels[call->dtype];
    const int64_t grain = (kGrain + call->classes - 1) / call->classes;
    const int32_t threads = call->rows * call->classes < kParallelFrom ? 1 : static_cast<int32_t>(call->threads);
    parallel_for(call->rows, grain, threads, [&](int64_t begin, int64_t end) {
        std::vector<double> scratch(static_cast<size_t>(dirichlet_scratch(call->classes)));
        for (int64_t row = begin; row < end; ++row) kernel(*call, row, scratch.data());
    });
    return 0;
}

// Both return 0, or 1 for a request that makes no sense.
KULLBACK_API int32_t kullback_dirichlet_forward(const DirichletCall* call) {
    return run_dirichlet(call, instruction_set().dirichlet->forward);
}

KULLBACK_API int32_t kullback_dirichlet_backward(const DirichletCall* call) {
    return run_dirichlet(call, instruction_set().dirichlet->backward);
}
