// The elementwise kernels for one instruction set; CMake compiles this file once per set (KULLBACK_SET names it).
//
// One driver serves every function, dtype and layout: a block of each operand is brought into a buffer in the precision
// the function computes in (or used in place), the function runs over the block in a loop the compiler vectorises, and
// the block is stored.
#include <type_traits>

#include "elementwise.h"
#include "functions.h"
#include "math/half.h"

namespace kullback::KULLBACK_SET {
namespace {

constexpr int64_t kBlock = 256;

// Not std::min: an inline function of the standard library compiled here could be linked into other files.
inline int64_t smaller(int64_t a, int64_t b) { return a < b ? a : b; }

// Elements [begin, begin + count) of the flattened rows x columns view.
template <class S, class C>
const C* load_block(const Operand& operand, int64_t columns, int64_t begin, int64_t count, C* buffer) {
    const S* data = static_cast<const S*>(operand.data);
    const bool contiguous = operand.column_stride == 1 && operand.row_stride == columns;
    if constexpr (std::is_same_v<S, C>) {
        if (contiguous) return data + begin;
    }
    int64_t row = begin / columns, column = begin - row * columns, done = 0;
    if (contiguous) row = 0, column = begin, columns = begin + count;
    while (done < count) {
        const int64_t run = smaller(count - done, columns - column);
        const S* source = data + row * operand.row_stride + column * operand.column_stride;
        C* target = buffer + done;
        if (operand.column_stride == 1) {
            for (int64_t i = 0; i < run; ++i) target[i] = load<C>(source[i]);
        } else if (operand.column_stride == 0) {
            for (int64_t i = 0; i < run; ++i) target[i] = load<C>(*source);
        } else {
            for (int64_t i = 0; i < run; ++i) target[i] = load<C>(source[i * operand.column_stride]);
        }
        done += run, column = 0, ++row;
    }
    return buffer;
}

// F::apply(x), (x, y) or (x, y, z) over elements [begin, end); S is the stored type, C the computing one.
template <class F, class S, class C>
void run(const ElementwiseCall& call, int64_t begin, int64_t end) {
    alignas(64) C buffers[F::kArity][kBlock];
    alignas(64) C results[kBlock];
    S* output = static_cast<S*>(call.output);
    for (int64_t at = begin; at < end; at += kBlock) {
        const int64_t count = smaller(kBlock, end - at);
        const C* inputs[F::kArity];
        for (int i = 0; i < F::kArity; ++i) {
            inputs[i] = load_block<S, C>(call.inputs[i], call.columns, at, count, buffers[i]);
        }
        F::apply(inputs, results, count);
        for (int64_t i = 0; i < count; ++i) store(results[i], output[at + i]);
    }
}

// Inlines the whole of a function into its loop: a call left over would keep it from vectorising.
#define KULLBACK_FLAT [[gnu::flatten]]

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
            for (int64_t i = 0; i < n; ++i) {                                     \
                const T x = in[0][i], y = in[1][i], z = in[2][i];                 \
                if (condition) out[i] = repair;                                   \
            }                                                                     \
        }                                                                         \
    };
KULLBACK_UNARY(KULLBACK_UNARY_LOOP)
KULLBACK_BINARY(KULLBACK_BINARY_LOOP)
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
    KULLBACK_UNARY(KULLBACK_ENTRY) KULLBACK_BINARY(KULLBACK_ENTRY) KULLBACK_TERNARY(KULLBACK_ENTRY)
        KULLBACK_UNARY_REPAIRED(KULLBACK_ENTRY) KULLBACK_BINARY_REPAIRED(KULLBACK_ENTRY)
            KULLBACK_TERNARY_REPAIRED(KULLBACK_ENTRY)};

}  // namespace

#define KULLBACK_TEXT_(name) #name
#define KULLBACK_TEXT(name) KULLBACK_TEXT_(name)
extern const RowKernels kRows;
extern const InstructionSet kSet;
const InstructionSet kSet = {KULLBACK_TEXT(KULLBACK_SET), kFunctions, int32_t(sizeof(kFunctions) / sizeof(kFunctions[0])),
                             &kRows};

}  // namespace kullback::KULLBACK_SET
