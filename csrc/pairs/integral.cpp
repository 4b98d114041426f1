// Integrals of recorded programs; integral.h says what they are.
#include "integral.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <memory>
#include <vector>

#include "../parallel.h"
#include "crossings.h"
#include "panels.h"

namespace kullback {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kEps = std::numeric_limits<double>::epsilon();
constexpr double kSmallest = std::numeric_limits<double>::min();
constexpr int64_t kGrain = 8;  // elements a thread takes at once

struct Found {
    double value, error;
};

// A loop of the instruction set in use.
auto instruction_named(const char* name) {
    const ProgramKernels& kernels = *instruction_set().programs;
    int32_t at = 0;
    while (std::strcmp(kernels.instructions[at].name, name) != 0) ++at;
    return kernels.instructions[at].run;
}

double clamp(double x, double low, double high) { return x < low ? low : (x > high ? high : x); }

// One element at a time; the buffers serve the next one.
class Integrator {
public:
    explicit Integrator(const IntegralCall& call) : call_(call), rule_(*call.rule), runner_(call.table, call.stride) {}

    void run(int64_t place) {
        element_ = call_.elements == nullptr ? place : call_.elements[place];
        plain_ = call_.plain_first != 0;
        double* out = call_.results + place;
        const int64_t step = call_.count;
        for (int64_t k = 0; k < kIntegralResults; ++k) out[k * step] = 0;
        accepted_.clear();
        double found[4];
        if (!integrate(found)) {
            out[4 * step] = double(IntegralState::unforeseen);
            const int64_t slopes = call_.slopes.program == nullptr ? 0 : slope_count() + call_.jumps;
            for (int64_t k = 0; k < slopes; ++k) call_.slope_results[k * step + place] = 0;
            return;
        }
        for (int k = 0; k < 4; ++k) out[k * step] = found[k];
        out[4 * step] = double(plain_ ? IntegralState::plain : IntegralState::careful);
        if (call_.slopes.program == nullptr) return;
        place_nodes(accepted_);
        const int64_t count = int64_t(at_.size());
        double* const slopes = call_.slope_results + place;
        runner_.sum(call_.slopes, element_, at_.data(), log_weight_.data(), count, slope_count(), slopes, step);
        const double *change = runner_.summed(slope_count(), count), *value = runner_.summed(slope_count() + 1, count);
        for (int64_t k = 0; k < call_.jumps; ++k) {
            slopes[(slope_count() + k) * step] = jump_at(around_[size_t(k)], accepted_, at_.data(), change, value);
        }
    }

private:
    const IntegralCall& call_;
    const IntegralRule& rule_;
    PlacedRunner runner_;
    void (*log1p_)(const double* const*, double*, int64_t) = instruction_named("log1p");
    double steps_[64];
    int64_t element_ = 0;
    bool plain_ = true;
    double wide_low_ = 0, wide_high_ = 0;
    std::vector<double> rungs_, stretched_, sizes_, ratios_, offsets_, edges_, at_, log_weight_, terms_, noises_;
    std::vector<double> centres_, widths_;
    std::vector<Panel> panels_, next_, again_, accepted_;
    std::vector<Found> found_;
    std::vector<Around> around_;
    Crossings crossings_;

    double table(int64_t row) const { return runner_.at(row, element_); }

    // How many integrals of derivatives are asked for.
    int64_t slope_count() const { return call_.slopes.program->output_count - (call_.jumps > 0 ? 2 : 0); }

    // The panels at either side of each jump, before they are refined.
    void find_surroundings() {
        around_.clear();
        for (int64_t k = 0; k < call_.jumps; ++k) {
            const double y = table(2 * call_.marks + call_.kinks - call_.jumps + k);
            around_.push_back({y, y, y});
            for (const std::vector<Panel>* panels : {&accepted_, &panels_}) {
                for (const Panel& panel : *panels) {
                    if (panel.high == y) around_.back().low = panel.low;
                    if (panel.low == y) around_.back().high = panel.high;
                }
            }
        }
    }

    void evaluate(const Placed& placed, const double* y, const double* log_weight, int64_t count, double* const* outputs) {
        runner_.run(placed, element_, y, log_weight, count, outputs);
    }

    // Marks that say something in this coordinate, and one of the others: those are found at 0 with the width 1.
    void read_marks() {
        centres_.clear(), widths_.clear();
        bool idle_seen = false;
        for (int64_t k = 0; k < call_.marks; ++k) {
            const double centre = table(k), width = table(call_.marks + k);
            const bool idle = centre == 0 && width == 1;
            if (idle && idle_seen) continue;
            idle_seen |= idle;
            centres_.push_back(centre), widths_.push_back(width);
        }
    }

