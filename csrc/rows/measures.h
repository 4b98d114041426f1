// What `kullback compare` reports of a row, from two passes: the first one sums the weights and finds the classes with the largest
// weights of both sides, the second one sums KL in both directions, Jensen-Shannon and total variation.
//
// With v = log q/p, s = -|v| <= 0, m = e^s - 1 and M the larger of p and q, the smaller is M (1 + m), and a class adds
//
//     to KL(q || p)        M phi(s) where q is the larger, M psi(s) elsewhere;   phi(s) = m - s,   psi(s) = (1 + m) s - m,
//     to KL(p || q)        the other one of these two,
//     to Jensen-Shannon    M ((1 + m) s - (2 + m) log(1 + m/2)) / 2,
//     to total variation   -M m / 2.
//
// All of these are >= 0, so that nothing cancels between classes. For |s| <= 1 they are s^2 or s times polynomials.
#pragma once

#include "kl.h"

namespace kullback::KULLBACK_SET {

// ((1 + m) s - (2 + m) log(1 + m/2)) / (2 s^2) for -1 <= s <= 0, off by 1e-9 and 1e-18 of itself at most.
inline constexpr float kShannonFloat[] = {0.125f,         0.0624999959f,  0.0156249365f, 0.0026038139f,
                                          0.000433157495f, 8.58765238e-5f, 1.06497843e-5f};
inline constexpr double kShannonDouble[] = {
    0.125,
    0.062499999999999982,
    0.015624999999998661,
    0.002604166666627471576,
    0.0004340277771791516797,
    0.00008680555007462632609,
    0.00001085066188436447394,
    -2.584814275715727592e-7,
    -2.620619091006967352e-8,
    9.398986110331875267e-8,
    6.867167753021800504e-9,
    -7.290706545912369191e-9,
    -9.996544226384793943e-10,
    3.725035635728999527e-10,
    8.635146120674788823e-11};

// log(1 + r)/r for 0 <= r <= 1/e.
inline constexpr float kLogOfOneMoreFloat[] = {1.0f,         -0.499999878f, 0.333326265f, -0.249842374f,
                                               0.198243606f, -0.155731094f, 0.10300622f,  -0.0390775079f};
inline constexpr double kLogOfOneMoreDouble[] = {
    1.0,
    -0.4999999999999999696,
    0.3333333333333253705,
    -0.249999999999172947,
    0.1999999999546660867,
    -0.166666665154490977,
    0.1428571094779664489,
    -0.1249994855812764022,
    0.1111053752699872093,
    -0.0999526151679497068,
    0.09061460876844530862,
    -0.08194465410649950506,
    0.07193766153732034581,
    -0.05781292536119575064,
    0.03844416061347087436,
    -0.01800327129961057386,
    0.004287014615841723839};

// What one class adds, in units of its larger probability.
template <class T>
struct ClassShares {
    Vector<T> phi, psi, shannon, variation;  // the last is twice its share

    [[gnu::always_inline]] static ClassShares near(Vector<T> s) {
        const Vector<T> square = s * s, rest = exp_remainder<T>(s);
        Vector<T> shannon;
        if constexpr (sizeof(T) == 4) shannon = polynomial<T>(s, kShannonFloat);
        else shannon = polynomial<T>(s, kShannonDouble);
        return {square * rest, square * (T(1) - (T(1) - s) * rest), square * shannon, -s - square * rest};
    }

    // s < -1. A class that one side lacks has s = -inf.
    [[gnu::always_inline]] static ClassShares far(Vector<T> s) {
        const PowerOfE<T> e = exp_below<T>(s);
        const Vector<T> r = e.value, held = r * larger(s, fill(kLeastPowerOfE<T>));
        Vector<T> log_more;
        if constexpr (sizeof(T) == 4) log_more = polynomial<T>(r, kLogOfOneMoreFloat);
        else log_more = polynomial<T>(r, kLogOfOneMoreDouble);
        const Vector<T> shannon = T(0.5) * (held - (T(1) + r) * (r * log_more - T(0.69314718055994530942)));
        return {e.less_one - s, held - e.less_one, shannon, -e.less_one};
    }

