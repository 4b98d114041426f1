// The elementwise kernels for one instruction set; CMake compiles this file once per set (KULLBACK_SET names it).
//
// One driver serves every function, dtype and layout: a block of each operand is brought into a buffer in the precision
// the function computes in (or used in place), the function runs over the block in a loop the compiler vectorises, and
// the block is stored.
#include "blocks.h"
#include "functions.h"

namespace kullback::KULLBACK_SET {
namespace {

template <class Bits>
[[gnu::always_inline]] inline Bits larger(Bits a, Bits b) {
    return a > b ? a : b;
}

// F::apply(x), (x, y) or (x, y, z) over elements [begin, end); S is the stored type, C the computing one.
template <class F, class S, class C>
void run(const ElementwiseCall& call, int64_t begin, int64_t end) {
    alignas(64) C buffers[F::kArity][kBlock];
    [[maybe_unused]] alignas(64) C results[kBlock];
    S* output = static_cast<S*>(call.output);
    int64_t block = kBlock;
    if constexpr (std::is_same_v<S, C>) {
        bool in_place = true;
        for (int i = 0; i < F::kArity; ++i) in_place = in_place && is_contiguous(call.inputs[i], call.columns);
        if (in_place) block = kBlockInPlace;
    }
    for (int64_t at = begin; at < end; at += block) {
        const int64_t count = smaller(block, end - at);
        const C* inputs[F::kArity];
        for (int i = 0; i < F::kArity; ++i) {
            inputs[i] = load_block<S, C>(call.inputs[i], call.columns, at, count, buffers[i]);
        }
        if constexpr (std::is_same_v<S, C>) {
            F::apply(inputs, output + at, count);
        } else {
            F::apply(inputs, results, count);
            for (int64_t i = 0; i < count; ++i) store(results[i], output[at + i]);
        }
    }
}

#define KULLBACK_UNARY_LOOP(name, single, narrow, expression)                             \
    struct Function_##name {                                                      \
        using Single = single;                                                    \
        using Narrow = narrow;                                                    \
        static constexpr int kArity = 1;                                          \
        template <class T>                                                        \
        KULLBACK_FLAT static void apply(const T* const (&in)[1], T* __restrict out, int64_t n) { \
            const T* __restrict a = in[0];                                        \
            for (int64_t i = 0; i < n; ++i) {                                     \
                const T x = a[i];                                                 \
                out[i] = expression;                                              \
            }                                                                     \
        }                                                                         \
    };
#define KULLBACK_BINARY_LOOP(name, single, narrow, expression)                            \
    struct Function_##name {                                                      \
        using Single = single;                                                    \
        using Narrow = narrow;                                                    \
        static constexpr int kArity = 2;                                          \
        template <class T>                                                        \
        KULLBACK_FLAT static void apply(const T* const (&in)[2], T* __restrict out, int64_t n) { \
            const T *__restrict a = in[0], *__restrict b = in[1];                 \
            for (int64_t i = 0; i < n; ++i) {                                     \
                const T x = a[i], y = b[i];                                       \
                out[i] = expression;                                              \
            }                                                                     \
        }                                                                         \
    };
#define KULLBACK_TERNARY_LOOP(name, single, narrow, expression)                           \
    struct Function_##name {                                                      \
        using Single = single;                                                    \
        using Narrow = narrow;                                                    \
        static constexpr int kArity = 3;                                          \
        template <class T>                                                        \
        KULLBACK_FLAT static void apply(const T* const (&in)[3], T* __restrict out, int64_t n) { \
            const T *__restrict a = in[0], *__restrict b = in[1], *__restrict c = in[2]; \
            for (int64_t i = 0; i < n; ++i) {                                     \
                const T x = a[i], y = b[i], z = c[i];                             \
                out[i] = expression;                                              \
            }                                                                     \
        }                                                                         \
    };
#define KULLBACK_UNARY_REPAIRED_LOOP(name, single, narrow, expression, condition, repair) \
    KULLBACK_UNARY_LOOP(most_##name, single, narrow, expression)                          \
    struct Function_##name : Function_most_##name {                               \
        template <class T>                                                        \
        KULLBACK_FLAT static void apply(const T* const (&in)[1], T* __restrict out, int64_t n) { \
            Function_most_##name::apply(in, out, n);                              \
            int exceptions = 0;                                                   \
            for (int64_t i = 0; i < n; ++i) {                                     \
                const T x = in[0][i];                                             \
                exceptions |= int(condition);                                     \
            }                                                                     \
            if (exceptions == 0) return;                                          \
            for (int64_t i = 0; i < n; ++i) {                                     \
                const T x = in[0][i];                                             \
                if (condition) out[i] = repair;                                   \
            }                                                                     \
        }                                                                         \
    };
