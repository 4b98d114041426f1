// The gradient of KL(p || q) in one pass over a row.
//
//     d/da = -p w,  w = u - E_p u,    d/db = q - p = q (1 - e^-v);    per weight, where a side is linear: divided by the weight.
//
// Both sum to 0 over a row, and that tells how well the two centres are known: E_p u = D - KL of w and D of v. Where q has mass
// that p lacks, KL and D are large and w may be small however far the sides are apart; where all but a few classes agree, v is.
// The sums are found on the way; a row in which they are not small against the largest entry is written once more from
// centres that are off by less. A class with all but a trace of both sides has an entry of that trace, which no centre of finite
// length resolves: where the others add to little, their sum with the other sign is written instead, in rows of doubles.
#pragma once

#include <cstring>

#include "strip.h"

namespace kullback::KULLBACK_SET {

template <class T>
using Put = void (*)(const T* source, int64_t count, void* row, int64_t at);

template <class T, class S>
void put(const T* __restrict source, int64_t count, void* row, int64_t at) {
    S* __restrict target = static_cast<S*>(row) + at;
    for (int64_t i = 0; i < count; ++i) store(source[i], target[i]);
}

template <class T>
inline constexpr Put<T> kPutters[] = {put<T, double>, put<T, float>, put<T, Float16>, put<T, Bfloat16>};

// The gradient of one side of one row, written block by block.
template <class T>
class Writer {
  public:
    Writer(const RowsCall& call, int side, int64_t row)
        : put_(kPutters<T>[call.sides[side].dtype]), size_(element_size(call.sides[side].dtype)) {
        char* const rows = static_cast<char*>(call.gradient[side]);
        row_ = rows == nullptr ? nullptr : rows + row * call.classes * size_;
    }

    bool wanted() const { return row_ != nullptr; }

    // Where to compute a block of `count` elements, with room for a whole number of groups.
    T* block(int64_t at, int64_t count, T* buffer) const {
        const bool in_place = size_ == int64_t(sizeof(T)) && rounded_up<T>(count) == count;
        return in_place ? reinterpret_cast<T*>(row_) + at : buffer;
    }

    void finish(const T* block, int64_t at, int64_t count, const T* buffer) const {
        if (block == buffer) put_(block, count, row_, at);
    }

    void set(T value, int64_t at) const { put_(&value, 1, row_, at); }

    // Multiplies a row of floats that is there.
    void multiply(float factor, int64_t classes) const {
        float* const row = reinterpret_cast<float*>(row_);
        for (int64_t i = 0; i < classes; ++i) row[i] *= factor;
    }

    void fill_zeros(int64_t classes) const { std::memset(row_, 0, size_t(classes * size_)); }

    void fill_nan(int64_t classes) const {
        for (int64_t i = 0; i < classes; ++i) put_(&kNaN<T>, 1, row_, i);
    }

  private:
    char* row_;
    Put<T> put_;
    int64_t size_;
};

// (q - p)/q. `missing` is what b - a lacks, so that p/q of the logarithms a and b is e^-missing of the true one.
template <class T>
inline Vector<T> to_weight(const Normalised<T>& is, Vector<T> a, Vector<T> b, Vector<T> v, Vector<T> missing) {
    const Mask<T> q_larger = v > T(0);
    const Vector<T> less_one = expm1_below<T>(q_larger ? -v : v);
    const Vector<T> q = is.q(b);
    // Where q is below the normal numbers, p/q = e^-v may still be within range.
    const T most = sizeof(T) == 4 ? T(88) : T(709);
    const Vector<T> ratio = -v > most ? fill(kInfinity<T>) : scaled_exp<T>(-v, Vector<T>{});
    return q_larger ? -less_one : less_one * (q > T(0) ? is.p(a) / q * (T(1) - missing) : ratio);
}

// One over the sum of a side's weights.
template <class T>
inline T one_over_sum(const RowStatistics& s, int side) {
    return T(std::ldexp(1 / s.total[side], -int(s.scale[side])));
}

// How far off the centre of w or v may be, relative to the largest entry of a gradient.
template <class T>
inline constexpr double kOffCentre = sizeof(T) == 4 ? 2e-7 : 1e-14;

// Whether the entry of a class with all but a trace is found from the others: a row of floats with such a class goes to double.
template <class T>
inline constexpr bool kClosed = sizeof(T) == 8;

// Whether some class may have more than half of p: the largest term of a scaled sum is 1, but for the rounding of its scale.
inline bool may_have_majority(const RowStatistics& s) { return !(s.total[0] > 2.001); }

// What a pass over a row found of one side: the sum of its gradient and the largest entry, before the incoming gradient
// multiplies them.
template <class T>
class Balance {
  public:
    void add(Vector<T> sum, Vector<T> largest) {
        total_.add(sum);
        largest_ = larger(largest, largest_);
    }
    // The part of a sum that is not of the class with more than half of p.
    void add_rest(Vector<T> sum) { rest_.add(sum); }
    void add(const Balance& other) {
        total_.add(other.total_);
        if constexpr (kClosed<T>) rest_.add(other.rest_);
        largest_ = larger(other.largest_, largest_);
    }
    double excess() const { return total_.total(); }
    double rest() const { return rest_.total(); }
    double largest() const { return double(largest_of<T>(largest_)); }
    // `weight`: by which an entry is changed at most where the centre moves by 1.
    bool holds(double weight) const {
        return !(magnitude(excess()) * weight > kOffCentre<T> * largest());
    }

