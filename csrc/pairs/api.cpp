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
#include "factors.h"

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

// Returns 0, or 1 for a request that makes no sense.
KULLBACK_API int32_t kullback_compare_factors(const FactorCall* call) {
    if (call == nullptr || call->dtype < 0 || call->dtype > 1 || call->batch < 0 || call->size < 0) return 1;
    if (call->batch == 0 || call->size == 0) return 0;
    const int64_t n = call->size, items = call->batch * items_of(*call);
    const FactorKernel kernel = instruction_set().factors->by_dtype[call->dtype];
    const int64_t work = call->batch * n * n * n / 6;
    const int32_t threads = work < 100000 ? 1 : static_cast<int32_t>(call->threads);
    const int64_t grain = threads == 1 ? items : (items + 8 * threads - 1) / (8 * threads);
    parallel_for(items, grain, threads, [&](int64_t begin, int64_t end) {
        std::vector<double> scratch(static_cast<size_t>(factor_scratch(n)));
        for (int64_t i = begin; i < end; ++i) kernel(*call, i, scratch.data());
    });
    return 0;
}

namespace kullback {
namespace {

// In tiles: a row of one is a column of the other, and both stay in the first cache.
template <class S>
void transpose_lower(const S* from, S* to, int64_t n) {
    constexpr int64_t kTile = 16;
    for (int64_t top = 0; top < n; top += kTile) {
        const int64_t bottom = top + kTile < n ? top + kTile : n;
        for (int64_t left = 0; left <= top; left += kTile) {
            for (int64_t i = top; i < bottom; ++i) {
                const int64_t right = left + kTile < i + 1 ? left + kTile : i + 1;
                for (int64_t j = left; j < right; ++j) to[i * n + j] = from[j * n + i];
            }
        }
    }
}

}  // namespace
}  // namespace kullback

// The lower triangles of matrices stored by columns, as LAPACK leaves them, to rows; what is above the diagonal is not written.
// Returns 0, or 1 for a request that makes no sense.
KULLBACK_API int32_t kullback_transpose_lower(int64_t dtype, int64_t batch, int64_t size, const void* from, void* to) {
    if (dtype < 0 || dtype > 1 || batch < 0 || size < 0) return 1;
    for (int64_t b = 0; b < batch; ++b) {
        const int64_t at = b * size * size;
        if (dtype == 0) transpose_lower(static_cast<const double*>(from) + at, static_cast<double*>(to) + at, size);
        else transpose_lower(static_cast<const float*>(from) + at, static_cast<float*>(to) + at, size);
    }
    return 0;
}

// Returns 0, 1 for a request that makes no sense, 2 if a matrix is not positive definite.
KULLBACK_API int32_t kullback_compare_matrices(const MatrixCall* call) {
    if (call == nullptr || call->dtype < 0 || call->dtype > 1 || call->batch < 0 || call->size < 0) return 1;
    if (call->size > kLargestMatrix || call->kind < kByFactors || call->kind > kByPrecisions) return 1;
    std::atomic<bool> failed{false};
    const MatrixKernel kernel = instruction_set().factors->matrices[call->dtype];
    const LanesKernel lanes = instruction_set().factors->lanes[call->dtype];
    const int64_t n = call->size, work = call->batch * n * n * n;
    const int32_t threads = work < 200000 ? 1 : static_cast<int32_t>(call->threads);
    const int64_t batch = call->batch > 0 ? call->batch : 1;
    const int64_t share = threads == 1 ? batch : (batch + 4 * threads - 1) / (4 * threads);
    const int64_t grain = (share + kMatrixLanes - 1) / kMatrixLanes * kMatrixLanes;
    parallel_for(call->batch, grain, threads, [&](int64_t begin, int64_t end) {
        const int64_t size = matrix_scratch(n), of_lanes = lanes_scratch(n);
        const std::unique_ptr<double[]> scratch(new double[static_cast<size_t>(size > of_lanes ? size : of_lanes)]);
        bool well = true;
        // Two matrices in lanes take as long as eight.
        while (n <= kLargestInLanes && end - begin > 1) {
            const int64_t count = end - begin < kMatrixLanes ? end - begin : kMatrixLanes;
            well &= lanes(*call, begin, count, scratch.get());
            begin += count;
        }
        for (; begin < end; ++begin) well &= kernel(*call, begin, scratch.get());
        if (!well) failed.store(true, std::memory_order_relaxed);
    });
    return failed.load() ? 2 : 0;
}

