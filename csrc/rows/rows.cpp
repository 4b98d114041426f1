// The row kernels for one instruction set; CMake compiles this file once per set.
//
// A row is tried in the cheapest way first: in the narrow precision without masks. Infinite log-weights make that pass's sums
// NaN, log-weights too large for it are noticed by their maximum; such a row is read again with masks, or in double.
#include "entropy.h"
#include "generalized.h"
#include "measures.h"
#include "mixture.h"
#include "mixture_direct.h"
#include "outer.h"
#include "power.h"
#include "symmetric.h"

namespace kullback::KULLBACK_SET {
namespace {

struct RowStart {
    int64_t p, q;  // elements from the start of the data
    int64_t row = 0;
};

RowStart start_of(const RowsCall& call, int64_t row) {
    if (call.layout == nullptr) return {row * call.sides[0].row_stride, row * call.sides[1].row_stride, row};
    const int64_t dimensions = call.layout[0];
    const int64_t *sizes = call.layout + 1, *p = sizes + dimensions, *q = p + dimensions;
    RowStart start{0, 0, row};
    for (int64_t d = dimensions - 1; d >= 0; --d) {
        const int64_t index = row % sizes[d];
        row /= sizes[d];
        start.p += index * p[d], start.q += index * q[d];
    }
    return start;
}

// How weights are read where log-ratios have to be accurate: narrower weights have logarithms good enough in double.
Weights logs_of(const RowsCall& call) { return call.result_wide ? Weights::kAsExactLogs : Weights::kAsLogs; }

// work(a number of the precision, whether there are masks) as a row was measured.
template <class Work>
auto as_measured(const RowStatistics& s, Work&& work) {
    const bool masked = (s.state & kMasked) != 0;
    if (s.state & kDouble) return masked ? work(0.0, std::true_type{}) : work(0.0, std::false_type{});
    return masked ? work(0.0f, std::true_type{}) : work(0.0f, std::false_type{});
}

template <class T, bool kHasMask>
bool try_row(const RowsCall& call, const RowStart& start, RowStatistics& s) {
    const RowPair<T> row(call, start.p, start.q, s.shift, logs_of(call));
    const RowSums sums = is_measures(call) ? sum_row<T, kHasMask>(row, TopOfBoth<T>(call, start.row)) : sum_row<T, kHasMask>(row);
    if (!sums.usable()) return false;
    s.state = (kHasMask ? kMasked : kClean) | (sizeof(T) == 8 ? kDouble : kClean);
    describe_row(sums, s);
    if (is_measures(call)) describe_measures<T, kHasMask>(row, s);
    else refine_kl<T, kHasMask>(row, s);
    return true;
}

template <bool kHasMask, bool kLinearP, bool kLinearQ>
bool try_weights(const RowsCall& call, const RowStart& start, RowStatistics& s) {
    const RowPair<float> row(call, start.p, start.q, s.shift, Weights::kAsTheyAre);
    const RowSums sums = sum_row<float, kHasMask, kLinearP, kLinearQ>(row);
    constexpr double kFaint = 1e-25;  // padding is no longer nothing beside such a sum
    if (!sums.usable() || sums.total_p < kFaint || (sums.total_q < kFaint && !sums.leaks)) return false;
    describe_row(sums, s);
    return true;
}

// work(which sides hold weights), for a call in which one does.
template <class Work>
bool with_weights(const RowsCall& call, Work&& work) {
    const bool p_linear = call.sides[0].linear != 0, q_linear = call.sides[1].linear != 0;
    if (p_linear && q_linear) return work(std::true_type{}, std::true_type{});
    return p_linear ? work(std::true_type{}, std::false_type{}) : work(std::false_type{}, std::true_type{});
}

// KL in float where a side holds weights. Their logarithms are too coarse for anything but the direct form: false where that is not
// accurate.
bool try_weights(const RowsCall& call, const RowStart& start, RowStatistics& s) {
    if (follows_kl(call) || is_measures(call)) return false;
    const bool found = with_weights(call, [&](auto linear_p, auto linear_q) {
        return try_weights<false, linear_p, linear_q>(call, start, s) || try_weights<true, linear_p, linear_q>(call, start, s);
    });
    return found && ((s.state & kInfinite) || direct_form_is_accurate(s.kl, s.gap));
}

// Where log-weights are this large, the difference from their maximum is exact for every class that has weight at all.
void shift_large_rows(const RowsCall& call, const RowStart& start, RowStatistics& s) {
    double top[2] = {-kInfinity<double>, -kInfinity<double>};
    const RowPair<double> row(call, start.p, start.q, s.shift);
    row.each_block<true>([&](const double* a, const double* b, int64_t count, int64_t) {
        const double top_a = largest_in(a, rounded_up<double>(count)), top_b = largest_in(b, rounded_up<double>(count));
        top[0] = top_a > top[0] ? top_a : top[0], top[1] = top_b > top[1] ? top_b : top[1];
    });
    for (int i = 0; i < 2; ++i) {
        const double size = magnitude(top[i]);
        s.shift[i] = !call.sides[i].linear && size > 1500 && size < kInfinity<double> ? top[i] : 0;
    }
}

// A KL below this has terms that are no longer normal numbers in float. A mixture is less by up to the square of a share.
double faint_in_float(const RowsCall& call) {
    const double least = call.share < 0.5 ? call.share : 1 - call.share;
    return is_mixture(call) ? 1e-25 / (least * least) : 1e-25;
}

bool has_weights(const RowsCall& call) { return call.sides[0].linear || call.sides[1].linear; }

void measure_in_double(const RowsCall& call, const RowStart& start, RowStatistics& s, bool tried) {
    s = RowStatistics{};
    shift_large_rows(call, start, s);
    const bool untried = !tried || s.shift[0] != 0 || s.shift[1] != 0;
    if ((untried && try_row<double, false>(call, start, s)) || try_row<double, true>(call, start, s)) return;
    s.kl = s.value = kNaN<double>;
    s.state = kUndefined;
}

void measure_row(const RowsCall& call, int64_t row, RowStatistics& s) {
    s = RowStatistics{};
    const RowStart start = start_of(call, row);
    if (call.wide) {
        if (try_row<double, false>(call, start, s)) return;
    } else if (has_weights(call)) {
        if (try_weights(call, start, s)) return;
    } else {
        const bool found = try_row<float, false>(call, start, s) || try_row<float, true>(call, start, s);
        if (found && s.kl >= faint_in_float(call)) return;
    }
    measure_in_double(call, start, s, call.wide != 0);
}

// The same for a row that is part of a strip.
template <class T>
void measure_row(const RowsCall& call, int64_t row, const Strip<T>& strip, int64_t i, RowStatistics& s) {
    constexpr bool kWide = sizeof(T) == 8;
    s.state = kWide ? kDouble : kClean;
    bool found = strip.read(i, s);
    if (strip.plain(i)) return;
    const RowStart start = start_of(call, row);
    if (found) {
        refine_kl<T, false>(RowPair<T>(call, start.p, start.q, s.shift), s);
    } else if constexpr (!kWide) {
        found = try_row<T, true>(call, start, s);
    }
    if (!found || (!kWide && !(s.kl >= faint_in_float(call)))) measure_in_double(call, start, s, kWide);
}

template <class T, bool kHasMask>
void mix_measured_row(const RowsCall& call, const RowStart& start, RowStatistics& s) {
    const RowPair<T> row(call, start.p, start.q, s.shift, logs_of(call));
    if constexpr (sizeof(T) == 4 && !kHasMask) {
        if (call.statistics == nullptr && mix_row_directly(row, call, s)) return;
    }
    const auto mix = [&] {
        if (call.statistics != nullptr) mix_row<T, kHasMask, true>(row, call, s);
        else mix_row<T, kHasMask, false>(row, call, s);
    };
    mix();
    if ((s.state & kRefined) || s.value > 0.01) return;
    refine_gap<T, kHasMask>(row, s);
    mix();
}

void measure_mixture(const RowsCall& call, int64_t row, RowStatistics& s) {
    if ((s.state & kUndefined) || s.kl == 0) return;
    const RowStart start = start_of(call, row);
    as_measured(s, [&](auto zero, auto masked) { mix_measured_row<decltype(zero), masked>(call, start, s); });
}

template <class T, bool kHasMask>
bool try_power(const RowsCall& call, const RowStart& start, RowStatistics& s) {
    const RowPair<T> row(call, start.p, start.q, s.shift, logs_of(call));
    if constexpr (sizeof(T) == 4 && !kHasMask) {
        if (power_row_directly(row, call, s)) return true;
    }
    bool found = sum_power_terms<T, kHasMask>(row, call.share, s);
    if (found && !(s.state & kRefined) && magnitude(s.value) < 0.01) {
        refine_gap<T, kHasMask>(row, s);
        found = sum_power_terms<T, kHasMask>(row, call.share, s);
    }
    if constexpr (sizeof(T) == 8) {
        if (!found) s.value = log_of_power_sum<kHasMask>(row, call.share, s);
        return true;
    }
    return found;
}

// KL may be infinite where a power is not, and a sum without terms is 0.
void measure_power(const RowsCall& call, const RowStart& start, RowStatistics& s) {
    if ((s.state & kInfinite) && call.share > 1) {
        s.value = kInfinity<double>;
        return;
    }
    const bool leaks = (s.state & kInfinite) != 0;
    s.state &= ~int64_t(kInfinite);
    bool found = false;
    if (!(s.state & kDouble)) {
        found = as_measured(s, [&](auto zero, auto masked) { return try_power<decltype(zero), masked>(call, start, s); });
        if (!found) {
            measure_in_double(call, start, s, false);
            s.state &= ~int64_t(kInfinite);
        }
    }
    if (!found) as_measured(s, [&](auto zero, auto masked) { return try_power<decltype(zero), masked>(call, start, s); });
    if (leaks && s.value == -kInfinity<double>) s.state |= kInfinite;
}

template <class T, bool kHasMask>
void measure_jeffreys(const RowsCall& call, const RowStart& start, RowStatistics& s) {
    const RowPair<T> row(call, start.p, start.q, s.shift, logs_of(call));
    if ((s.state & kInfinite) || (kHasMask && supports_differ(row))) {
        s.value = kInfinity<double>, s.state |= kInfinite;
        return;
    }
    if constexpr (sizeof(T) == 4 && !kHasMask) {
        if (call.statistics == nullptr && symmetric_row_directly<true>(row, call, s)) return;
    }
    if (!(s.state & kRefined)) refine_gap<T, kHasMask>(row, s);
    sum_jeffreys<T, kHasMask>(row, s);
}

template <class T, bool kHasMask>
bool try_variation(const RowsCall& call, const RowStart& start, RowStatistics& s) {
    const RowPair<T> row(call, start.p, start.q, s.shift, logs_of(call));
    if constexpr (sizeof(T) == 4 && !kHasMask) {
        if (call.statistics == nullptr && symmetric_row_directly<false>(row, call, s)) return true;
    }
    if (!(s.state & kRefined)) refine_gap<T, kHasMask>(row, s);
    return measure_variation<T, kHasMask>(row, call, s);
}

void measure_variation(const RowsCall& call, const RowStart& start, RowStatistics& s) {
    s.state &= ~int64_t(kInfinite);
    const auto attempt = [&](auto zero, auto masked) { return try_variation<decltype(zero), masked>(call, start, s); };
    if (as_measured(s, attempt) || (s.state & kDouble)) return;
    measure_in_double(call, start, s, false);
    s.state &= ~int64_t(kInfinite);
    as_measured(s, attempt);
}

// What follows from the KL of a row that is measured.
void measure_follower(const RowsCall& call, int64_t row, RowStatistics& s) {
    if (is_mixture(call)) {
        measure_mixture(call, row, s);
        return;
    }
    if (s.state & (kUndefined | kAbsent)) return;
    const RowStart start = start_of(call, row);
    if (is_power(call)) measure_power(call, start, s);
    else if (is_jeffreys(call)) as_measured(s, [&](auto zero, auto masked) { measure_jeffreys<decltype(zero), masked>(call, start, s); });
    else measure_variation(call, start, s);
}

// Values of rows of a strip that are far apart, from the exponentials that the first pass has left. Sets done where one is found.
void measure_kept_rows(const RowsCall& call, Strip<float>& strip, int64_t count, RowStatistics* of, bool* done) {
    if (is_mixture(call)) {
        mix_kept_rows(call, strip, count, of, done);
        return;
    }
    for (int64_t i = 0; i < count; ++i) {
        const auto add_to = [&](auto sum) {
            strip.each_part(i, [&](const float* a, const float* b, int64_t part, int64_t at) { sum.add(a, b, part, strip.kept(i, at)); });
            return sum.finish(call, of[i]);
        };
        if (is_power(call)) {
            done[i] = DirectPower<true>::may_do(call, of[i]) && add_to(DirectPower<true>(call, of[i]));
        } else if (call.statistics != nullptr) {
            done[i] = DirectSymmetric<false, true>::may_do(of[i]) &&
                      measure_variation_directly(strip.padded(), strip.kept(i), of[i]);
        } else {
            done[i] = DirectSymmetric<false, true>::may_do(of[i]) && add_to(DirectSymmetric<false, true>(of[i]));
        }
    }
}

template <class T, bool kLinearP = false, bool kLinearQ = false>
bool try_entropy(const RowsCall& call, const RowStart& start, RowStatistics& s) {
    const double unshifted[2] = {0, 0};
    const bool as_they_are = kLinearP || kLinearQ;
    const RowPair<T> row(call, start.p, start.q, unshifted, as_they_are ? Weights::kAsTheyAre : Weights::kAsLogs);
    const bool same = is_one_sided(call);
    PeakedSums sums;
    if constexpr (kLinearP != kLinearQ) sums = sum_peaked_row<T, false, kLinearP, kLinearQ>(row);
    else sums = same ? sum_peaked_row<T, true, kLinearP, kLinearQ>(row) : sum_peaked_row<T, false, kLinearP, kLinearQ>(row);
    if (!sums.usable()) return false;
    s = RowStatistics{};
    s.state = kMasked | (sizeof(T) == 8 ? kDouble : kClean);
    describe_entropy(sums, call, s);
    // In float logarithms of weights are off by up to 1e-7.
    return sizeof(T) == 8 || magnitude(s.value) >= 0.25;
}

void measure_entropy(const RowsCall& call, int64_t row, RowStatistics& s) {
    const RowStart start = start_of(call, row);
    if (!call.wide && !has_weights(call) && call.function == int64_t(RowFunction::kCrossEntropy)) {
        const RowPair<float> pair(call, start.p, start.q, s.shift);
        if (is_one_sided(call) ? sum_entropy_directly<true>(pair, call, s) : sum_entropy_directly<false>(pair, call, s)) return;
    }
    const bool narrow = call.wide      ? false
                        : has_weights(call) ? with_weights(call, [&](auto linear_p, auto linear_q) {
                              return try_entropy<float, linear_p, linear_q>(call, start, s);
                          })
                                            : try_entropy<float>(call, start, s);
    if (!narrow && !try_entropy<double>(call, start, s)) {
        s = RowStatistics{};
        s.value = kNaN<double>, s.state = kUndefined;
    }
    if (call.statistics == nullptr || is_one_sided(call) || (s.state & (kUndefined | kInfinite))) return;
    // The derivative with respect to q is that of KL(p || q).
    RowStatistics of_kl;
    measure_row(call, row, of_kl);
    const Difference<double> centre = moved(s.mean[0], s.mean[1], s.shift[1] - of_kl.shift[1]);
    of_kl.value = s.value, of_kl.mean[0] = centre.high, of_kl.mean[1] = centre.low;
    s = of_kl;
}

template <class T, bool kHasMask>
bool try_generalized(const RowsCall& call, const RowStart& start, RowStatistics& s) {
    const double unshifted[2] = {0, 0};
    return sum_generalized<T, kHasMask>(RowPair<T>(call, start.p, start.q, unshifted, logs_of(call)), s);
}

// Logarithms of weights are too coarse in float.
void measure_generalized(const RowsCall& call, int64_t row, RowStatistics& s) {
    const RowStart start = start_of(call, row);
    const bool narrow = !call.wide && !has_weights(call);
    if (narrow && (try_generalized<float, false>(call, start, s) || try_generalized<float, true>(call, start, s))) return;
    if (!try_generalized<double, false>(call, start, s)) try_generalized<double, true>(call, start, s);
}

template <class T, bool kHasMask>
void write_generalized(const RowsCall& call, int64_t row, const RowStatistics& s, double grad) {
    const RowStart start = start_of(call, row);
    const RowPair<T> pair(call, start.p, start.q, s.shift, logs_of(call));
    const Writer<T> to_p(call, 0, row), to_q(call, 1, row);
    if (!to_q.wanted()) generalized_gradient_row<T, kHasMask, true, false>(pair, call, T(grad), to_p, to_q);
    else if (!to_p.wanted()) generalized_gradient_row<T, kHasMask, false, true>(pair, call, T(grad), to_p, to_q);
    else generalized_gradient_row<T, kHasMask, true, true>(pair, call, T(grad), to_p, to_q);
}

// Whether the sum of a row is what its view promises, to within its tolerance.
bool suspicious(const RowStatistics& s, int side, double tolerance) {
    if ((s.state & kUndefined) || !(s.total[side] > 0)) return true;
    if (tolerance == kInfinity<double>) return false;
    // Near 1 a sum says it without its logarithm, which takes as long as a dozen classes.
    if (s.shift[side] == 0 && tolerance < 0.5 && magnitude(s.scale[side]) <= 64 &&
        magnitude(s.total[side] * power_of_two(s.scale[side]) - 1) <= 0.5 * tolerance) {
        return false;
    }
    const double log_total = s.shift[side] + (std::log(s.total[side]) + s.scale[side] * 0.6931471805599453);
    return !(magnitude(log_total) <= 0.75 * tolerance);  // the reference decides: report what is near the limit, too
}

bool is_left_out(const RowsCall& call, int64_t row) { return call.keep != nullptr && call.keep[row] == 0; }

void store_value(const RowsCall& call, int64_t row, double value) {
    if (call.result_wide) static_cast<double*>(call.value)[row] = value;
    else static_cast<float*>(call.value)[row] = float(value);
}

// Hands out what is known of a row; returns what there is to report of it, unless it is known to be nothing.
int64_t deliver(const RowsCall& call, int64_t row, const RowStatistics& s, bool checked = false) {
    store_value(call, row, (s.state & kAbsent) ? 0.0 : outer_value(call, s.value));
    if (call.statistics != nullptr) call.statistics[row] = s;
    if (checked || (s.state & kAbsent)) return 0;
    return (suspicious(s, 0, call.sides[0].tolerance) ? 1 : 0) | (suspicious(s, 1, call.sides[1].tolerance) ? 2 : 0);
}

constexpr int64_t kStreamFrom = int64_t(1) << 20;  // elements of a gradient that would push more useful data out of the caches

// Value and gradients of a row of a strip; false where that is not accurate.
bool write_at_once(const RowsCall& call, Strip<float>& strip, int64_t row, int64_t i) {
    if (!strip.plain(i)) return false;
    store_value(call, row, outer_value(call, strip.kl(i)));
    const float grad = float(outer_slope(call, strip.kl(i)));
    const Writer<float> to_p(call, 0, row), to_q(call, 1, row);
    const bool stream = call.rows * call.classes >= kStreamFrom;
    if (!to_p.wanted()) return write_kept_row<false, true>(strip, i, grad, stream, to_p, to_q);
    if (!to_q.wanted()) return write_kept_row<true, false>(strip, i, grad, stream, to_p, to_q);
    return write_kept_row<true, true>(strip, i, grad, stream, to_p, to_q);
}

// Rows of log-weights. kExtra: what the function that follows KL takes up from the first pass.
template <class T, Extra kExtra>
int64_t forward_in_strips(const RowsCall& call, int64_t begin, int64_t end) {
    const bool only_kl = call.function == int64_t(RowFunction::kKl) && call.outer == 0 && call.statistics == nullptr;
    int64_t reported = 0;
    Strip<T> strip(call, call.written != nullptr ? Strip<T>::kMost / 4 : Strip<T>::kMost);
    RowStatistics found[Strip<T>::kRows];
    for (int64_t first = begin; first < end; first += strip.rows()) {
        const int64_t count = end - first < strip.rows() ? end - first : strip.rows();
        for (int64_t i = 0; i < count; ++i) {
            const RowStart start = start_of(call, first + i);
            if (is_left_out(call, first + i)) strip.leave_out(i);
            else strip.take(i, start.p, start.q);
        }
        strip.template sum<kExtra>(count);
        for (int64_t i = 0; i < count; ++i) {
            if (only_kl && strip.plain(i)) {
                store_value(call, first + i, strip.kl(i));
                continue;
            }
            if constexpr (sizeof(T) == 4 && kExtra == Extra::kExponentials) {
                if (call.written != nullptr) {
                    call.written[first + i] = write_at_once(call, strip, first + i, i);
                    if (call.written[first + i]) continue;
                }
            }
            RowStatistics& s = found[i] = {};
            if (is_left_out(call, first + i)) s.state = kAbsent;
            else measure_row(call, first + i, strip, i, s);
            s.value = s.kl;
            if (!follows_kl(call)) reported |= deliver(call, first + i, s, strip.plain(i));
        }
        if (!follows_kl(call)) continue;
        bool mixed[Strip<T>::kRows] = {};
        if constexpr (kExtra == Extra::kExponentials) measure_kept_rows(call, strip, count, found, mixed);
        if constexpr (kExtra == Extra::kReverse) {
            for (int64_t i = 0; i < count; ++i) mixed[i] = take_direct_jeffreys(strip.jeffreys(i), found[i]);
        }
        if constexpr (kExtra == Extra::kSquares || kExtra == Extra::kRoots) {
            for (int64_t i = 0; i < count; ++i) {
                mixed[i] = take_power_of_first_pass(call, kExtra == Extra::kSquares ? strip.squares(i) : strip.roots(i), found[i]);
            }
        }
        for (int64_t i = 0; i < count; ++i) {
            if (!mixed[i]) measure_follower(call, first + i, found[i]);
            reported |= deliver(call, first + i, found[i], strip.plain(i));
        }
    }
    if (call.written != nullptr) finish_streams();
    return reported;
}

int64_t forward(const RowsCall& call, int64_t begin, int64_t end) {
    if (!has_weights(call) && !is_entropy(call) && !is_generalized(call) && !is_measures(call)) {
        if (call.wide && Strip<double>::fits(call.classes)) return forward_in_strips<double, Extra::kNothing>(call, begin, end);
        const bool keep = call.written != nullptr || (follows_kl(call) && (call.statistics == nullptr || is_variation(call) || is_power(call)));
        if (!call.wide && Strip<float>::fits(call.classes)) {
            if (is_jeffreys(call)) return forward_in_strips<float, Extra::kReverse>(call, begin, end);
            if (is_power(call) && call.share == 2) return forward_in_strips<float, Extra::kSquares>(call, begin, end);
            if (is_power(call) && call.share == 0.5) return forward_in_strips<float, Extra::kRoots>(call, begin, end);
            return keep ? forward_in_strips<float, Extra::kExponentials>(call, begin, end)
                        : forward_in_strips<float, Extra::kNothing>(call, begin, end);
        }
    }
    int64_t reported = 0;
    for (int64_t row = begin; row < end; ++row) {
        RowStatistics s{};
        if (is_left_out(call, row)) {
            s.state = kAbsent;
        } else if (is_entropy(call)) {
            measure_entropy(call, row, s);
        } else if (is_generalized(call)) {
            measure_generalized(call, row, s);
        } else {
            measure_row(call, row, s);
            if (!is_measures(call)) s.value = s.kl;
            if (follows_kl(call)) measure_follower(call, row, s);
        }
        reported |= deliver(call, row, s);
    }
    return reported;
}

template <class T, bool kHasMask>
void write_row(const RowsCall& call, int64_t row, const RowStatistics& s, double grad) {
    const RowStart start = start_of(call, row);
    const RowPair<T> pair(call, start.p, start.q, s.shift, logs_of(call));
    const Writer<T> to_p(call, 0, row), to_q(call, 1, row);
    const bool p_linear = call.sides[0].linear != 0, q_linear = call.sides[1].linear != 0;
    const auto run = [&](auto to_p_too, auto to_q_too) {
        if (is_power(call) || is_jeffreys(call)) {
            const bool written = is_power(call) ? power_gradient_row<T, kHasMask, to_p_too, to_q_too>(pair, call, s, grad, to_p, to_q)
                                                : jeffreys_gradient_row<T, kHasMask, to_p_too, to_q_too>(pair, call, s, grad, to_p, to_q);
            if (written) return;
            RowStatistics wide{};
            measure_in_double(call, start, wide, false);
            wide.value = wide.kl;
            measure_follower(call, row, wide);
            write_row<double, kHasMask>(call, row, wide, grad);
        } else if (is_variation(call)) {
            variation_gradient_row<T, kHasMask, to_p_too, to_q_too>(pair, call, s, grad, to_p, to_q);
        } else if (!is_mixture(call)) {
            if (gradient_row<T, kHasMask, to_p_too, to_q_too>(pair, s, T(grad), to_p, to_q, p_linear, q_linear)) return;
            RowStatistics wide{};
            measure_in_double(call, start, wide, false);
            write_row<double, kHasMask>(call, row, wide, grad);
        } else if (!mixture_gradient_row<T, kHasMask, to_p_too, to_q_too>(pair, call, s, T(grad), to_p, to_q)) {
            RowStatistics refined = s;
            refine_gap<double, kHasMask>(RowPair<double>(call, start.p, start.q, s.shift, logs_of(call)), refined);
            write_row<double, kHasMask>(call, row, refined, grad);
        }
    };
    if (to_p.wanted() && to_q.wanted()) run(std::true_type{}, std::true_type{});
    else if (to_p.wanted()) run(std::true_type{}, std::false_type{});
    else run(std::false_type{}, std::true_type{});
}

// The gradient of an entropy to p. Weights are read as their logarithms, in double.
void write_entropy(const RowsCall& call, int64_t row, const RowStatistics& s, double grad) {
    const RowStart start = start_of(call, row);
    if (!call.wide && !has_weights(call) && !(s.state & kDouble)) {
        const RowPair<float> pair(call, start.p, start.q, s.shift);
        const Writer<float> to_p(call, 0, row);
        if (s.state & kMasked) entropy_gradient_row<float, true>(pair, call, s, float(grad), to_p);
        else entropy_gradient_row<float, false>(pair, call, s, float(grad), to_p);
    } else {
        entropy_gradient_row<double, true>(RowPair<double>(call, start.p, start.q, s.shift), call, s, grad, Writer<double>(call, 0, row));
    }
}

// The gradients of KL in float where a side holds weights; false where that is not accurate.
bool write_from_weights(const RowsCall& call, int64_t row, const RowStatistics& s, float grad) {
    const bool in_range = magnitude(s.scale[0]) <= kLargestScale<float> && magnitude(s.scale[1]) <= kLargestScale<float>;
    if (follows_kl(call) || s.shift[0] != 0 || s.shift[1] != 0 || !in_range) return false;
    const RowStart start = start_of(call, row);
    const RowPair<float> pair(call, start.p, start.q, s.shift, Weights::kAsTheyAre);
    const Writer<float> to_p(call, 0, row), to_q(call, 1, row);
    return with_weights(call, [&](auto linear_p, auto linear_q) {
        if (!to_q.wanted()) return direct_gradient_row<true, false, linear_p, linear_q>(pair, s, grad, to_p, to_q);
        if (!to_p.wanted()) return direct_gradient_row<false, true, linear_p, linear_q>(pair, s, grad, to_p, to_q);
        return direct_gradient_row<true, true, linear_p, linear_q>(pair, s, grad, to_p, to_q);
    });
}

double incoming(const RowsCall& call, int64_t row) {
    const int64_t at = row * call.grad_stride;
    return call.result_wide ? static_cast<const double*>(call.grad)[at] : static_cast<const float*>(call.grad)[at];
}

void backward_row(const RowsCall& call, int64_t row) {
    RowStatistics s = call.statistics[row];
    const double grad = incoming(call, row) * outer_slope(call, s.value);
    const bool infinite = ((s.state & kInfinite) && !is_mixture(call)) || outer_value(call, s.value) == kInfinity<double>;
    // Where nothing differs, total variation has its minimum and a kink.
    const bool nothing = infinite || (s.state & kAbsent) || grad == 0 || (is_variation(call) && s.value == 0);
    if (nothing || (s.state & kUndefined)) {
        for (int side = 0; side < 2; ++side) {
            const Writer<double> to(call, side, row);
            if (!to.wanted()) continue;
            if (nothing) to.fill_zeros(call.classes);
            else to.fill_nan(call.classes);
        }
        return;
    }
    if (is_entropy(call)) {
        write_entropy(call, row, s, grad);
        return;
    }
    if (is_generalized(call)) {
        as_measured(s, [&](auto zero, auto masked) { write_generalized<decltype(zero), masked>(call, row, s, grad); });
        return;
    }
    if (!call.wide && has_weights(call)) {
        if (write_from_weights(call, row, s, float(grad))) return;
        if (!(s.state & kDouble)) measure_in_double(call, start_of(call, row), s, false);
    }
    as_measured(s, [&](auto zero, auto masked) { write_row<decltype(zero), masked>(call, row, s, grad); });
}

// Both gradients of a cross-entropy in one pass; false where that is not accurate.
bool write_cross_entropy(const RowsCall& call, int64_t row) {
    const RowStatistics& s = call.statistics[row];
    if (call.wide || has_weights(call) || s.state != kClean) return false;
    const RowStart start = start_of(call, row);
    return direct_gradient_row<true, true, false, false, From::kLogsOfQ>(
        RowPair<float>(call, start.p, start.q, s.shift), s, static_cast<const float*>(call.grad)[row * call.grad_stride],
        Writer<float>(call, 0, row), Writer<float>(call, 1, row));
}

// The gradient of a row that the forward pass has written.
void multiply_row(const RowsCall& call, int64_t row) {
    const float grad = float(incoming(call, row));
    for (int side = 0; side < 2 && grad != 1; ++side) {
        const Writer<float> to(call, side, row);
        if (!to.wanted()) continue;
        if (grad == 0) to.fill_zeros(call.classes);
        else to.multiply(grad, call.classes);
    }
}

// The derivative of a cross-entropy with respect to q is that of KL(p || q).
int64_t backward(const RowsCall& call, int64_t begin, int64_t end) {
    RowsCall to_p = call, to_q = call;
    to_p.gradient[1] = nullptr;
    to_q.gradient[0] = nullptr, to_q.function = int64_t(RowFunction::kKl);
    const bool same = is_one_sided(call);
    for (int64_t row = begin; row < end; ++row) {
        if (call.written != nullptr && call.written[row]) {
            multiply_row(call, row);
        } else if (!is_entropy(call)) {
            backward_row(call, row);
        } else if (same || call.gradient[0] == nullptr || call.gradient[1] == nullptr || !write_cross_entropy(call, row)) {
            if (call.gradient[0] != nullptr) backward_row(to_p, row);
            if (call.gradient[1] == nullptr) continue;
            if (same) Writer<double>(call, 1, row).fill_zeros(call.classes);
            else backward_row(to_q, row);
        }
    }
    return 0;
}

}  // namespace

extern const RowKernels kRows;
const RowKernels kRows = {forward, backward};

}  // namespace kullback::KULLBACK_SET
