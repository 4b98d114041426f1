// The exported functions of the row kernels: threads around the kernels of the chosen instruction set.
#include <atomic>

#include "../abi.h"
#include "../dispatch.h"
#include "../memory.h"
#include "../parallel.h"
#include "call.h"

namespace kullback {
namespace {

constexpr int64_t kGrain = 16384;                // elements of one side that a thread takes at once
constexpr int64_t kParallelFrom = 32768;         // below, waking a second thread costs more than it saves
constexpr int64_t kHugeFrom = int64_t(8) << 20;  // bytes
constexpr int64_t kElementSize[] = {8, 4, 2, 2};

bool acceptable(const RowsCall& call) {
    if (call.rows < 0 || call.classes <= 0 || call.function < 0 || call.function > 8) return false;
    if (call.function == 3 && !is_one_sided(call) && call.rows > 0) return false;
    if (call.outer < 0 || call.outer > 4 || (is_power(call) && !(call.share > 0 && call.share != 1))) return false;
    if (is_mixture(call) && !(call.share > 0 && call.share < 1)) return false;
    if (is_measures(call)) {
        const bool has_places = call.statistics != nullptr && call.gradient[0] != nullptr && call.gradient[1] != nullptr;
        if (!has_places || !(call.share >= 1 && call.share <= 64)) return false;
    }
    for (int i = 0; i < 2; ++i) {
        const RowsSide& side = call.sides[i];
        if (side.dtype < 0 || side.dtype > 3 || (call.data[i] == nullptr && call.rows > 0)) return false;
        if (!call.wide && side.dtype == 0) return false;
    }
    return true;
}

int64_t run(const RowsCall& call, RowsKernel kernel) {
    for (int i = 0; i < 2 && !is_measures(call); ++i) {
        const int64_t bytes = call.rows * call.classes * kElementSize[call.sides[i].dtype];
        if (call.gradient[i] != nullptr && bytes >= kHugeFrom) advise_huge_pages(call.gradient[i], size_t(bytes));
    }
    const int64_t grain = call.classes >= kGrain ? 1 : kGrain / call.classes;
    const int32_t threads = call.rows * call.classes < kParallelFrom ? 1 : static_cast<int32_t>(call.threads);
    std::atomic<int64_t> reported{0};
    parallel_for(call.rows, grain, threads, [&](int64_t begin, int64_t end) {
        const int64_t found = kernel(call, begin, end);
        if (found) reported.fetch_or(found, std::memory_order_relaxed);
    });
    return reported.load();
}

}  // namespace
}  // namespace kullback

using namespace kullback;

// Returns what the kernel reports of the rows (call.h), or -1 for a request that makes no sense.
KULLBACK_API int64_t kullback_rows_forward(const RowsCall* call) {
    if (call == nullptr || !acceptable(*call)) return -1;
    if (call->rows == 0) return 0;
    if (call->value == nullptr) return -1;
    if (call->written != nullptr) {
        const bool has_places = call->statistics != nullptr && (call->gradient[0] != nullptr || call->gradient[1] != nullptr);
        if (!has_places || !writes_at_once(*call)) return -1;
    }
    return run(*call, instruction_set().rows->forward);
}

// Returns 0, or -1 for a request that makes no sense.
KULLBACK_API int64_t kullback_rows_backward(const RowsCall* call) {
    if (call == nullptr || !acceptable(*call)) return -1;
    if (call->rows == 0) return 0;
    if (call->statistics == nullptr || call->grad == nullptr || is_measures(*call)) return -1;
    if (call->gradient[0] == nullptr && call->gradient[1] == nullptr) return -1;
    return run(*call, instruction_set().rows->backward);
}
