// Places where a function changes its sign, from its values at ascending ones.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace kullback {

// One per thread; what it computes with serves the next call.
class Crossings {
public:
    // The places, each known to within what a secant leaves; `values_at(places)` points to the values there until the next call.
    template <class F>
    const std::vector<double>& find(const std::vector<double>& at, F values_at) {
        found_.clear(), brackets_.clear();
        if (at.empty()) return found_;
        const double* values = values_at(at);
        for (size_t i = 1; i < at.size() && brackets_.size() < kMost; ++i) {
            if ((values[i] > 0) != (values[i - 1] > 0)) brackets_.push_back({at[i - 1], at[i], values[i - 1], values[i]});
        }
        if (brackets_.empty()) return found_;
        for (int64_t turn = 0; turn < kNarrowings; ++turn) {
            places_.clear();
            for (const Bracket& b : brackets_) {
                for (int64_t k = 1; k < kParts; ++k) places_.push_back(b.low + (b.high - b.low) * (double(k) / double(kParts)));
            }
            values = values_at(places_);
            for (size_t m = 0; m < brackets_.size(); ++m) narrow(brackets_[m], &places_[m * (kParts - 1)], values + m * (kParts - 1));
        }
        for (const Bracket& b : brackets_) {
            const double part = b.at_low / (b.at_low - b.at_high);
            found_.push_back(b.low + (b.high - b.low) * (part > 0 ? (part < 1 ? part : 1.0) : 0.0));
        }
        return found_;
    }

private:
    // Between these places the sign changes.
    struct Bracket {
        double low, high, at_low, at_high;
    };

    // A kink within d of an edge costs d^2 of an integral and d of its derivatives: into how many parts the distance of two places is
    // divided, and how often.
    static constexpr int64_t kParts = 8, kNarrowings = 5;
    static constexpr size_t kMost = 24;

    std::vector<Bracket> brackets_;
    std::vector<double> places_, found_;

    // The first part in which the sign changes.
    static void narrow(Bracket& b, const double* at, const double* values) {
        int64_t k = 0;
        while (k < kParts - 1 && (values[k] > 0) == (b.at_low > 0)) ++k;
        const bool first = k == 0, last = k == kParts - 1;
        b = {first ? b.low : at[k - 1], last ? b.high : at[k], first ? b.at_low : values[k - 1], last ? b.at_high : values[k]};
    }
};

}  // namespace kullback
