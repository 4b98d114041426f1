// What becomes of the value of a row in the end, and the slope that its gradient is multiplied by (rows.cpp).
#pragma once

#include <cmath>

#include "../math/bits.h"
#include "call.h"

namespace kullback::KULLBACK_SET {

// e to a larger number is taken for infinite.
inline constexpr double kOverflow = 708;

// Rounding in the sum of a row can leave a divergence of 0 at -1e-18; NaN stays.
inline double not_negative(double value) { return value < 0 ? 0.0 : value; }

inline double outer_value(const RowsCall& call, double f) {
    switch (Outer(call.outer)) {
        case Outer::kTimes: return not_negative(f == 0 ? 0.0 : call.unit * f);
        case Outer::kRoot: return std::sqrt(call.unit * f);
        case Outer::kExpm1: return f > kOverflow ? kInfinity<double> : std::expm1(f);
        case Outer::kRootOfLack: return std::sqrt(-std::expm1(f < 0 ? f : 0.0) + (f != f ? f : 0.0));
        default: return f;
    }
}

inline double outer_slope(const RowsCall& call, double f) {
    switch (Outer(call.outer)) {
        case Outer::kTimes: return call.unit;
        case Outer::kRoot: return f > 0 ? 0.5 * std::sqrt(call.unit / f) : 0.0;
        case Outer::kExpm1: return f > kOverflow ? 0.0 : std::exp(f);
        case Outer::kRootOfLack: return f < 0 ? -0.5 * std::exp(f) / std::sqrt(-std::expm1(f)) : 0.0;
        default: return 1.0;
    }
}

}  // namespace kullback::KULLBACK_SET