    // Points at distances from every mark that grow geometrically, and the coordinate T at each.
    void climb() {
        const auto [low, high] = std::minmax_element(centres_.begin(), centres_.end());
        const double reach = *std::max_element(widths_.begin(), widths_.end()) + (*high - *low), start = *low + (*high - *low) / 2;
        const int64_t near = int64_t(rule_.near_count), far = int64_t(rule_.far_count);
        rungs_.clear();
        for (size_t m = 0; m < centres_.size(); ++m) {
            widths_[m] = std::max(widths_[m], rule_.narrowest * reach);
            const double whole = std::asinh(reach / widths_[m]);
            for (int64_t k = 0; k < near; ++k) {
                // The rungs of a mark lie symmetric.
                const bool again = 2 * k >= near && rule_.rungs[k] == -rule_.rungs[near - 1 - k];
                steps_[k] = again ? -steps_[near - 1 - k] : std::sinh(whole * rule_.rungs[k]);
                rungs_.push_back(centres_[m] + widths_[m] * steps_[k]);
            }
        }
        for (int64_t k = 0; k < far; ++k) rungs_.push_back(start + reach * rule_.rungs[near + k]);
        std::sort(rungs_.begin(), rungs_.end());
        const size_t count = rungs_.size();
        stretched_.assign(count, 0.0);
        offsets_.resize(count), sizes_.resize(count);
        for (size_t m = 0; m < centres_.size(); ++m) {
            for (size_t i = 0; i < count; ++i) sizes_[i] = std::fabs((rungs_[i] - centres_[m]) / widths_[m]);
            const double* distances = sizes_.data();
            log1p_(&distances, offsets_.data(), int64_t(count));
            for (size_t i = 0; i < count; ++i) offsets_[i] = rungs_[i] < centres_[m] ? -offsets_[i] : offsets_[i];
            for (size_t i = 1; i < count; ++i) stretched_[i] = std::max(stretched_[i], offsets_[i] - offsets_[i - 1]);
        }
    }

    // The range outside which the integrand is negligible, T in it, and its ends where it falls below what matters.
    void find_range(size_t* first, size_t* last) {
        const size_t count = rungs_.size();
        const double top = *std::max_element(sizes_.begin(), sizes_.end());
        const bool nothing = top == -kInfinity;  // a component of no weight: any range will do
        const double floor = (nothing ? 0.0 : top) - rule_.negligible;
        const auto size_at = [&](size_t i) { return nothing ? 0.0 : sizes_[i]; };
        size_t low = count, high = 0;
        for (size_t i = 0; i < count; ++i) {
            if (size_at(i) < floor) continue;
            low = std::min(low, i), high = i;
        }
        *first = low > 0 ? std::min(low - 1, count - 1) : 0, *last = std::min(high + 1, count - 1);
        for (size_t i = 1; i < count; ++i) {
            double change = std::fabs(std::max(size_at(i), floor) - std::max(size_at(i - 1), floor)) / rule_.fall;
            if (call_.follow_q) {
                const double turn = clamp(ratios_[i], -rule_.turned, rule_.turned) - clamp(ratios_[i - 1], -rule_.turned, rule_.turned);
                change = std::max(change, std::fabs(turn) / rule_.turn);
            }
            stretched_[i] = stretched_[i - 1] + std::max(stretched_[i], change);
        }
        wide_low_ = rungs_[*first], wide_high_ = rungs_[*last];
        tighten(*first, *first + 1 < count ? *first + 1 : *first, top);
        tighten(*last, *last > 0 ? *last - 1 : 0, top);
    }

    // With s the fall from the top, log(1 + s) is taken to be linear between rungs (grading.py says why).
    void tighten(size_t outer, size_t inner, double top) {
        const double near = std::log1p(clamp(top - sizes_[inner], 0.0, rule_.steepest));
        const double far = std::log1p(clamp(top - sizes_[outer], 0.0, rule_.steepest));
        if (!(far > near)) return;
        const double part = clamp((std::log1p(rule_.negligible) - near) / (far - near), 0.0, 1.0);
        rungs_[outer] = rungs_[inner] + (rungs_[outer] - rungs_[inner]) * part;
    }

    // Panels that are equally long in T, with edges at kinks.
    void place_panels(size_t first, size_t last) {
        const double low = stretched_[first], high = stretched_[last], length = (high - low) / rule_.length;
        const double wanted = length == length ? std::ceil(length) : 0.0;
        const int64_t count = int64_t(clamp(wanted, rule_.fewest, rule_.most_panels));
        edges_.clear();
        for (int64_t k = 0; k <= count; ++k) {
            const double t = low + (high - low) * (double(k) / double(count));
            const size_t found = size_t(std::lower_bound(stretched_.begin(), stretched_.end(), t) - stretched_.begin());
            const size_t right = std::min(std::max(found, size_t(1)), stretched_.size() - 1);
            const double t0 = stretched_[right - 1], t1 = stretched_[right], y0 = rungs_[right - 1], y1 = rungs_[right];
            edges_.push_back(y0 + (y1 - y0) * clamp((t - t0) / (t1 > t0 ? t1 - t0 : 1.0), 0.0, 1.0));
        }
        const double begin = edges_.front(), end = edges_.back();
        for (int64_t k = 0; k < call_.kinks; ++k) {
            const double y = table(2 * call_.marks + k);
            if (y > begin && y < end) edges_.push_back(y);
        }
        join_edges();
    }

