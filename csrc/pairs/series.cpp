// Sums of recorded programs over counts; series.h says what they are.
#include "series.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "../parallel.h"

namespace kullback {
namespace {

constexpr int64_t kGrain = 16;  // elements a thread takes at once
constexpr int64_t kOutputs = 3;

struct Window {
    double low, high;
};

class Summation {
public:
    explicit Summation(const SeriesCall& call) : call_(call), runner_(call.table, call.stride) {}

    void run(int64_t place) {
        element_ = call_.elements == nullptr ? place : call_.elements[place];
        double* out = call_.results + place;
        const int64_t step = call_.count;
        double found[kSeriesResults] = {};
        found[kSeriesResults - 1] = sum(found) ? 0.0 : 1.0;
        for (int64_t k = 0; k < kSeriesResults; ++k) out[k * step] = found[k];
        if (call_.slopes.program == nullptr) return;
        if (found[kSeriesResults - 1] != 0) counts_.clear();
        runner_.sum(call_.slopes, element_, counts_.data(), nullptr, int64_t(counts_.size()), call_.slopes.program->output_count,
                    call_.slope_results + place, step);
    }

private:
    const SeriesCall& call_;
    PlacedRunner runner_;
    int64_t element_ = 0;
    std::vector<double> counts_, log_, unused_, terms_;

    // The first and the last count whose probability is not negligible, by their neighbours on a ladder.
    bool find_window(const Placed& law, double upper, int64_t first_mark, int64_t marks, Window* window) {
        *window = {0.0, upper};
        if (marks == 0) return upper == upper;
        counts_.clear();
        for (int64_t m = 0; m < marks; ++m) {
            const double mean = runner_.at(first_mark + m, element_), deviation = runner_.at(first_mark + marks + m, element_);
            for (int64_t k = 0; k < call_.step_count; ++k) {
                counts_.push_back(std::min(std::max(std::floor(mean + deviation * call_.steps[k]), 0.0), upper));
            }
        }
        std::sort(counts_.begin(), counts_.end());
        counts_.erase(std::unique(counts_.begin(), counts_.end()), counts_.end());
        const int64_t count = int64_t(counts_.size());
        log_.resize(size_t(count));
        double* outputs[1] = {log_.data()};
        runner_.run(law, element_, counts_.data(), nullptr, count, outputs);
        for (double x : log_) {
            if (x != x) return false;
        }
        const double floor = *std::max_element(log_.begin(), log_.end()) - call_.negligible;
        int64_t low = count - 1, high = 0;
        for (int64_t i = 0; i < count; ++i) {
            if (!(log_[size_t(i)] >= floor)) continue;
            low = std::min(low, i), high = i;
        }
        *window = {counts_[size_t(std::max<int64_t>(low - 1, 0))], counts_[size_t(std::min(high + 1, count - 1))]};
        return true;
    }

    // Value, size, noise and whether q lacks a count that p has; false where there are too many counts or no program holds.
    bool sum(double* found) {
        const double upper_p = runner_.at(0, element_), upper_q = runner_.at(1, element_);
        Window window;
        if (!find_window(call_.log_p, upper_p, 2, call_.marks_p, &window)) return false;
        if (call_.log_q.program != nullptr) {
            Window other;
            if (!find_window(call_.log_q, upper_q, 2 + 2 * call_.marks_p, call_.marks_q, &other)) return false;
            window = {std::min(window.low, other.low), std::max(window.high, other.high)};
        }
        if (window.high < call_.head) window.low = 0;
        if (!(window.high - window.low <= call_.longest)) return false;
        const int64_t count = int64_t(window.high - window.low) + 1;
        counts_.resize(size_t(count)), terms_.resize(size_t(kOutputs * count));
        for (int64_t i = 0; i < count; ++i) counts_[size_t(i)] = window.low + double(i);
        double* outputs[kOutputs] = {terms_.data(), terms_.data() + count, terms_.data() + 2 * count};
        runner_.run(call_.terms, element_, counts_.data(), nullptr, count, outputs);
        for (int64_t i = 0; i < count; ++i) {
            if (outputs[0][i] != outputs[0][i]) return false;
            found[0] += outputs[0][i], found[1] += std::fabs(outputs[0][i]), found[2] += outputs[1][i];
            found[3] = std::max(found[3], outputs[2][i]);
        }
        return true;
    }
};

}  // namespace
}  // namespace kullback

using namespace kullback;

// Returns 0, or 1 for a request that makes no sense. The programs must have passed kullback_program_check.
KULLBACK_API int32_t kullback_series_run(const SeriesCall* call) {
    if (call == nullptr || call->table == nullptr || call->steps == nullptr || call->results == nullptr) return 1;
    if (call->marks_p < 0 || call->marks_q < 0 || call->count < 0 || call->step_count < 1) return 1;
    for (const Placed* placed : {&call->log_p, &call->log_q, &call->terms, &call->slopes}) {
        if (placed->program != nullptr && placed->program->input_count < 2) return 1;
    }
    if (call->log_p.program == nullptr || call->log_p.program->output_count != 1) return 1;
    if (call->log_q.program != nullptr && call->log_q.program->output_count != 1) return 1;
    if (call->terms.program == nullptr || call->terms.program->output_count != kOutputs) return 1;
    if (call->slopes.program != nullptr && call->slope_results == nullptr) return 1;
    parallel_for(call->count, kGrain, static_cast<int32_t>(call->threads), [&](int64_t begin, int64_t end) {
        Summation summation(*call);
        for (int64_t place = begin; place < end; ++place) summation.run(place);
    });
    return 0;
}
