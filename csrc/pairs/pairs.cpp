// The pair kernels for one instruction set; CMake compiles this file once per set (KULLBACK_SET names it).
//
// A family is a struct with the number of its parameters (those of p, then those of q), the divergence `value`, and its
// derivatives `slopes`, which a backward pass multiplies by the incoming gradient; `together` finds both in one pass, which
// shares the logarithms. Where parameters are none of the family's,
// NaN among them, `holds` says so and the answer is NaN: bits taken apart would give a number. `Single` says in which precision float32
// is computed. A family whose formula holds for most parameters only names a second one, `Rare`, and says where that is
// needed: those elements of a block are gathered and computed again. One driver serves all of them.
#include "../blocks.h"
#include "bernoulli.h"
#include "beta.h"
#include "call.h"
#include "dirichlet.h"
#include "gamma.h"
#include "geometric.h"
#include "location_scale.h"
#include "normal.h"
#include "poisson.h"
#include "scales.h"

namespace kullback::KULLBACK_SET {
namespace {

// Whether the two sides of a family are given in different parameters.
template <class F>
inline constexpr bool kMixed = false;
template <template <bool, bool> class F, bool kLogitsP, bool kLogitsQ>
inline constexpr bool kMixed<F<kLogitsP, kLogitsQ>> = kLogitsP != kLogitsQ;

// Equal parameters have a divergence of 0 also where they are infinite and the formula of a family has no value.
template <class F, class C>
[[gnu::always_inline]] inline bool are_equal(const C (&x)[F::kArity]) {
    bool equal = !kMixed<F>;
    unrolled<F::kArity / 2>([&](auto k) { equal &= x[k] == x[k + F::kArity / 2]; });
    return equal;
}

template <class F, class C>
[[gnu::always_inline]] inline C value_of(const C (&x)[F::kArity]) {
    const C value = F::value(x);
    return F::holds(x) ? (are_equal<F>(x) ? C(0) : value) : kNaN<C>;
}

// So are its derivatives where a parameter is infinite, or where the formula has none. At the edge of a support they are not.
template <class F, class C>
[[gnu::always_inline]] inline void slopes_of(const C (&x)[F::kArity], C (&slopes)[F::kArity]) {
    F::slopes(x, slopes);
    const bool equal = are_equal<F>(x), holds = F::holds(x);
    bool infinite = false;
    unrolled<F::kArity>([&](auto k) { infinite |= magnitude(x[k]) == kInfinity<C>; });
    unrolled<F::kArity>([&](auto k) {
        const C slope = equal & (infinite | !(magnitude(slopes[k]) < kInfinity<C>)) ? C(0) : slopes[k];
        slopes[k] = holds ? slope : kNaN<C>;
    });
}

template <class F, class C>
KULLBACK_FLAT void values(const C* const (&in)[F::kArity], C* __restrict out, int64_t n) {
    for (int64_t i = 0; i < n; ++i) {
        C x[F::kArity];
        unrolled<F::kArity>([&](auto k) { x[k] = in[k][i]; });
        out[i] = value_of<F>(x);
    }
}

template <class F, class C>
KULLBACK_FLAT void gradients(const C* const (&in)[F::kArity], const C* grad, C (&out)[F::kArity][kBlock], int64_t n) {
    for (int64_t i = 0; i < n; ++i) {
        C x[F::kArity], slopes[F::kArity];
        unrolled<F::kArity>([&](auto k) { x[k] = in[k][i]; });
        slopes_of<F>(x, slopes);
        // Where nothing is asked the answer is zero, so that an infinite slope does not become a NaN; outside the family it is NaN.
        const bool unasked = (grad[i] == C(0)) & F::holds(x);
        unrolled<F::kArity>([&](auto k) { out[k][i] = unasked ? C(0) : grad[i] * slopes[k]; });
    }
}

template <class F, class C>
KULLBACK_FLAT void values_and_slopes(const C* const (&in)[F::kArity], C* __restrict values, C (&slopes)[F::kArity][kBlock],
                                     int64_t n) {
    for (int64_t i = 0; i < n; ++i) {
        C x[F::kArity], d[F::kArity];
        unrolled<F::kArity>([&](auto k) { x[k] = in[k][i]; });
        slopes_of<F>(x, d);
        values[i] = value_of<F>(x);
        unrolled<F::kArity>([&](auto k) { slopes[k][i] = d[k]; });
    }
}

// Whether slopes can be multiplied by an incoming gradient after they were rounded: those out of range have lost digits.
template <class S>
bool has_lost_digits(const S* slopes, int64_t n) {
    int lost = 0;
    for (int64_t i = 0; i < n; ++i) {
        const S m = magnitude(slopes[i]);
        lost |= int((m >= Format<S>::kSmallestNormal) & (m < kInfinity<S>)) ^ int(m != S(0));
    }
    return lost != 0;
}

template <class F, class = void>
struct HasRare : std::false_type {};
template <class F>
struct HasRare<F, std::void_t<typename F::Rare>> : std::true_type {};

// The rare elements of a block, collected to the front of `gathered`; returns how many.
template <class F, class C>
int64_t gather(const C* const (&in)[F::kArity], C (&gathered)[F::kArity][kBlock], int16_t (&index)[kBlock], int64_t n) {
    int64_t found = 0;
    for (int64_t i = 0; i < n; ++i) {
        C x[F::kArity];
        unrolled<F::kArity>([&](auto k) { x[k] = in[k][i]; });
        index[found] = int16_t(i);
        found += F::is_rare(x) ? 1 : 0;
    }
    for (int k = 0; k < F::kArity; ++k) {
        for (int64_t i = 0; i < found; ++i) gathered[k][i] = in[k][index[i]];
    }
    return found;
}

template <class F, class S, class C>
void load_inputs(const PairCall& call, int64_t at, int64_t count, C (&buffers)[F::kArity][kBlock],
                 const C* (&in)[F::kArity]) {
    for (int i = 0; i < F::kArity; ++i) {
        in[i] = load_block<S, C>(call.inputs[i], call.columns, at, count, buffers[i]);
    }
}

template <class C, int N>
void point_to(const C (&buffers)[N][kBlock], const C* (&in)[N]) {
    for (int i = 0; i < N; ++i) in[i] = buffers[i];
}

template <class F, class S, class C>
void forward(const PairCall& call, int64_t begin, int64_t end) {
    alignas(64) C buffers[F::kArity][kBlock];
    alignas(64) C results[kBlock];
    S* output = static_cast<S*>(call.value);
    for (int64_t at = begin; at < end; at += kBlock) {
        const int64_t count = smaller(kBlock, end - at);
        const C* in[F::kArity];
        load_inputs<F, S, C>(call, at, count, buffers, in);
        values<F, C>(in, results, count);
        for (int64_t i = 0; i < count; ++i) output[at + i] = S(results[i]);
        if constexpr (HasRare<F>::value) {
            alignas(64) C gathered[F::kArity][kBlock];
            int16_t index[kBlock];
            const int64_t rare = gather<F>(in, gathered, index, count);
            if (rare == 0) continue;
            const C* of_rare[F::kArity];
            point_to(gathered, of_rare);
            values<typename F::Rare, C>(of_rare, results, rare);
            for (int64_t i = 0; i < rare; ++i) output[at + index[i]] = S(results[i]);
        }
    }
}

template <class F, class S, class C>
void backward(const PairCall& call, int64_t begin, int64_t end) {
    alignas(64) C buffers[F::kArity][kBlock];
    alignas(64) C grad_buffer[kBlock];
    alignas(64) C results[F::kArity][kBlock];
    for (int64_t at = begin; at < end; at += kBlock) {
        const int64_t count = smaller(kBlock, end - at);
        const C* in[F::kArity];
        load_inputs<F, S, C>(call, at, count, buffers, in);
        const C* grad = load_block<S, C>(call.grad, call.columns, at, count, grad_buffer);
        gradients<F, C>(in, grad, results, count);
        if constexpr (HasRare<F>::value) {
            alignas(64) C gathered[F::kArity][kBlock];
            alignas(64) C rare_results[F::kArity][kBlock];
            alignas(64) C rare_grad[kBlock];
            int16_t index[kBlock];
            const int64_t rare = gather<F>(in, gathered, index, count);
            for (int64_t i = 0; i < rare; ++i) rare_grad[i] = grad[index[i]];
            const C* of_rare[F::kArity];
            point_to(gathered, of_rare);
            if (rare > 0) gradients<typename F::Rare, C>(of_rare, rare_grad, rare_results, rare);
            for (int k = 0; k < F::kArity; ++k) {
                for (int64_t i = 0; i < rare; ++i) results[k][index[i]] = rare_results[k][i];
            }
        }
        for (int k = 0; k < F::kArity; ++k) {
            S* output = static_cast<S*>(call.gradients[k].data);
            const int64_t stride = call.gradients[k].stride;
            if (output == nullptr) continue;
            if (stride == 1) {
                for (int64_t i = 0; i < count; ++i) output[at + i] = S(results[k][i]);
            } else {
                for (int64_t i = 0; i < count; ++i) output[(at + i) * stride] = S(results[k][i]);
            }
        }
    }
}

template <class F, class S, class C>
void together(const PairCall& call, int64_t begin, int64_t end) {
    alignas(64) C buffers[F::kArity][kBlock];
    alignas(64) C results[kBlock];
    alignas(64) C slopes[F::kArity][kBlock];
    alignas(64) S rounded[kBlock];
    S* output = static_cast<S*>(call.value);
    bool lost = false;
    for (int64_t at = begin; at < end; at += kBlock) {
        const int64_t count = smaller(kBlock, end - at);
        const C* in[F::kArity];
        load_inputs<F, S, C>(call, at, count, buffers, in);
        values_and_slopes<F, C>(in, results, slopes, count);
        if constexpr (HasRare<F>::value) {
            alignas(64) C gathered[F::kArity][kBlock];
            alignas(64) C rare_slopes[F::kArity][kBlock];
            alignas(64) C rare_results[kBlock];
            int16_t index[kBlock];
            const int64_t rare = gather<F>(in, gathered, index, count);
            const C* of_rare[F::kArity];
            point_to(gathered, of_rare);
            if (rare > 0) values_and_slopes<typename F::Rare, C>(of_rare, rare_results, rare_slopes, rare);
            for (int64_t i = 0; i < rare; ++i) results[index[i]] = rare_results[i];
            for (int k = 0; k < F::kArity; ++k) {
                for (int64_t i = 0; i < rare; ++i) slopes[k][index[i]] = rare_slopes[k][i];
            }
        }
        for (int64_t i = 0; i < count; ++i) output[at + i] = S(results[i]);
        for (int k = 0; k < F::kArity; ++k) {
            S* of_slopes = static_cast<S*>(call.gradients[k].data);
            const int64_t stride = call.gradients[k].stride;
            if (of_slopes == nullptr) continue;
            S* target = stride == 1 ? of_slopes + at : rounded;
            for (int64_t i = 0; i < count; ++i) target[i] = S(slopes[k][i]);
            lost |= has_lost_digits(target, count);
            for (int64_t i = 0; stride != 1 && i < count; ++i) of_slopes[(at + i) * stride] = rounded[i];
        }
    }
    if (lost) __atomic_store_n(call.lost, int64_t(1), __ATOMIC_RELAXED);
}

template <class F>
constexpr PairFunction entry(const char* name) {
    using C = typename F::Single;
    return {name,
            F::kArity,
            {forward<F, double, double>, forward<F, float, C>},
            {backward<F, double, double>, backward<F, float, C>},
            {together<F, double, double>, together<F, float, C>}};
}

}  // namespace

extern const PairFunction kPairs[];
extern const int32_t kPairCount;
const PairFunction kPairs[] = {
    entry<Bernoulli<false, false>>("bernoulli_probs_probs"),
    entry<Bernoulli<false, true>>("bernoulli_probs_logits"),
    entry<Bernoulli<true, false>>("bernoulli_logits_probs"),
    entry<Bernoulli<true, true>>("bernoulli_logits_logits"),
    entry<Beta>("beta"),
    entry<Cauchy>("cauchy"),
    entry<Exponential>("exponential"),
    entry<Gamma>("gamma"),
    entry<Geometric<false, false>>("geometric_probs_probs"),
    entry<Geometric<false, true>>("geometric_probs_logits"),
    entry<Geometric<true, false>>("geometric_logits_probs"),
    entry<Geometric<true, true>>("geometric_logits_logits"),
    entry<Gumbel>("gumbel"),
    entry<HalfNormal>("half_normal"),
    entry<Laplace>("laplace"),
    entry<Normal>("normal"),
    entry<Pareto>("pareto"),
    entry<Poisson>("poisson"),
    entry<Weibull>("weibull"),
};
extern const DirichletKernels kDirichlet;
const DirichletKernels kDirichlet = {{dirichlet_forward<double>, dirichlet_forward<float>},
                                     {dirichlet_backward<double>, dirichlet_backward<float>}};
const int32_t kPairCount = int32_t(sizeof(kPairs) / sizeof(kPairs[0]));

}  // namespace kullback::KULLBACK_SET