#define KULLBACK_BINARY_REPAIRED_LOOP(name, single, narrow, expression, condition, repair) \
    KULLBACK_BINARY_LOOP(most_##name, single, narrow, expression)                         \
    struct Function_##name : Function_most_##name {                               \
        template <class T>                                                        \
        KULLBACK_FLAT static void apply(const T* const (&in)[2], T* __restrict out, int64_t n) { \
            Function_most_##name::apply(in, out, n);                              \
            int exceptions = 0;                                                   \
            for (int64_t i = 0; i < n; ++i) {                                     \
                const T x = in[0][i], y = in[1][i];                               \
                exceptions |= int(condition);                                     \
            }                                                                     \
            if (exceptions == 0) return;                                          \
            for (int64_t i = 0; i < n; ++i) {                                     \
                const T x = in[0][i], y = in[1][i];                               \
                if (condition) out[i] = repair;                                   \
            }                                                                     \
        }                                                                         \
    };
#define KULLBACK_TERNARY_REPAIRED_LOOP(name, single, narrow, expression, condition, repair) \
    KULLBACK_TERNARY_LOOP(most_##name, single, narrow, expression)                        \
    struct Function_##name : Function_most_##name {                               \
        template <class T>                                                        \
        KULLBACK_FLAT static void apply(const T* const (&in)[3], T* __restrict out, int64_t n) { \
            Function_most_##name::apply(in, out, n);                              \
            int exceptions = 0;                                                   \
            for (int64_t i = 0; i < n; ++i) {                                     \
                const T x = in[0][i], y = in[1][i], z = in[2][i];                 \
                exceptions |= int(condition);                                     \
            }                                                                     \
            if (exceptions == 0) return;                                          \
            for (int64_t i = 0; i < n; ++i) {                                     \
                const T x = in[0][i], y = in[1][i], z = in[2][i];                 \
                if (condition) out[i] = repair;                                   \
            }                                                                     \
        }                                                                         \
    };
#define KULLBACK_BINARY_GUARDED_LOOP(name, single, narrow, ordinary, expression)          \
    KULLBACK_BINARY_LOOP(any_##name, single, narrow, expression)                          \
    struct Function_##name : Function_any_##name {                                \
        template <class T>                                                        \
        KULLBACK_FLAT static void apply(const T* const (&in)[2], T* __restrict out, int64_t n) { \
            const T *__restrict a = in[0], *__restrict b = in[1];                 \
            typename Format<T>::Bits worst = 0;                                   \
            for (int64_t i = 0; i < n; ++i) {                                     \
                const T x = a[i], y = b[i];                                       \
                worst = larger(worst, larger(excess(x), excess(y)));              \
                out[i] = ordinary;                                                \
            }                                                                     \
            if (worst >= kOrdinary<T>) Function_any_##name::apply(in, out, n);    \
        }                                                                         \
    };
KULLBACK_UNARY(KULLBACK_UNARY_LOOP)
KULLBACK_BINARY(KULLBACK_BINARY_LOOP)
KULLBACK_BINARY_GUARDED(KULLBACK_BINARY_GUARDED_LOOP)
KULLBACK_TERNARY(KULLBACK_TERNARY_LOOP)
KULLBACK_UNARY_REPAIRED(KULLBACK_UNARY_REPAIRED_LOOP)
KULLBACK_BINARY_REPAIRED(KULLBACK_BINARY_REPAIRED_LOOP)
KULLBACK_TERNARY_REPAIRED(KULLBACK_TERNARY_REPAIRED_LOOP)

template <class F>
constexpr ElementwiseFunction entry(const char* name) {
    using F32 = typename F::Single;
    using N = typename F::Narrow;
    return {name, F::kArity, {run<F, double, double>, run<F, float, F32>, run<F, Float16, N>, run<F, Bfloat16, N>}};
}

#define KULLBACK_ENTRY(name, ...) entry<Function_##name>(#name),
constexpr ElementwiseFunction kFunctions[] = {
    KULLBACK_UNARY(KULLBACK_ENTRY) KULLBACK_BINARY(KULLBACK_ENTRY) KULLBACK_BINARY_GUARDED(KULLBACK_ENTRY)
        KULLBACK_TERNARY(KULLBACK_ENTRY)
        KULLBACK_UNARY_REPAIRED(KULLBACK_ENTRY) KULLBACK_BINARY_REPAIRED(KULLBACK_ENTRY)
            KULLBACK_TERNARY_REPAIRED(KULLBACK_ENTRY)};

}  // namespace

#define KULLBACK_TEXT_(name) #name
#define KULLBACK_TEXT(name) KULLBACK_TEXT_(name)
extern const RowKernels kRows;
extern const PairFunction kPairs[];
extern const int32_t kPairCount;
extern const DirichletKernels kDirichlet;
extern const InstructionSet kSet;
const InstructionSet kSet = {KULLBACK_TEXT(KULLBACK_SET), kFunctions, int32_t(sizeof(kFunctions) / sizeof(kFunctions[0])),
                             &kRows, kPairs, &kPairCount, &kDirichlet};

}  // namespace kullback::KULLBACK_SET
