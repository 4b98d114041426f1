// log Phi(x), by Mills' ratio M(t) = (1 - Phi(t))/phi(t), which neither over- nor underflows.
#pragma once

#include "exp.h"
#include "log.h"

namespace kullback::KULLBACK_SET {

inline constexpr double kDensityAtZero = 0.39894228040143267794;

// M(t), t >= 0. Anchored at M(0) = sqrt(pi/2), so that near 0, where log Phi has no other error, the fit has none.
inline double mills(double infinite_t) {
    const double t = infinite_t < 1e300 ? infinite_t : 1e300;
    constexpr double kAtZero = 1.2533141373155003, kAtZeroLow = -9.1642899902295838e-17;
    const double scale = 1 / (t + 4);
    const double rest = (2 * t * scale) * horner((t - 4) * scale, coefficients::kMillsDouble);
    return (kAtZero + (rest + kAtZeroLow)) / (1 + t);
}

// phi(t). t^2 is not rounded: a float holds the leading half of t, whose square is exact, and the rest enters the
// exponential as a factor 1 + small.
inline double normal_density(double t) {
    const double cut = t > 40 ? 40.0 : t;  // phi underflows at 38.6
    const double high = double(float(cut));
    const double rest = -0.5 * (cut - high) * (cut + high);
    return kDensityAtZero * exp_of(-0.5 * high * high) * (1 + rest * (1 + rest * (0.5 + rest * (1.0 / 6))));
}

inline double log_ndtr_of(double x) {
    const double t = magnitude(x);
    const double ratio = mills(t);
    const double low = log_of(kDensityAtZero * ratio) - 0.5 * t * t;
    const double high = log1p_of(-normal_density(t) * ratio);
    return x == -kInfinity<double> ? x : (x <= 0 ? low : high);
}

inline double log_ndtr_slope(double x) {
    const double t = magnitude(x);
    const double ratio = mills(t), peak = normal_density(t);
    const double value = x <= 0 ? 1 / ratio : peak / (1 - peak * ratio);
    return t == kInfinity<double> ? 0.0 : value;
}

}  // namespace kullback::KULLBACK_SET
