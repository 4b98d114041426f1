// Sums, products and quotients that carry their rounding errors along.
#pragma once

#include "fused.h"

namespace kullback::KULLBACK_SET {

// A number in two parts, the second below an ulp of the first.
struct Pair {
    double high, low;
};

// x y = high + low exactly, while nothing over- or underflows.
inline Pair two_product(double x, double y) {
    const double high = x * y;
#if defined(KULLBACK_HAS_FMA)
    return {high, fused(x, y, -high)};
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

// To about 100 bits. A rest that is infinite or NaN after an overflow is left out.
inline Pair with_rest(Pair leading, double rest) {
    const double low = leading.low + rest;
    return {leading.high, magnitude(low) < kInfinity<double> ? low : 0.0};
}

inline Pair plus(Pair x, Pair y) { return with_rest(two_sum(x.high, y.high), x.low + y.low); }

inline Pair times(Pair x, Pair y) { return with_rest(two_product(x.high, y.high), x.high * y.low + x.low * y.high); }

inline Pair times(double x, Pair y) { return with_rest(two_product(x, y.high), x * y.low); }

inline Pair divided(Pair x, Pair y) {
    const double high = x.high / y.high;
    const Pair back = two_product(high, y.high);
    return with_rest({high, 0}, (((x.high - back.high) - back.low) + x.low - high * y.low) / y.high);
}

inline Pair one_minus(Pair x) { return with_rest(two_difference(1, x.high), -x.low); }

inline double rounded(Pair x) { return x.high + x.low; }

}  // namespace kullback::KULLBACK_SET
