// What `kullback compare` reports of a row, from two passes: the first one sums the weights and finds the classes with the largest
// weights of both sides, the second one sums KL in both directions, Jensen-Shannon and total variation.
//
// With v = log q/p and R = (e^v - 1 - v)/v^2 a class adds
//
//     where |v| <= 1                           elsewhere
//     p v^2 R                                  (q - p) - p v         to KL(p || q),
//     p v^2 (1 - R + v R)                      q v - (q - p)         to KL(q || p),
//     (p + q)/2 v^2 H(v^2)                     see `far`             to Jensen-Shannon,
//     p (v + v^2 R)                            q - p                 to q - p, whose absolute values are twice total variation.
//
// The first three are >= 0, so that nothing cancels between classes. R and H are polynomials. Classes of similar rows are nearly all of
// the first kind, which takes one exponential.
#pragma once

#include "kl.h"

namespace kullback::KULLBACK_SET {

// H: ((1 + t) log(1 + t) + (1 - t) log(1 - t))/(2 v^2), t = (q - p)/(q + p) = tanh(v/2), for v^2 <= 1, off by 3e-8 and 1e-17 of itself at most.
inline constexpr float kShannonFloat[] = {0.124999997f, -0.0156248474f, 0.00173488049f, -0.000180939836f, 1.49842076e-5f};
inline constexpr double kShannonDouble[] = {
    0.12499999999999999937,     -0.015624999999999847534,   0.001736111111105009621,     -0.0001844618054601261192,
    0.000019221229391457551014, -1.983549263606001703e-6,   2.0357502874125001576e-7,    -2.0805636105486875606e-8,
    2.1006979060489192072e-9,   -1.9699389154855275921e-10, 1.2857818029924218572e-11};

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

// What one class adds, the excess q - p among it.
template <class T>
struct ClassShares {
    Vector<T> forward, reverse, shannon, excess;

    // |v| <= 1.
    [[gnu::always_inline]] static ClassShares near(Vector<T> p, Vector<T> v) {
        const Vector<T> first = p * v, second = first * v, phi = second * exp_remainder<T>(v), excess = first + phi, square = v * v;
        Vector<T> shannon;
        if constexpr (sizeof(T) == 4) shannon = polynomial<T>(square, kShannonFloat);
        else shannon = polynomial<T>(square, kShannonDouble);
        return {phi, (v * phi + second) - phi, (p + T(0.5) * excess) * square * shannon, excess};
    }

    // With r the smaller of p and q by the larger, Jensen-Shannon is ((p + q) (log 2 - log(1 + r)) - |v| min(p, q))/2.
    [[gnu::always_inline]] static ClassShares far(Vector<T> p, Vector<T> q, Vector<T> v) {
        const Vector<T> excess = q - p, larger_one = larger(p, q), smaller_one = -larger(-p, -q);
        const Vector<T> divisor = larger(larger_one, fill(Format<T>::kSmallestNormal));
        Vector<T> r, log_more;
        if constexpr (sizeof(T) == 4) r = smaller_one * reciprocal(divisor), log_more = r * polynomial<T>(r, kLogOfOneMoreFloat);
        else r = smaller_one / divisor, log_more = r * polynomial<T>(r, kLogOfOneMoreDouble);
        const Vector<T> shannon = T(0.5) * ((p + q) * (T(0.69314718055994530942) - log_more) - smaller_one * magnitude_of(v));
        return {excess - p * v, q * v - excess, shannon, excess};
    }

