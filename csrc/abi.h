// What the library exports, and the numbers Python and C++ have to agree on.
#pragma once

#include <cstdint>

#if defined(_WIN32)
#define KULLBACK_API extern "C" __declspec(dllexport)
#else
#define KULLBACK_API extern "C" __attribute__((visibility("default")))
#endif

namespace kullback {

// The Python loader refuses a library whose number differs from its own, so that a stale build is reported instead of
// called. Raise it with every change of an exported signature.
constexpr int32_t kAbiVersion = 18;

enum class Dtype : int32_t { kFloat64 = 0, kFloat32 = 1, kFloat16 = 2, kBfloat16 = 3 };

// An operand seen as rows x columns of elements; a stride of 0 repeats, so broadcasting copies nothing.
struct Operand {
    const void* data;
    int64_t row_stride, column_stride;
};

}  // namespace kullback
