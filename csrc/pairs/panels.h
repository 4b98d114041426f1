// Panels of an integral, and what the integrand jumps by where two of them meet.
#pragma once

#include <cstddef>
#include <vector>

#include "integral.h"

namespace kullback {

struct Panel {
    double low, high, before;  // `before`: the error that made it be split
};

// A jump, and the ends of the panels that meet there.
struct Around {
    double at, low, high;
};

// f(y-) - f(y+) as the integral of (f h)', with h = 1 at y falling to 0 over the first panels that met there: no node lies at y
// itself, and where f is singular the panels it was refined to see how. `change` and `value` are f' and f times their weights.
inline double jump_at(const Around& around, const std::vector<Panel>& panels, const double* at, const double* change,
                      const double* value) {
    double total = 0;
    for (size_t k = 0; k < panels.size(); ++k) {
        const double low = panels[k].low, high = panels[k].high;
        const bool before = low >= around.low && high <= around.at;
        if (!before && !(low >= around.at && high <= around.high)) continue;
        const double far = before ? around.low : around.high, slope = 1 / (around.at - far);
        for (size_t node = k * kOrder; node < (k + 1) * kOrder; ++node) total += (change[node] * (at[node] - far) + value[node]) * slope;
    }
    return total;
}

}  // namespace kullback
