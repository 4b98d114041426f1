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

// work(i, arguments of element i); a function of fewer than three sees its first again.
template <int N, class T, class Work>
[[gnu::always_inline]] inline void each_element(const T* const (&in)[N], int64_t n, Work&& work) {
    const T *__restrict a = in[0], *__restrict b = in[N > 1 ? 1 : 0], *__restrict c = in[N > 2 ? 2 : 0];
    for (int64_t i = 0; i < n; ++i) work(i, a[i], b[i], c[i]);
}

template <class F, int N>
struct Loop {
    static constexpr int kArity = N;
    template <class T>
    KULLBACK_FLAT static void apply(const T* const (&in)[N], T* __restrict out, int64_t n) {
        each_element(in, n, [&](int64_t i, T x, T y, T z) { out[i] = F::of(x, y, z); });
    }
};

template <class F, int N>
struct RepairedLoop : Loop<F, N> {
    template <class T>
    KULLBACK_FLAT static void apply(const T* const (&in)[N], T* __restrict out, int64_t n) {
        Loop<F, N>::apply(in, out, n);
        int exceptions = 0;
        each_element(in, n, [&](int64_t, T x, T y, T z) { exceptions |= int(F::is_exception(x, y, z)); });
        if (exceptions == 0) return;
        each_element(in, n, [&](int64_t i, T x, T y, T z) {
            if (F::is_exception(x, y, z)) out[i] = F::repaired(x, y, z);
        });
    }
};

template <class F, int N>
struct GuardedLoop : Loop<F, N> {
    template <class T>
    KULLBACK_FLAT static void apply(const T* const (&in)[N], T* __restrict out, int64_t n) {
        typename Format<T>::Bits worst = 0;
        each_element(in, n, [&](int64_t i, T x, T y, T z) {
            worst = larger(worst, larger(excess(x), excess(y)));
            out[i] = F::ordinary(x, y, z);
        });
        if (worst >= kOrdinary<T>) Loop<F, N>::apply(in, out, n);
    }
};

#define KULLBACK_MEMBER(type, member, expression) \
    template <class T>                            \
    [[gnu::always_inline]] static type member([[maybe_unused]] T x, [[maybe_unused]] T y, [[maybe_unused]] T z) { \
        return expression;                        \
    }
#define KULLBACK_FUNCTION(loop, arity, name, single, narrow, ...) \
    struct Function_##name : loop<Function_##name, arity> {       \
        using Single = single;                                    \
        using Narrow = narrow;                                    \
        __VA_ARGS__                                               \
    };
#define KULLBACK_LOOP(arity, name, single, narrow, expression) \
    KULLBACK_FUNCTION(Loop, arity, name, single, narrow, KULLBACK_MEMBER(T, of, expression))
#define KULLBACK_REPAIRED_LOOP(arity, name, single, narrow, expression, condition, repair)      \
    KULLBACK_FUNCTION(RepairedLoop, arity, name, single, narrow, KULLBACK_MEMBER(T, of, expression) \
                      KULLBACK_MEMBER(bool, is_exception, condition) KULLBACK_MEMBER(T, repaired, repair))
#define KULLBACK_UNARY_LOOP(...) KULLBACK_LOOP(1, __VA_ARGS__)
#define KULLBACK_BINARY_LOOP(...) KULLBACK_LOOP(2, __VA_ARGS__)
#define KULLBACK_TERNARY_LOOP(...) KULLBACK_LOOP(3, __VA_ARGS__)
#define KULLBACK_BINARY_GUARDED_LOOP(name, single, narrow, usual, expression) \
    KULLBACK_FUNCTION(GuardedLoop, 2, name, single, narrow, KULLBACK_MEMBER(T, of, expression) KULLBACK_MEMBER(T, ordinary, usual))
#define KULLBACK_UNARY_REPAIRED_LOOP(...) KULLBACK_REPAIRED_LOOP(1, __VA_ARGS__)
#define KULLBACK_BINARY_REPAIRED_LOOP(...) KULLBACK_REPAIRED_LOOP(2, __VA_ARGS__)
#define KULLBACK_TERNARY_REPAIRED_LOOP(...) KULLBACK_REPAIRED_LOOP(3, __VA_ARGS__)
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