    [[gnu::always_inline]] void replace(Mask<T> where, const ClassShares& by) {
        phi = where ? by.phi : phi, psi = where ? by.psi : psi;
        shannon = where ? by.shannon : shannon, variation = where ? by.variation : variation;
    }
};

// What one pass finds. An error d of D, e^d - 1 = growth, moves each of them; `corrected` takes that back.
struct MeasureSums {
    double forward, reverse, shannon, variation;
    double growth;    // sum (q - p)
    double q_larger;  // mass of q where q is the larger

    void store_corrected(RowStatistics& s) const {
        const auto less = [](double sum, double correction) { return sum > correction ? sum - correction : 0.0; };
        s.kl = less(forward, log1p_remainder(growth));
        s.mean[1] = less(reverse, log1p_remainder(-growth / (1 + growth)));
        s.mean[0] = less(shannon, growth * growth / 8);
        s.value = variation - growth * (q_larger - 0.5);
    }

    // The corrections are as accurate as their relative sizes allow.
    bool accurate() const {
        const double least = forward < reverse ? forward : reverse, square = growth * growth;
        return square <= 0.5 * least && square <= 2 * shannon && magnitude(growth) <= 3e-4 * variation;
    }
};

template <class T, bool kHasMask>
MeasureSums sum_measures(const RowPair<T>& row, const RowStatistics& s) {
    using V = Vector<T>;
    using M = Mask<T>;
    constexpr int kCount = Lanes<T>::kCount;
    const Normalised<T> is(s);
    const V origin_p = fill(Format<T>::kRound - is.scale_p), origin_q = fill(Format<T>::kRound - is.scale_q);
    const V over_p = fill(is.over_p), over_q = fill(is.over_q);
    Accumulator<T> forward, reverse, shannon, variation, excess, q_larger_mass;
    M only_q{};
    row.template each_exact_block<kHasMask>([&](const T* a, const T* b, int64_t count, int64_t, const T* low) {
        Accumulator<T> block_forward, block_reverse, block_shannon, block_variation, block_excess, block_q_larger;
        for (int64_t i = 0; i < rounded_up<T>(count); i += kGroup<T>) {
            V sum_forward{}, sum_reverse{}, sum_shannon{}, sum_variation{}, sum_excess{}, sum_q_larger{};
#pragma GCC unroll 4
            for (int j = 0; j < 4; ++j) {
                const int64_t k = i + j * kCount;
                const V x = load_lanes(a + k), y = load_lanes(b + k);
                V v = is.log_ratio(x, y, missing_at(low, k));
                M nothing{};
                if constexpr (kHasMask) {
                    const M in_p = x > -kInfinity<T>, in_q = y > -kInfinity<T>;
                    v = in_p ? (in_q ? v : fill(-kInfinity<T>)) : fill(kInfinity<T>);
                    nothing = ~(in_p | in_q), only_q |= in_q & ~in_p;
                }
                const M q_larger = v > T(0);
                V larger_one = scaled_exp_from<T>(q_larger ? y : x, q_larger ? origin_q : origin_p) * (q_larger ? over_q : over_p);
                const V size = -magnitude_of(v);
                ClassShares<T> share = ClassShares<T>::near(size);
                const M far = size < T(-1);
                if (any(far)) share.replace(far, ClassShares<T>::far(size));
                if constexpr (kHasMask) {
                    larger_one = nothing ? V{} : larger_one;
                    // A class that one side lacks makes the row infinite in one direction; there it counts for nothing.
                    share.phi = share.phi < kInfinity<T> ? share.phi : V{};
                }
                const V varies = larger_one * share.variation;
                sum_forward += larger_one * (q_larger ? share.psi : share.phi);
                sum_reverse += larger_one * (q_larger ? share.phi : share.psi);
                sum_shannon += larger_one * share.shannon, sum_variation += varies;
                sum_excess += q_larger ? varies : V{}, sum_q_larger += q_larger ? larger_one : V{};
            }
            block_forward.add(sum_forward), block_reverse.add(sum_reverse), block_shannon.add(sum_shannon);
            block_variation.add(sum_variation), block_excess.add(sum_excess), block_q_larger.add(sum_q_larger);
        }
        forward.add(block_forward), reverse.add(block_reverse), shannon.add(block_shannon);
        variation.add(block_variation), excess.add(block_excess), q_larger_mass.add(block_q_larger);
    });
    const double varies = variation.total();
    return {forward.total(), any(only_q) ? kInfinity<double> : reverse.total(), shannon.total(), 0.5 * varies,
            2 * excess.total() - varies, q_larger_mass.total()};
}

// All measures of a row whose sums are known.
template <class T, bool kHasMask>
void describe_measures(const RowPair<T>& row, RowStatistics& s) {
    for (int round = 0; round < 3; ++round) {
        const MeasureSums sums = sum_measures<T, kHasMask>(row, s);
        sums.store_corrected(s);
        move_gap(s, sums.growth);
        if (sums.accurate()) break;
    }
    if (s.state & kInfinite) s.kl = kInfinity<double>;
}

// The classes with the largest weights of one side, largest first and the earlier class first among equals.
template <class T>
class TopClasses {
  public:
    TopClasses(int64_t* classes, int64_t number) : classes_(classes), number_(number < kMost ? number : kMost) {
        for (int64_t i = 0; i < number_; ++i) weights_[i] = -kInfinity<T>, classes_[i] = -1;
    }