  private:
    Accumulator<T> total_{}, rest_{};
    Vector<T> largest_{};
};

template <class T>
struct Balances {
    Balance<T> p, q;
    // Of a pass over weights: the largest probability, lane by lane, and whether some is too small for it.
    Vector<T> most{};
    Mask<T> faint{};
};

// What a pass finds of one class for one side: what is summed to tell how well the centre is known, what is compared with that,
// what is written, and the summed once more unless the class has more than half of p (close_row), where one may.
template <class T>
struct Entry {
    Vector<T> counted{}, size{}, written{}, rest{};
};

template <class T>
struct Entries {
    Entry<T> p, q;
};

// Writes the gradients of a row: of(x, y, what y - x misses) gives the entries of a vector of classes.
template <class T, bool kHasMask, bool kToP, bool kToQ, bool kLinearP = false, bool kLinearQ = false, class Of>
Balances<T> write_gradients(const RowPair<T>& row, T grad, const Writer<T>& to_p, const Writer<T>& to_q, Of&& of) {
    using V = Vector<T>;
    Balances<T> found;
    alignas(64) T buffers[2][kBlock];
    const auto work = [&](const T* a, const T* b, int64_t count, int64_t at, const T* low = nullptr) {
        T* const grad_p = kToP ? to_p.block(at, count, buffers[0]) : nullptr;
        T* const grad_q = kToQ ? to_q.block(at, count, buffers[1]) : nullptr;
        Balances<T> block;
        for (int64_t i = 0; i < rounded_up<T>(count); i += kGroup<T>) {
            V sum_p{}, sum_q{}, largest_p{}, largest_q{}, rest_p{}, rest_q{};
            prefetch_group(a + i + kBlock), prefetch_group(b + i + kBlock);
#pragma GCC unroll 4
            for (int j = 0; j < 4; ++j) {
                const int64_t k = i + j * Lanes<T>::kCount;
                const Entries<T> g = of(load_lanes(a + k), load_lanes(b + k), missing_at(low, k));
                if constexpr (kToP) {
                    sum_p += g.p.counted, largest_p = larger(magnitude_of(g.p.size), largest_p);
                    if constexpr (kClosed<T>) rest_p += g.p.rest;
                    store_lanes(g.p.written * grad, grad_p + k);
                }
                if constexpr (kToQ) {
                    sum_q += g.q.counted, largest_q = larger(magnitude_of(g.q.size), largest_q);
                    if constexpr (kClosed<T>) rest_q += g.q.rest;
                    store_lanes(g.q.written * grad, grad_q + k);
                }
            }
            if constexpr (kToP) block.p.add(sum_p, largest_p);
            if constexpr (kToQ) block.q.add(sum_q, largest_q);
            if constexpr (kClosed<T> && kToP) block.p.add_rest(rest_p);
            if constexpr (kClosed<T> && kToQ) block.q.add_rest(rest_q);
        }
        found.p.add(block.p), found.q.add(block.q);
        if constexpr (kToP) to_p.finish(grad_p, at, count, buffers[0]);
        if constexpr (kToQ) to_q.finish(grad_q, at, count, buffers[1]);
    };
    if constexpr (!kLinearP && !kLinearQ) row.template each_exact_block<kHasMask>(work);
    else row.template each_block<kHasMask, kLinearP, kLinearQ>(work);
    return found;
}

// What w and q - p are found from: log-ratios whose rounding is kept, rounded log-ratios, or log q alone, whose mean is the
// cross-entropy.
enum class From { kExactRatios, kRatios, kLogsOfQ };

// Probabilities and w in passes over log-weights and over weights.
template <class T, bool kLinearP, bool kLinearQ, From kFrom>
struct Classes {
    static constexpr bool kExact = kFrom == From::kExactRatios;
    Normalised<T> is;
    Centre<T> mean;

