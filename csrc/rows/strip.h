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
    static constexpr int64_t kMost = 4 * kClassesAtOnce / int64_t(sizeof(T));  // classes of all its rows

    explicit Strip(const RowsCall& call, int64_t most = kMost)
        : padded_(rounded_up<T>(call.classes)),
          whole_(call.classes / kGroup<T> * kGroup<T>),
          rows_(most / padded_ < 1 ? 1 : most / padded_ > kRows ? kRows : most / padded_),
          classes_(call.classes),
          tolerance_p_(call.sides[0].tolerance),
          tolerance_q_(call.sides[1].tolerance),
          p_(call.sides[0], call.data[0], 0, 0.0, Weights::kAsLogs),
          q_(call.sides[1], call.data[1], 0, 0.0, Weights::kAsLogs) {}

    static bool fits(int64_t classes) { return classes <= kMost; }
    int64_t rows() const { return rows_; }
    int64_t classes() const { return classes_; }

    // Brings row i of the strip, which begins at these elements, into place and finds its scales.
    void take(int64_t i, int64_t first_p, int64_t first_q) {
        p_.turn_to(first_p), q_.turn_to(first_q);
        T *const to_p = buffer_p_ + i * padded_, *const to_q = buffer_q_ + i * padded_;
        top_p_[i] = top_q_[i] = -kInfinity<T>;
        a_[i] = p_.block(0, whole_, kNothing, to_p), b_[i] = q_.block(0, whole_, kNothing, to_q);
        if (whole_ < classes_) {
            p_.block(whole_, classes_ - whole_, kNothing, to_p + whole_), q_.block(whole_, classes_ - whole_, kNothing, to_q + whole_);
        }
        each_part(i, [&](const T* a, const T* b, int64_t count, int64_t) {
            const T top_p = largest_in(a, count), top_q = largest_in(b, count);
            top_p_[i] = top_p > top_p_[i] ? top_p : top_p_[i], top_q_[i] = top_q > top_q_[i] ? top_q : top_q_[i];
        });
    }

    // work(log-weights of p, of q, how many, from which class): whole groups where they are, the rest padded to one.
    template <class Work>
    [[gnu::always_inline]] void each_part(int64_t i, Work&& work) const {
        for (int64_t at = whole_ > 0 ? 0 : whole_; at < padded_; at = at < whole_ ? whole_ : padded_) {
            const bool rest = at == whole_;
            const int64_t moved = i * padded_ + whole_;
            work(rest ? buffer_p_ + moved : a_[i], rest ? buffer_q_ + moved : b_[i], rest ? padded_ - whole_ : whole_, at);
        }
    }

    // The row counts for nothing.
    void leave_out(int64_t i) { a_[i] = nullptr, cross_[i] = kNaN<double>; }

    // Sums and describes the first `count` rows.
    template <Extra kExtra>
    void sum(int64_t count) {
        for (int64_t i = 0; i < kRows; ++i) scale_p_[i] = scale_of(top_p_[i]), scale_q_[i] = scale_of(top_q_[i]);
        for (int64_t i = 0; i < count; ++i) {
            if (a_[i] == nullptr) continue;
            BlockSums<T> found{};
            each_part(i, [&](const T* a, const T* b, int64_t part, int64_t at) {
                const BlockSums<T> more = sum_block<T, false, false, false, kExtra>(a, b, part, scale_p_[i], scale_q_[i],
                                                                                    rows_ * classes_, kept(i, at));
                found.p.add(more.p), found.q.add(more.q), found.cross.add(more.cross);
                if constexpr (is_sum(kExtra)) found.extra.add(more.extra);
            });
            total_p_[i] = found.p.total(), total_q_[i] = found.q.total(), cross_[i] = found.cross.total();
            if constexpr (is_sum(kExtra)) extra_[i] = found.extra.total();
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
    // E_q u - E_p u = KL(p || q) + KL(q || p), of a pass with Extra::kReverse.
    double jeffreys(int64_t i) const { return extra_[i] / total_q_[i] - cross_[i] / total_p_[i]; }
    // sum p^2/q, of a pass with Extra::kSquares, and sum sqrt(p q), of one with Extra::kRoots.
    double squares(int64_t i) const { return extra_[i] * total_q_[i] / (total_p_[i] * total_p_[i]); }
    double roots(int64_t i) const { return extra_[i] / std::sqrt(total_p_[i] * total_q_[i]); }

    RowSums sums(int64_t i) const {
        return {double(scale_p_[i]), double(scale_q_[i]), total_p_[i], total_q_[i], cross_[i], false};
    }

    int64_t padded() const { return padded_; }
    KeptExponentials<T> kept(int64_t i, int64_t at = 0) { return {kept_p_ + i * padded_ + at, kept_q_ + i * padded_ + at}; }

  private:
    static constexpr T kNothing = T(-1e30);

    // NaN, which leaves no usable sum, where e to the maximum is out of range.
    [[gnu::always_inline]] static T scale_of(T top) {
        const T needed = std::ceil(top * T(1.4426950408889634074));
        return magnitude(needed) <= kLargestScale<T> ? needed : kNaN<T>;
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

    int64_t padded_, whole_, rows_, classes_;
    double tolerance_p_, tolerance_q_;
    Reader<T> p_, q_;
    const T *a_[kRows], *b_[kRows];
    T top_p_[kRows] = {}, top_q_[kRows] = {}, scale_p_[kRows], scale_q_[kRows];
    double total_p_[kRows] = {}, total_q_[kRows] = {}, cross_[kRows] = {}, extra_[kRows] = {};
    double gap_[kRows], gap_low_[kRows], kl_[kRows];
    bool plain_[kRows];
    alignas(64) T buffer_p_[kMost + kGroup<T>], buffer_q_[kMost + kGroup<T>];
    alignas(64) T kept_p_[kMost + kGroup<T>], kept_q_[kMost + kGroup<T>];
};

}  // namespace kullback::KULLBACK_SET
