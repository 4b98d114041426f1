// The version of the C interface. The Python loader refuses a library whose number differs from its own, so that a
// stale build is reported instead of called.
#include <cstdint>

#if defined(_WIN32)
#define KULLBACK_API extern "C" __declspec(dllexport)
#else
#define KULLBACK_API extern "C" __attribute__((visibility("default")))
#endif

KULLBACK_API int32_t kullback_abi_version() { return 1; }