    Classes(const RowStatistics& s, const Difference<double>& centre) : is(s), mean(centre) {
        if (kLinearP) is.over_p = one_over_sum<T>(s, 0);
        if (kLinearQ) is.over_q = one_over_sum<T>(s, 1);
    }

    Vector<T> p(Vector<T> x) const {
        if constexpr (kLinearP) return x * is.over_p;
        else return is.p(x);
    }
    Vector<T> q(Vector<T> y) const {
        if constexpr (kLinearQ) return y * is.over_q;
        else return is.q(y);
    }
    Mask<T> in_p(Vector<T> x) const { return x > (kLinearP ? T(0) : T(-1e29)); }
    Vector<T> centred(Vector<T> x, Vector<T> y, Vector<T> missing) const {
        if constexpr (kExact) return mean.log_ratio(x, y, missing);
        else if constexpr (kFrom == From::kLogsOfQ) return mean.less(y);
        else if constexpr (!kLinearP && !kLinearQ) return mean.less(y - x);
        else return in_p(x) ? mean.less(log_weight_ratio<T, kLinearP, kLinearQ>(x, y)) : Vector<T>{};
    }
};

// kLinearP, kLinearQ: the row gives this side's weights. Only where nothing is lost by plain differences (direct_gradient_row).
template <class T, bool kHasMask, bool kToP, bool kToQ, bool kLinearP = false, bool kLinearQ = false, From kFrom = From::kExactRatios>
Balances<T> gradient_pass(const RowPair<T>& row, const RowStatistics& s, const Difference<double>& centre, T grad,
                          const Writer<T>& to_p, const Writer<T>& to_q, bool p_linear, bool q_linear) {
    using V = Vector<T>;
    using M = Mask<T>;
    const Classes<T, kLinearP, kLinearQ, kFrom> classes(s, centre);
    const Normalised<T>& is = classes.is;
    const T per_p = p_linear ? one_over_sum<T>(s, 0) : T(1), per_q = q_linear ? one_over_sum<T>(s, 1) : T(1);
    const bool majority = kClosed<T> && may_have_majority(s);
    V most{};
    M faint{};
    Balances<T> found = write_gradients<T, kHasMask, kToP, kToQ, kLinearP, kLinearQ>(
        row, grad, to_p, to_q, [&](V x, V y, V missing) {
            Entries<T> to;
            M in_p{}, in_q{};
            if constexpr (kHasMask) in_p = x > -kInfinity<T>, in_q = y > -kInfinity<T>;
            if constexpr (kToP) {
                V w = classes.centred(x, y, missing);
                if constexpr (kHasMask) w = in_p & in_q ? w : V{};
                const V p = classes.p(x), g = p * w;
                if constexpr (kLinearP) faint |= (x > T(0)) & (x < Format<T>::kSmallestNormal);
                to.p = {g, p_linear ? w : g, -(p_linear ? w * per_p : g), p > T(0.5) ? V{} : g};
            }
            if constexpr (kToQ && !classes.kExact) {
                const V p = classes.p(x), q = classes.q(y), g = q - p;
                V size = g, counted = g;
                if constexpr (kLinearQ) {
                    const M present = classes.in_p(x);
                    faint |= present & (q < T(1e-30));
                    size = present ? g / q : fill(T(1)), counted = present ? size : V{};
                }
                most = larger(larger(p, q), most);
                to.q = {g, counted, kLinearQ ? size * per_q : size};
            } else if constexpr (kToQ) {
                V v = is.log_ratio(x, y, missing);
                if constexpr (kHasMask) v = in_p ? (in_q ? v : V{}) : fill(kInfinity<T>);
                V g = excess_of_q(is, x, y, v);
                if constexpr (kHasMask) g = in_q ? g : V{};
                V size = g;
                if (q_linear) {
                    size = to_weight(is, x, y, v, missing);
                    if constexpr (kHasMask) size = in_q | ~in_p ? size : V{};
                }
                to.q = {g, size, q_linear ? size * per_q : g};
                if (majority) to.q.rest = is.p(x) > T(0.5) ? V{} : g;
            }
            return to;
        });
    found.most = most, found.faint = faint;
    return found;
}

// Writes the entries of the class that has more than half of p, if there is one, from the sums of all others, times a factor. kOwn: of
// q, the class that has more than half of q.
template <class T, bool kHasMask, bool kToP, bool kToQ, bool kOwn = false>
void close_row(const RowPair<T>& row, const RowStatistics& s, const Balances<T>& found, T grad, const Writer<T>& to_p,
               const Writer<T>& to_q, bool p_linear, bool q_linear, T factor_p = T(-1), T factor_q = T(1)) {
    if (!may_have_majority(s) && !(kOwn && kToQ && !(s.total[1] > 2.001))) return;
    constexpr double kTrace = 1e-6;
    const double rest_p = found.p.rest(), rest_q = found.q.rest();
    const bool close_p = kToP && magnitude(rest_p) < kTrace, close_q = kToQ && magnitude(rest_q) < kTrace;
    if (!close_p && !close_q) return;
    constexpr int kCount = Lanes<T>::kCount;
    const Normalised<T> is(s);
    row.template each_block<kHasMask>([&](const T* a, const T* b, int64_t count, int64_t at) {
        for (int64_t i = 0; i < rounded_up<T>(count); i += kCount) {
            const Vector<T> p = is.p(load_lanes(a + i)), q = is.q(load_lanes(b + i));
            const Vector<T> of_q = kOwn ? q : p;
            if (!any((p > T(0.5)) | (of_q > T(0.5)))) continue;
            for (int j = 0; j < kCount && i + j < count; ++j) {
                if (close_p && p[j] > T(0.5)) {
                    to_p.set(-factor_p * grad * T(p_linear ? rest_p / p[j] * one_over_sum<T>(s, 0) : rest_p), at + i + j);
                }
                if (close_q && of_q[j] > T(0.5)) {
                    to_q.set(-factor_q * grad * T(q_linear ? rest_q / q[j] * one_over_sum<T>(s, 1) : rest_q), at + i + j);
                }
            }
        }
    });
}

// A row of floats whose entries are not small beside what they are differences of; false elsewhere. Log-ratios and probabilities are
// off by up to 1e-7 of themselves, and where a side holds weights log-ratios are off by 1e-7.
template <bool kToP, bool kToQ, bool kLinearP, bool kLinearQ, From kFrom = From::kRatios>
bool direct_gradient_row(const RowPair<float>& row, RowStatistics s, float grad, const Writer<float>& to_p,
                         const Writer<float>& to_q) {
    Difference<double> centre = kFrom == From::kLogsOfQ ? Difference<double>{s.mean[0], s.mean[1]} : moved(s.gap, s.gap_low, -s.kl);
    const double rounded = kFrom == From::kLogsOfQ ? 0 : kLinearP || kLinearQ ? 1 + magnitude(s.gap) : magnitude(centre.high);
    for (int round = 0; round < 3; ++round) {
        const Balances<float> found = gradient_pass<float, false, kToP, kToQ, kLinearP, kLinearQ, kFrom>(
            row, s, centre, grad, to_p, to_q, kLinearP, kLinearQ);
        const double weight_p = kLinearP ? 1 : 1 / s.total[0], weight_q = kLinearQ ? 1 : double(largest_of<float>(found.most));
        if (any(found.faint)) return false;
        if (kToP && found.p.largest() < 0.2 * weight_p * rounded) return false;
        if (kToQ && found.q.largest() < 0.2 * weight_q) return false;
        const bool p_holds = !kToP || found.p.holds(weight_p), q_holds = !kToQ || found.q.holds(weight_q);
        if (p_holds && q_holds) return true;
        if (!p_holds) centre = moved(centre.high, centre.low, found.p.excess());
        if (!q_holds) move_gap(s, found.q.excess());
    }
    return false;
}

// The same from the exponentials that the first pass has left of a row of a strip. The sums of the entries are those of the pass: w
// has its mean exactly, and q - p adds up to what the two factors are off by.
template <bool kToP, bool kToQ>
bool write_kept_row(Strip<float>& strip, int64_t row, float grad, bool stream, const Writer<float>& to_p, const Writer<float>& to_q) {
    using V = Vector<float>;
    constexpr int kCount = Lanes<float>::kCount;
    const RowSums sums = strip.sums(row);
    const double mean = sums.cross / sums.total_p;
    const Centre<float> centre({mean, 0});
    const float over_p = float(1 / sums.total_p), over_q = float(1 / sums.total_q);
    V largest_p{}, largest_q{};
    alignas(64) float rest[2][kGroup<float>];
    strip.each_part(row, [&](const float* a, const float* b, int64_t padded, int64_t at) {
        const int64_t count = strip.classes() - at < padded ? strip.classes() - at : padded;
        float* const grad_p = kToP ? to_p.block(at, count, rest[0]) : nullptr;
        float* const grad_q = kToQ ? to_q.block(at, count, rest[1]) : nullptr;
        const KeptExponentials<float> kept = strip.kept(row, at);
        const auto write = [&](auto put) {
            for (int64_t i = 0; i < padded; i += kGroup<float>) {
#pragma GCC unroll 4
                for (int64_t k = i; k < i + kGroup<float>; k += kCount) {
                    const V p = load_lanes(kept.p + k) * over_p;
                    if constexpr (kToP) {
                        const V g = p * centre.less(load_lanes(b + k) - load_lanes(a + k));
                        largest_p = larger(magnitude_of(g), largest_p);
                        put(-grad * g, grad_p + k);
                    }
                    if constexpr (kToQ) {
                        const V g = load_lanes(kept.q + k) * over_q - p;
                        largest_q = larger(magnitude_of(g), largest_q);
                        put(grad * g, grad_q + k);
                    }
                }
            }
        };
        if (stream && may_stream(grad_p) && may_stream(grad_q)) write([](V g, float* target) { stream_lanes(g, target); });
        else write([](V g, float* target) { store_lanes<float>(g, target); });
        if constexpr (kToP) to_p.finish(grad_p, at, count, rest[0]);
        if constexpr (kToQ) to_q.finish(grad_q, at, count, rest[1]);
    });
    const double weight = double(over_p < over_q ? over_q : over_p);  // no probability is larger
    const double excess = magnitude(sums.total_q * double(over_q) - sums.total_p * double(over_p));
    const double of_p = kToP ? double(largest_of<float>(largest_p)) : 0, of_q = kToQ ? double(largest_of<float>(largest_q)) : 0;
    return (!kToP || of_p >= 0.2 * magnitude(mean) * double(over_p)) &&
           (!kToQ || (of_q >= 0.2 * weight && excess * weight <= kOffCentre<float> * of_q));
}

// Two floats hold a centre to 2^-48 of itself. False for a row of floats whose entries are too small for that: it wants double.
template <class T, bool kHasMask, bool kToP, bool kToQ>
bool gradient_row(const RowPair<T>& row, RowStatistics s, T grad, const Writer<T>& to_p, const Writer<T>& to_q, bool p_linear,
                  bool q_linear) {
    if constexpr (sizeof(T) == 4 && !kHasMask) {
        const bool far_apart = !p_linear && !q_linear && !(s.state & kRefined);
        if (far_apart && direct_gradient_row<kToP, kToQ, false, false>(row, s, grad, to_p, to_q)) return true;
    }
    Difference<double> centre = moved(s.gap, s.gap_low, -s.kl);
    for (int round = 0; round < 3; ++round) {
        const Balances<T> found =
            gradient_pass<T, kHasMask, kToP, kToQ>(row, s, centre, grad, to_p, to_q, p_linear, q_linear);
        // The largest probability of a side is at most one over its total.
        const double weight_p = p_linear ? 1 : 1 / s.total[0], weight_q = q_linear ? 1 : 1 / s.total[1];
        constexpr double kCoarse = 3.6e-15 / 1e-7;
        if (sizeof(T) == 4 && ((kToP && found.p.largest() < kCoarse * magnitude(centre.high) * weight_p) ||
                               (kToQ && found.q.largest() < kCoarse * magnitude(s.gap) * weight_q))) {
            return false;
        }
        const bool p_holds = !kToP || found.p.holds(weight_p), q_holds = !kToQ || found.q.holds(weight_q);
        if ((p_holds && q_holds) || round == 2) {
            if constexpr (kClosed<T>) {
                close_row<T, kHasMask, kToP, kToQ>(row, s, found, grad, to_p, to_q, p_linear, q_linear);
            }
            return true;
        }
        if (!p_holds) centre = moved(centre.high, centre.low, found.p.excess());
        if (!q_holds) move_gap(s, found.q.excess());
    }
    return true;
}

}  // namespace kullback::KULLBACK_SET