    void join_edges() {
        std::sort(edges_.begin(), edges_.end());
        panels_.clear();
        for (size_t i = 1; i < edges_.size(); ++i) {
            if (edges_[i] > edges_[i - 1]) panels_.push_back({edges_[i - 1], edges_[i], 0.0});
        }
    }

    // Edges where the second output of `size` changes its sign, looked for between the nodes of the panels.
    void add_crossings() {
        place_nodes(panels_);
        const std::vector<double>& found = crossings_.find(at_, [&](const std::vector<double>& y) {
            terms_.resize(y.size()), noises_.resize(y.size());
            double* outputs[2] = {noises_.data(), terms_.data()};
            evaluate(call_.size, y.data(), nullptr, int64_t(y.size()), outputs);
            return terms_.data();
        });
        edges_.insert(edges_.end(), found.begin(), found.end());
        join_edges();
    }

    void place_nodes(const std::vector<Panel>& panels) {
        const size_t count = panels.size() * kOrder;
        at_.resize(count), log_weight_.resize(count), terms_.resize(count), noises_.resize(count);
        for (size_t k = 0; k < panels.size(); ++k) {
            const double low = panels[k].low, width = panels[k].high - low, log_width = std::log(width);
            for (int i = 0; i < kOrder; ++i) {
                at_[k * kOrder + i] = low + width * rule_.nodes[i];
                log_weight_[k * kOrder + i] = log_width + rule_.log_weights[i];
            }
        }
    }

    // The integrand at the nodes of these panels; false where no program holds.
    bool find_terms(const std::vector<Panel>& panels) {
        place_nodes(panels);
        const int64_t count = int64_t(at_.size());
        if (count == 0) return true;
        double* outputs[2] = {terms_.data(), noises_.data()};
        const auto holds = [&] { return std::none_of(terms_.begin(), terms_.end(), [](double x) { return x != x; }); };
        if (plain_) {
            evaluate(call_.plain, at_.data(), log_weight_.data(), count, outputs);
            if (holds()) return true;
            plain_ = false;
        }
        evaluate(call_.careful, at_.data(), log_weight_.data(), count, outputs);
        return holds();
    }

    // The integral over one panel and an estimate of its error (gauss_legendre.py says how).
    Found over_panel(const double* terms) const {
        double value = 0, middle = 0, before = 0, last = 0, coefficients[kTested] = {};
        for (int i = 0; i < kOrder; ++i) {
            value += terms[i];
            for (int k = 0; k < kTested; ++k) coefficients[k] += terms[i] * rule_.polynomials[i][k];
        }
        for (int k = 0; k < kTested / 2; ++k) {
            middle = std::max(middle, std::fabs(coefficients[k]));
            double& part = k < kTested / 4 ? before : last;
            part = std::max(part, std::fabs(coefficients[kTested / 2 + k]));
        }
        const double top = std::max(before, last), step = last / std::max(before, kSmallest);
        const double pace = std::min(std::max(2 * top / std::max(middle, kSmallest), step * step), 1.0);
        return {value, 8 * top * (pace * pace) * (pace * pace)};
    }

    // Value, size, error and noise; false where no program holds.
    bool integrate(double* found) {
        read_marks();
        climb();
        const size_t count = rungs_.size();
        sizes_.resize(count), ratios_.resize(count);
        double* outputs[2] = {sizes_.data(), ratios_.data()};
        evaluate(call_.size, rungs_.data(), nullptr, int64_t(count), outputs);
        for (double size : sizes_) {
            if (size != size) return false;
        }
        size_t first, last;
        find_range(&first, &last);
        place_panels(first, last);
        if (call_.crossings) add_crossings();
        if (!find_terms(panels_)) return false;
        double value = 0, size = 0, error = 0, noise = 0;
        found_.clear();
        for (size_t k = 0; k < panels_.size(); ++k) {
            found_.push_back(over_panel(&terms_[k * kOrder]));
            value += found_.back().value, error += found_.back().error;
            for (int i = 0; i < kOrder; ++i) size += std::fabs(terms_[k * kOrder + i]), noise += noises_[k * kOrder + i];
        }
        const double rounding = 512 * kEps * size;
        double beyond[2] = {0, 0};
        if (!panels_.empty()) beyond[0] = std::fabs(terms_.front()) / rule_.outermost, beyond[1] = std::fabs(terms_.back()) / rule_.outermost;
        const double allowed = rule_.enough * std::max(std::fabs(value), 1e-2 * size);
        const bool some_left = split(allowed, {beyond[0] > rule_.enough * size, beyond[1] > rule_.enough * size}, &value, &error);
        find_surroundings();
        if (some_left) {
            if (!refine(allowed, &value, &error)) return false;
            beyond[0] = beyond[1] = 0;
        }
        found[0] = value, found[1] = size, found[2] = error + rounding + beyond[0] + beyond[1], found[3] = noise + size;
        return true;
    }

