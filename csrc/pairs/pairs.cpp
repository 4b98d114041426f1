// The pair kernels for one instruction set; CMake compiles this file once per set (KULLBACK_SET names it).
//
// A family is a struct with the number of its parameters (those of p, then those of q), the divergence `value`, and its
// derivatives `slopes`, which a backward pass multiplies by the incoming gradient. `Single` says in which precision float32
// is computed. One driver serves all of them.
#include "../blocks.h"
#include "bernoulli.h"
#include "beta.h"
#include "call.h"
#include "gamma.h"
#include "normal.h"
#include "poisson.h"

namespace kullback::KULLBACK_SET {
namespace {

template <class F, class C>
KULLBACK_FLAT void values(const C* const (&in)[F::kArity], C* __restrict out, int64_t n) {
    for (int64_t i = 0; i < n; ++i) {
        C x[F::kArity];
        unrolled<F::kArity>([&](auto k) { x[k] = in[k][i]; });
        out[i] = F::value(x);
    }
}

template <class F, class C>
KULLBACK_FLAT void gradients(const C* const (&in)[F::kArity], const C* grad, C (&out)[F::kArity][kBlock], int64_t n) {
    for (int64_t i = 0; i < n; ++i) {
        C x[F::kArity], slopes[F::kArity];
        unrolled<F::kArity>([&](auto k) { x[k] = in[k][i]; });
        F::slopes(x, slopes);
        const C g = grad[i];
        // Where nothing is asked the answer is zero, so that an infinite slope does not become a NaN.
        unrolled<F::kArity>([&](auto k) { out[k][i] = g == C(0) ? C(0) : g * slopes[k]; });
    }
}

template <class F, class S, class C>
void forward(const PairCall& call, int64_t begin, int64_t end) {
    alignas(64) C buffers[F::kArity][kBlock];
    alignas(64) C results[kBlock];
    S* output = static_cast<S*>(call.value);
    for (int64_t at = begin; at < end; at += kBlock) {
        const int64_t count = smaller(kBlock, end - at);
        const C* in[F::kArity];
        for (int i = 0; i < F::kArity; ++i) {
            in[i] = load_block<S, C>(call.inputs[i], call.columns, at, count, buffers[i]);
        }
        values<F, C>(in, results, count);
        for (int64_t i = 0; i < count; ++i) output[at + i] = S(results[i]);
    }
}

template <class F, class S, class C>
void backward(const PairCall& call, int64_t begin, int64_t end) {
    alignas(64) C buffers[F::kArity][kBlock];
    alignas(64) C grads[kBlock];
    alignas(64) C results[F::kArity][kBlock];
    for (int64_t at = begin; at < end; at += kBlock) {
        const int64_t count = smaller(kBlock, end - at);
        const C* in[F::kArity];
        for (int i = 0; i < F::kArity; ++i) {
            in[i] = load_block<S, C>(call.inputs[i], call.columns, at, count, buffers[i]);
        }
        gradients<F, C>(in, load_block<S, C>(call.grad, call.columns, at, count, grads), results, count);
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

template <class F>
constexpr PairFunction entry(const char* name) {
    using C = typename F::Single;
    return {name,
            F::kArity,
            {forward<F, double, double>, forward<F, float, C>},
            {backward<F, double, double>, backward<F, float, C>}};
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
    entry<Gamma>("gamma"),
    entry<Normal>("normal"),
    entry<Poisson>("poisson"),
};
const int32_t kPairCount = int32_t(sizeof(kPairs) / sizeof(kPairs[0]));

}  // namespace kullback::KULLBACK_SET