// Returns 0, 1 for a request that makes no sense, 2 if a matrix is not positive definite.
KULLBACK_API int32_t kullback_matrix_gradients(const MatrixGradientCall* call) {
    if (call == nullptr || call->dtype < 0 || call->dtype > 1 || call->batch < 0 || call->size < 0) return 1;
    if (call->size > kLargestMatrix || call->kind < kByFactors || call->kind > kByPrecisions) return 1;
    std::atomic<bool> failed{false};
    const MatrixGradientKernel kernel = instruction_set().factors->gradients[call->dtype];
    const int64_t n = call->size, batch = call->batch > 0 ? call->batch : 1;
    const int32_t threads = batch * n * n * n < 50000 ? 1 : static_cast<int32_t>(call->threads);
    const int64_t grain = threads == 1 ? batch : (batch + 4 * threads - 1) / (4 * threads);
    parallel_for(call->batch, grain, threads, [&](int64_t begin, int64_t end) {
        const std::unique_ptr<double[]> scratch(new double[static_cast<size_t>(matrix_scratch(n))]);
        for (int64_t i = begin; i < end; ++i) {
            if (!kernel(*call, i, scratch.get())) failed.store(true, std::memory_order_relaxed);
        }
    });
    return failed.load() ? 2 : 0;
}

// Every item of a batch of low rank in scratch of its thread's own. Returns 0, 1 for a request that makes no sense, 2 if a square
// overflows. `each`: operations of one item.
template <class Call>
static int32_t run_low_rank(const Call* call, int64_t each, int64_t scratch_size, bool (*kernel)(const Call&, int64_t, double*)) {
    std::atomic<bool> failed{false};
    const int64_t batch = call->batch > 0 ? call->batch : 1;
    const int32_t threads = batch * each < 50000 ? 1 : static_cast<int32_t>(call->threads);
    const int64_t grain = threads == 1 ? batch : (batch + 4 * threads - 1) / (4 * threads);
    parallel_for(call->batch, grain, threads, [&](int64_t begin, int64_t end) {
        std::vector<double> scratch(static_cast<size_t>(scratch_size));
        for (int64_t i = begin; i < end; ++i) {
            if (!kernel(*call, i, scratch.data())) failed.store(true, std::memory_order_relaxed);
        }
    });
    return failed.load() ? 2 : 0;
}

template <class Call>
static bool is_low_rank(const Call* call) {
    if (call == nullptr || call->dtype < 0 || call->dtype > 1 || call->batch < 0 || call->size < 0) return false;
    return call->rank >= 1 && call->rank <= kLargestRank;
}

KULLBACK_API int32_t kullback_compare_low_rank(const LowRankCall* call) {
    if (!is_low_rank(call)) return 1;
    const int64_t n = call->size, k = call->rank;
    return run_low_rank(call, n * k * k, low_rank_scratch(n, k), instruction_set().factors->low_rank[call->dtype]);
}

KULLBACK_API int32_t kullback_factor_low_rank(const LowRankFactorCall* call) {
    if (!is_low_rank(call)) return 1;
    const int64_t n = call->size, k = call->rank;
    return run_low_rank(call, n * n * k, apart_scratch(n, k), instruction_set().factors->low_rank_factor[call->dtype]);
}

KULLBACK_API int32_t kullback_compare_apart(const ApartCall* call) {
    if (!is_low_rank(call)) return 1;
    const int64_t n = call->size, k = call->rank;
    return run_low_rank(call, n * n * (n + k), apart_scratch(n, k), instruction_set().factors->apart[call->dtype]);
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