    [[gnu::always_inline]] void replace(Mask<T> where, const ClassShares& by) {
        forward = where ? by.forward : forward, reverse = where ? by.reverse : reverse;
        shannon = where ? by.shannon : shannon, excess = where ? by.excess : excess;
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

// kRounded: b - a is rounded.
template <class T, bool kHasMask, bool kRounded>
MeasureSums sum_measures(const RowPair<T>& row, const RowStatistics& s) {
    using V = Vector<T>;
    using M = Mask<T>;
    constexpr int kCount = Lanes<T>::kCount;
    constexpr int64_t kPart = 4 * kGroup<T>;  // so many classes are added in T before a sum goes on in double
    const Normalised<T> is(s);
    Accumulator<T> forward, reverse, shannon, variation, growth, p_smaller;
    M only_q{};
    row.template each_exact_block<kHasMask>([&](const T* a, const T* b, int64_t count, int64_t, const T* low) {
        const int64_t padded = rounded_up<T>(count);
        for (int64_t i = 0; i < padded;) {
            V sum_forward{}, sum_reverse{}, sum_shannon{}, sum_variation{}, sum_growth{}, sum_p_smaller{};
            for (const int64_t end = i + kPart < padded ? i + kPart : padded; i < end; i += kGroup<T>) {
                V p[4], v[4], largest{};
#pragma GCC unroll 4
                for (int j = 0; j < 4; ++j) {
                    const int64_t k = i + j * kCount;
                    const V x = load_lanes(a + k), y = load_lanes(b + k);
                    p[j] = is.p(x);
                    if constexpr (kRounded) v[j] = is.gap.less(y - x);
                    else v[j] = is.log_ratio(x, y, missing_at(low, k));
                    if constexpr (kHasMask) {
                        const M in_p = x > -kInfinity<T>, in_q = y > -kInfinity<T>;
                        // A class that one side lacks is finite here. It makes KL in one direction infinite, which is known without it.
                        v[j] = in_p ? (in_q ? v[j] : fill(T(-1e30))) : (in_q ? fill(T(1e30)) : V{});
                        p[j] = in_p ? p[j] : V{}, only_q |= in_q & ~in_p;
                    }
                    largest = larger(magnitude_of(v[j]), largest);
                }
                const auto take = [&](int j, const ClassShares<T>& share) {
                    sum_forward += share.forward, sum_reverse += share.reverse, sum_shannon += share.shannon;
                    sum_variation += magnitude_of(share.excess), sum_growth += share.excess, sum_p_smaller += v[j] > T(0) ? p[j] : V{};
                };
                if (!any(largest > T(1))) {
#pragma GCC unroll 4
                    for (int j = 0; j < 4; ++j) take(j, ClassShares<T>::near(p[j], v[j]));
                    continue;
                }
                for (int j = 0; j < 4; ++j) {
                    ClassShares<T> share = ClassShares<T>::near(p[j], v[j]);
                    const M far = magnitude_of(v[j]) > T(1);
                    if (any(far)) {
                        const V y = load_lanes(b + i + j * kCount);
                        V q = is.q(y);
                        if constexpr (kHasMask) q = y > -kInfinity<T> ? q : V{};
                        share.replace(far, ClassShares<T>::far(p[j], q, v[j]));
                    }
                    take(j, share);
                }
            }
            forward.add(sum_forward), reverse.add(sum_reverse), shannon.add(sum_shannon);
            variation.add(sum_variation), growth.add(sum_growth), p_smaller.add(sum_p_smaller);
        }
    });
    const double varies = 0.5 * variation.total(), grows = growth.total();
    return {forward.total(), any(only_q) ? kInfinity<double> : reverse.total(), shannon.total(), varies, grows,
            p_smaller.total() + varies + 0.5 * grows};
}

// The rounding of b - a, 3e-8 of itself, is little beside v unless a common shift of both sides is larger.
inline bool shift_is_small(const RowStatistics& s) { return s.gap * s.gap <= 500 * s.kl; }

// All measures of a row whose sums are known.
template <class T, bool kHasMask>
void describe_measures(const RowPair<T>& row, RowStatistics& s) {
    constexpr bool kMayRound = sizeof(T) == 4 && !kHasMask;
    for (int round = 0; round < 3; ++round) {
        const bool rounded = kMayRound && shift_is_small(s);
        const MeasureSums sums = rounded ? sum_measures<T, kHasMask, kMayRound>(row, s) : sum_measures<T, kHasMask, false>(row, s);
        sums.store_corrected(s);
        move_gap(s, sums.growth);
        if (sums.accurate() && (!rounded || shift_is_small(s))) break;
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
