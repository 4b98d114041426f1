// Products and sums that carry their rounding errors along.
#pragma once

#include "../math/bits.h"

namespace kullback::KULLBACK_SET {

struct Pair {
    double high, low;
};

// x y = high + low exactly, while nothing over- or underflows.
inline Pair two_product(double x, double y) {
    const double high = x * y;
#if defined(__FMA__)
    return {high, __builtin_fma(x, y, -high)};
#else
    // Veltkamp's splitting: halves of 26 bits, whose products are exact.
    const double cx = 134217729.0 * x, cy = 134217729.0 * y;
    const double x1 = cx - (cx - x), x2 = x - x1, y1 = cy - (cy - y), y2 = y - y1;
    return {high, ((x1 * y1 - high) + x1 * y2 + x2 * y1) + x2 * y2};
#endif
}

// x + y = high + low exactly.
inline Pair two_sum(double x, double y) {
    const double high = x + y, back = high - x;
    return {high, (x - (high - back)) + (y - back)};
}

inline Pair two_difference(double x, double y) { return two_sum(x, -y); }

}  // namespace kullback::KULLBACK_SET
