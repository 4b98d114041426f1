// Rows of log-weights in strips: what a row costs besides its classes is paid for several rows at once.
//
// That is the search for a maximum before the first exponential, then a logarithm, two divisions and the wait for one after the
// other: as long as a hundred classes. Here all rows of a strip have their maxima found before the first of them is summed, and
// all are summed before they are described, in vectors.
#pragma once

#include "kl.h"

namespace kullback::KULLBACK_SET {

template <class T>
class Strip {
  public:
    static constexpr int64_t kRows = 16;
    static constexpr int64_t kMost = 16384 / int64_t(sizeof(T));  // classes of all its rows: they stay in the first-level cache

    explicit Strip(const RowsCall& call)
        : padded_(rounded_up<T>(call.classes)),
          rows_(kMost / padded_ < 1 ? 1 : kMost / padded_ > kRows ? kRows : kMost / padded_),
          classes_(call.classes),
          tolerance_p_(call.sides[0].tolerance),
          tolerance_q_(call.sides[1].tolerance),
          p_(call.sides[0], call.data[0], 0, 0.0, Weights::kAsLogs),
          q_(call.sides[1], call.data[1], 0, 0.0, Weights::kAsLogs) {}

    static bool fits(int64_t classes) { return classes <= kMost; }
    int64_t rows() const { return rows_; }

    // Brings row i of the strip, which begins at these elements, into place and finds its scales.
    void take(int64_t i, int64_t first_p, int64_t first_q) {
        p_.turn_to(first_p), q_.turn_to(first_q);
        a_[i] = p_.block(0, classes_, kNothing, buffer_p_ + i * padded_);
        b_[i] = q_.block(0, classes_, kNothing, buffer_q_ + i * padded_);
        top_p_[i] = largest_in(a_[i], padded_), top_q_[i] = largest_in(b_[i], padded_);
    }

    // The row counts for nothing.
    void leave_out(int64_t i) { a_[i] = nullptr, cross_[i] = kNaN<double>; }

    // Sums and describes the first `count` rows; kKeep: their exponentials are kept.
    template <bool kKeep>
    void sum(int64_t count) {
        for (int64_t i = 0; i < kRows; ++i) scale_p_[i] = scale_of(top_p_[i]), scale_q_[i] = scale_of(top_q_[i]);
        for (int64_t i = 0; i < count; ++i) {
            if (a_[i] == nullptr) continue;
            const BlockSums<T> found = sum_block<T, false, false, false, kKeep>(
                a_[i], b_[i], padded_, scale_p_[i], scale_q_[i], rows_ * padded_, kept(i));
            total_p_[i] = found.p.total(), total_q_[i] = found.q.total(), cross_[i] = found.cross.total();
        }
        // Always eight of them, so that a row has the same digits wherever it stands.
        for (int64_t i = 0; i < count; i += 8) describe(i);
        for (int64_t i = 0; i < count; ++i) plain_[i] = is_plain(i);
    }

    // False: the row is not one of finite log-weights within range.
    bool read(int64_t i, RowStatistics& s) const {
        if (!sums(i).usable()) return false;
        describe_row(sums(i), {gap_[i], gap_low_[i], kl_[i]}, s);
        return true;
    }

    // Whether the direct form of a row is accurate and its sums are those of its views.
    bool plain(int64_t i) const { return plain_[i]; }
    double kl(int64_t i) const { return kl_[i]; }

    const T* log_p(int64_t i) const { return a_[i]; }
    const T* log_q(int64_t i) const { return b_[i]; }
    int64_t padded() const { return padded_; }
    KeptExponentials<T> kept(int64_t i) { return {kept_p_ + i * padded_, kept_q_ + i * padded_}; }

  private:
    static constexpr T kNothing = T(-1e30);

    // NaN, which leaves no usable sum, where e to the maximum is out of range.
    [[gnu::always_inline]] static T scale_of(T top) {
        const T needed = std::ceil(top * T(1.4426950408889634074));
        return magnitude(needed) <= kLargestScale<T> ? needed : kNaN<T>;
    }

    RowSums sums(int64_t i) const {
        return {double(scale_p_[i]), double(scale_q_[i]), total_p_[i], total_q_[i], cross_[i], false};
    }

    // Whether a sum is within half the tolerance of 1.
    [[gnu::always_inline]] static bool near_one(double scale, double total, double tolerance) {
        const bool in_range = magnitude(scale) <= 64;
        const double sum = total * power_of_two(in_range ? scale : 0.0);
        return (tolerance == kInfinity<double>) | (in_range & (tolerance < 0.5) & (magnitude(sum - 1) <= 0.5 * tolerance));
    }

    void describe(int64_t first) {
        for (int64_t i = first; i < first + 8; ++i) {
            const DirectForm d = direct_form(scale_p_[i], scale_q_[i], total_p_[i], total_q_[i], cross_[i]);
            gap_[i] = d.gap, gap_low_[i] = d.gap_low, kl_[i] = d.kl;
        }
    }

    bool is_plain(int64_t i) const {
        return sums(i).usable() & direct_form_is_accurate(kl_[i], gap_[i]) &
               near_one(scale_p_[i], total_p_[i], tolerance_p_) & near_one(scale_q_[i], total_q_[i], tolerance_q_);
    }

    int64_t padded_, rows_, classes_;
    double tolerance_p_, tolerance_q_;
    Reader<T> p_, q_;
    const T *a_[kRows], *b_[kRows];
    T top_p_[kRows] = {}, top_q_[kRows] = {}, scale_p_[kRows], scale_q_[kRows];
    double total_p_[kRows] = {}, total_q_[kRows] = {}, cross_[kRows] = {};
    double gap_[kRows], gap_low_[kRows], kl_[kRows];
    bool plain_[kRows];
    alignas(64) T buffer_p_[kMost + kGroup<T>], buffer_q_[kMost + kGroup<T>];
    alignas(64) T kept_p_[kMost + kGroup<T>], kept_q_[kMost + kGroup<T>];
};

}  // namespace kullback::KULLBACK_SET
