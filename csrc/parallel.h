// Threads. One loop primitive over fixed blocks, run by the OpenMP runtime torch has already loaded.
//
// The library links no OpenMP runtime of its own: two in one process compete for the cores and can deadlock. It finds
// torch's (any object that exports GOMP_parallel, as libgomp and libiomp5 do) and falls back to one thread.
#pragma once

#include <cstdint>

namespace kullback {

// Calls work(context, block) for every block in [0, blocks), on at most `threads` threads. Each thread starts on a run of its own
// and helps with the others' afterwards: which thread runs which block is not determined, what it computes must not depend on it.
void parallel_blocks(int64_t blocks, int32_t threads, void (*work)(void*, int64_t), void* context);

// Path of the OpenMP runtime in use, or an empty string when everything runs on the calling thread.
const char* parallel_runtime();

template <class F>
void parallel_for(int64_t count, int64_t grain, int32_t threads, F&& body) {
    struct Context {
        F& body;
        int64_t count, grain;
    } context{body, count, grain};
    const int64_t blocks = (count + grain - 1) / grain;
    parallel_blocks(
        blocks, threads,
        [](void* opaque, int64_t block) {
            auto& c = *static_cast<Context*>(opaque);
            const int64_t begin = block * c.grain, end = begin + c.grain;
            c.body(begin, end < c.count ? end : c.count);
        },
        &context);
}

}  // namespace kullback
