// log I_0(x), log(e^-x I_0(x)) and I_1(x)/I_0(x) for x >= 0 without branches: the orders of circular statistics.
//
// Up to 6 in powers of t = x^2/4, beyond in powers of 1/x. The logarithm is taken once, of 1 + t P(t) or of the square of
// sqrt(x) e^-x I_0(x) over x.
#pragma once

#include "log.h"

namespace kullback::KULLBACK_SET {

inline constexpr double kBesselZeroTo = 6;

// Whether the functions of this file serve.
inline bool is_order_zero(double nu, double x) { return nu == 0 && x >= 0 && x < kInfinity<double>; }

// log(e^-x I_0(x)) beyond 6, log I_0(x) up to there.
inline double log_i0_part(double x) {
    const bool small = x <= kBesselZeroTo;
    const double t = small ? 0.25 * x * x : 0.0, inverse = small ? 1.0 : 1 / x;
    const double rise = t * horner(t, coefficients::kI0SmallDouble);
    const double q = horner(small ? 0.0 : 12 * inverse - 1, coefficients::kI0LargeDouble);
    const double argument = small ? 1 + rise : q * q * inverse;
    const double lost = small ? (rise - (argument - 1)) / argument : 0.0;
    return (small ? 1.0 : 0.5) * (log_of(argument) + lost);
}

inline double log_i0_of(double x) {
    const double part = log_i0_part(x);
    return x <= kBesselZeroTo ? part : x + part;
}

inline double log_i0e_of(double x) {
    const double part = log_i0_part(x);
    return x <= kBesselZeroTo ? part - x : part;
}

inline double i1_over_i0(double x) {
    const bool small = x <= kBesselZeroTo;
    const double t = small ? 0.25 * x * x : 0.0;
    const double below = 0.5 * x * horner(t, coefficients::kI1SmallDouble) / (1 + t * horner(t, coefficients::kI0SmallDouble));
    const double above = horner(small ? 0.0 : 12 / x - 1, coefficients::kI1OverI0LargeDouble);
    return small ? below : above;
}

}  // namespace kullback::KULLBACK_SET