    static constexpr int64_t kMost = 64;

    bool wants(T weight) const { return weight > weights_[number_ - 1]; }

    [[gnu::always_inline]] void look_at(const T* block, int64_t count, int64_t at) {
        constexpr int kCount = Lanes<T>::kCount;
        for (int64_t i = 0; i < rounded_up<T>(count); i += kGroup<T>) {
            Vector<T> top = load_lanes(block + i);
#pragma GCC unroll 3
            for (int j = 1; j < 4; ++j) top = larger(load_lanes(block + i + j * kCount), top);
            if (any(top > weights_[number_ - 1])) take_group(block, i, count, at);
        }
    }

  private:
    [[gnu::noinline]] void take_group(const T* block, int64_t begin, int64_t count, int64_t at) {
        const int64_t end = begin + kGroup<T> < count ? begin + kGroup<T> : count;
        for (int64_t i = begin; i < end; ++i) {
            if (!(block[i] > weights_[number_ - 1])) continue;
            int64_t place = number_ - 1;
            for (; place > 0 && block[i] > weights_[place - 1]; --place) {
                weights_[place] = weights_[place - 1], classes_[place] = classes_[place - 1];
            }
            weights_[place] = block[i], classes_[place] = at + i;
        }
    }

    int64_t* classes_;
    int64_t number_;
    T weights_[kMost];
};

// The same of both sides. `share` of the call is how many; gradient[0] and gradient[1] receive the classes of p and q, as int64.
template <class T>
class TopOfBoth {
  public:
    TopOfBoth(const RowsCall& call, int64_t row)
        : number_(int64_t(call.share)),
          p_(static_cast<int64_t*>(call.gradient[0]) + row * number_, number_),
          q_(static_cast<int64_t*>(call.gradient[1]) + row * number_, number_) {}

    // A block and its largest weights.
    [[gnu::always_inline]] void operator()(const T* a, const T* b, T top_a, T top_b, int64_t count, int64_t at) {
        if (p_.wants(top_a)) p_.look_at(a, count, at);
        if (q_.wants(top_b)) q_.look_at(b, count, at);
    }

  private:
    int64_t number_;
    TopClasses<T> p_, q_;
};

}  // namespace kullback::KULLBACK_SET
