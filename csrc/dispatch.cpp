#include "dispatch.h"

#include <cstdlib>
#include <cstring>

namespace kullback {

namespace baseline {
extern const InstructionSet kSet;
}
#if defined(KULLBACK_X86_SETS)
namespace avx2 {
extern const InstructionSet kSet;
}
namespace avx512 {
extern const InstructionSet kSet;
}
#endif

namespace {

const InstructionSet& choose() {
    const char* wanted = std::getenv("KULLBACK_ISA");
    const bool any = wanted == nullptr || *wanted == '\0';
    const auto asked = [&](const char* name) { return any || std::strcmp(wanted, name) == 0; };
#if defined(KULLBACK_X86_SETS)
    __builtin_cpu_init();
    const bool has_avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
    // What the avx512 file is compiled for, not only the part each kernel happens to use.
    const bool has_avx512 = has_avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                            __builtin_cpu_supports("avx512cd") && __builtin_cpu_supports("avx512dq") &&
                            __builtin_cpu_supports("avx512vl");
    if (has_avx512 && asked("avx512")) return avx512::kSet;
    if (has_avx2 && (any || !asked("baseline"))) return avx2::kSet;
#endif
    (void)asked;
    return baseline::kSet;
}

}  // namespace

const InstructionSet& instruction_set() {
    static const InstructionSet& chosen = choose();
    return chosen;
}

}  // namespace kullback
