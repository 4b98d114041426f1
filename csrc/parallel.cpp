#include "parallel.h"

#include <atomic>
#include <cstring>
#include <string>

#if defined(__linux__)
#include <dlfcn.h>
#include <link.h>
#include <pthread.h>
#elif !defined(_WIN32)
#include <dlfcn.h>
#include <pthread.h>
#endif

namespace kullback {
namespace {

// void GOMP_parallel(fn, data, num_threads, flags): runs fn(data) on a team, then joins it.
using GompParallel = void (*)(void (*)(void*), void*, unsigned, unsigned);

std::atomic<bool> forked{false};

struct Runtime {
    GompParallel parallel = nullptr;
    std::string path;
};

#if defined(__linux__)
int consider(struct dl_phdr_info* info, size_t, void* opaque) {
    auto& found = *static_cast<Runtime*>(opaque);
    const char* path = info->dlpi_name;
    if (path == nullptr || (!std::strstr(path, "gomp") && !std::strstr(path, "iomp") && !std::strstr(path, "libomp"))) {
        return 0;
    }
    void* handle = dlopen(path, RTLD_LAZY | RTLD_NOLOAD);
    if (handle == nullptr) return 0;
    void* symbol = dlsym(handle, "GOMP_parallel");
    dlclose(handle);  // undoes the count of dlopen; torch keeps the object loaded
    if (symbol == nullptr) return 0;
    std::memcpy(&found.parallel, &symbol, sizeof(symbol));
    found.path = path;
    return std::strstr(path, "torch") != nullptr;  // another package may have brought a second one: torch's wins
}
#endif

Runtime find_runtime() {
    Runtime found;
#if defined(__linux__)
    dl_iterate_phdr(consider, &found);
#elif !defined(_WIN32)
    if (void* symbol = dlsym(RTLD_DEFAULT, "GOMP_parallel")) {
        std::memcpy(&found.parallel, &symbol, sizeof(symbol));
        found.path = "GOMP_parallel of the process";
    }
#endif
#if !defined(_WIN32)
    // The thread pool of an OpenMP runtime does not survive a fork: a child that used it would wait forever.
    pthread_atfork(nullptr, nullptr, [] { forked.store(true, std::memory_order_relaxed); });
#endif
    return found;
}

const Runtime& runtime() {
    static const Runtime found = find_runtime();
    return found;
}

// The blocks in equal runs, one per thread. A thread works through its own run in order and then helps with the others:
// threads stay far apart in memory. Taking turns, two of them would touch the same huge page of a fresh output at the same
// moment, and the kernel clears 2 MB for each before it finds out that one will do.
struct Team {
    static constexpr int64_t kMostRuns = 64;
    struct alignas(64) Run {
        std::atomic<int64_t> next{0};
        int64_t end = 0;
    };

    Team(void (*work)(void*, int64_t), void* context, int64_t blocks, int64_t threads)
        : work(work), context(context), count(threads < kMostRuns ? threads : kMostRuns) {
        for (int64_t i = 0; i < count; ++i) {
            runs[i].next.store(blocks * i / count, std::memory_order_relaxed);
            runs[i].end = blocks * (i + 1) / count;
        }
    }

    void (*work)(void*, int64_t);
    void* context;
    int64_t count;
    std::atomic<int64_t> members{0};
    Run runs[kMostRuns];
};

void take_blocks(void* opaque) {
    auto& team = *static_cast<Team*>(opaque);
    const int64_t member = team.members.fetch_add(1, std::memory_order_relaxed);
    for (int64_t turn = 0; turn < team.count; ++turn) {
        auto& run = team.runs[(member + turn) % team.count];
        for (int64_t i; (i = run.next.fetch_add(1, std::memory_order_relaxed)) < run.end;) team.work(team.context, i);
    }
}

}  // namespace

void parallel_blocks(int64_t blocks, int32_t threads, void (*work)(void*, int64_t), void* context) {
    if (threads > blocks) threads = static_cast<int32_t>(blocks);
    if (threads <= 1 || runtime().parallel == nullptr || forked.load(std::memory_order_relaxed)) {
        for (int64_t i = 0; i < blocks; ++i) work(context, i);
        return;
    }
    Team team(work, context, blocks, threads);
    runtime().parallel(take_blocks, &team, static_cast<unsigned>(threads), 0);
}

const char* parallel_runtime() {
    return runtime().parallel == nullptr || forked.load(std::memory_order_relaxed) ? "" : runtime().path.c_str();
}

}  // namespace kullback
