// Rows of a call in strips: all rows of a strip are summed before the first of them is described.
//
// What a row costs besides its classes is a logarithm, two divisions and the wait for one after the other, as long as a hundred
// classes. A strip takes them for its rows at once, in vectors.
#pragma once

#include "kl.h"

namespace kullback::KULLBACK_SET {

class Strip {
  public:
    static constexpr int64_t kRows = 16, kMost = 4096;  // classes of all its rows: they stay in the first two levels of cache

    explicit Strip(int64_t classes)
        : padded_(rounded_up<float>(classes)),
          blocks_(classes / kBlock + 2),
          rows_(kMost / padded_ < 1 ? 1 : kMost / padded_ > kRows ? kRows : kMost / padded_) {}

    static bool fits(int64_t classes) { return classes <= kMost; }
    int64_t rows() const { return rows_; }

    void set(int64_t i, const RowSums& sums) {
        scale_p_[i] = sums.scale_p, scale_q_[i] = sums.scale_q, total_p_[i] = sums.total_p, total_q_[i] = sums.total_q;
        cross_[i] = sums.cross;
    }

    // Always all of them, so that a row has the same digits wherever it stands.
    void describe() {
        for (int64_t i = 0; i < kRows; ++i) {
            const DirectForm d = direct_form(scale_p_[i], scale_q_[i], total_p_[i], total_q_[i], cross_[i]);
            gap_[i] = d.gap, gap_low_[i] = d.gap_low, kl_[i] = d.kl;
        }
    }

    // False: the row is not one of finite log-weights within the range of floats.
    bool read(int64_t i, RowStatistics& s) const {
        const RowSums sums{scale_p_[i], scale_q_[i], total_p_[i], total_q_[i], cross_[i], false};
        if (!sums.usable()) return false;
        describe_row(sums, {gap_[i], gap_low_[i], kl_[i]}, s);
        return true;
    }

    KeptExponentials kept(int64_t i) {
        return {p_ + i * padded_, q_ + i * padded_, block_scale_p_ + i * blocks_, block_scale_q_ + i * blocks_, 0};
    }

  private:
    int64_t padded_, blocks_, rows_;
    double scale_p_[kRows] = {}, scale_q_[kRows] = {}, total_p_[kRows] = {}, total_q_[kRows] = {}, cross_[kRows] = {};
    double gap_[kRows], gap_low_[kRows], kl_[kRows];
    alignas(64) float p_[kMost + kGroup<float>], q_[kMost + kGroup<float>];
    float block_scale_p_[2 * kRows + kMost / kBlock], block_scale_q_[2 * kRows + kMost / kBlock];
};

}  // namespace kullback::KULLBACK_SET