    struct Cut {
        bool low, high;
    };

    // Sorts the first panels into those that hold and those that do not, which are left in `panels_`; whether there are any.
    bool split(double allowed, Cut cut, double* value, double* error) {
        next_.clear();
        double kept_value = 0, kept_error = 0;
        for (size_t k = 0; k < panels_.size(); ++k) {
            Panel panel = panels_[k];
            const bool outside_low = k == 0 && cut.low, outside_high = k + 1 == panels_.size() && cut.high;
            if (found_[k].error > allowed || outside_low || outside_high) {
                if (outside_low) panel.low = wide_low_;
                if (outside_high) panel.high = wide_high_;
                panel.before = found_[k].error;
                next_.push_back(panel);
            } else {
                accepted_.push_back(panel);
                kept_value += found_[k].value, kept_error += found_[k].error;
            }
        }
        if (next_.empty()) return false;
        *value = kept_value, *error = kept_error;
        panels_.swap(next_);
        return true;
    }

    // Panels are split by themselves until they hold, or until that does not help any more.
    bool refine(double allowed, double* value, double* error) {
        const int64_t parts = int64_t(rule_.split), rounds = int64_t(rule_.rounds);
        const size_t most = 64 + 16 * panels_.size();
        for (int64_t turn = 0; turn < rounds && !panels_.empty(); ++turn) {
            next_.clear();
            for (const Panel& panel : panels_) {
                for (int64_t k = 0; k < parts; ++k) {
                    const double low = panel.low + (panel.high - panel.low) * (double(k) / double(parts));
                    const double high = panel.low + (panel.high - panel.low) * (double(k + 1) / double(parts));
                    next_.push_back({low, high, 0.0});
                }
            }
            if (!find_terms(next_)) return false;
            found_.clear();
            for (size_t k = 0; k < next_.size(); ++k) found_.push_back(over_panel(&terms_[k * kOrder]));
            const bool over = turn == rounds - 1 || panels_.size() > most;
            size_t kept = 0;
            again_.clear();
            for (const Panel& panel : panels_) {
                double sum = 0;
                int64_t bad = 0;
                for (int64_t k = 0; k < parts; ++k) sum += found_[kept + k].error, bad += found_[kept + k].error > allowed;
                // Splitting that does not help meets rounding, not the rule; a corner stays in one part, or two, however short.
                const bool helps = sum < panel.before / 2 || bad <= 2;
                for (int64_t k = 0; k < parts; ++k, ++kept) {
                    const Found& part = found_[kept];
                    if (!over && helps && part.error > allowed && next_[kept].high > next_[kept].low) {
                        next_[kept].before = part.error;
                        again_.push_back(next_[kept]);
                    } else {
                        accepted_.push_back(next_[kept]);
                        *value += part.value, *error += part.error;
                    }
                }
            }
            panels_.swap(again_);
        }
        return true;
    }
};

}  // namespace
}  // namespace kullback

using namespace kullback;

// Returns 0, or 1 for a request that makes no sense. The programs must have passed kullback_program_check.
KULLBACK_API int32_t kullback_integral_run(const IntegralCall* call) {
    if (call == nullptr || call->rule == nullptr || call->table == nullptr || call->results == nullptr) return 1;
    if (call->marks < 1 || call->kinks < 0 || call->count < 0) return 1;
    for (const Placed* placed : {&call->size, &call->plain, &call->careful}) {
        if (placed->program == nullptr || placed->program->output_count != 2 || placed->program->input_count < 2) return 1;
    }
    if (call->slopes.program != nullptr && call->slope_results == nullptr) return 1;
    if (call->jumps < 0 || call->jumps > call->kinks) return 1;
    if (call->jumps > 0 && call->slopes.program != nullptr && call->slopes.program->output_count < 2) return 1;
    parallel_for(call->count, kGrain, static_cast<int32_t>(call->threads), [&](int64_t begin, int64_t end) {
        Integrator integrator(*call);
        for (int64_t place = begin; place < end; ++place) integrator.run(place);
    });
    return 0;
}
