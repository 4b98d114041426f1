// log Phi(x), by Mills' ratio M(t) = (1 - Phi(t))/phi(t), which neither over- nor underflows.
#pragma once

#include "exp.h"
#include "log.h"

namespace kullback::KULLBACK_SET {

inline constexpr double kDensityAtZero = 0.39894228040143267794;

// The polynomials, shorter for a float result.
template <class T>
struct Normal {
    static constexpr auto& kMills = coefficients::kMillsDouble;
    static constexpr auto& kExp = coefficients::kExpNearDouble;
    static constexpr auto& kAtanh = coefficients::kAtanhNearDouble;
};

template <>
struct Normal<float> {
    static constexpr auto& kMills = coefficients::kMillsFloat;
    static constexpr auto& kExp = coefficients::kExpNearFloat;
    static constexpr auto& kAtanh = coefficients::kAtanhNearFloat;
};

// (1 + t) M(t) - M(0) and 1/(1 + t) = w + w_low, t >= 0.
struct Mills {
    double rise, w, w_low;
};

template <class T>
[[gnu::always_inline]] inline Mills mills_parts(double infinite_t) {
    const double t = infinite_t < 1e300 ? infinite_t : 1e300;
    const double sum = 1 + t, sum_low = t < 1 ? t - (sum - 1) : 1 - (sum - t), w = 1 / sum;
    const double w_low = (remainder_of(1.0, w, sum) - w * sum_low) * w;
    return {(2 * t * w) * horner(1 - 2 * w, Normal<T>::kMills), w, w_low};
}

// M(t). Anchored at M(0) = sqrt(pi/2), so that near 0, where log Phi has no other error, the fit has none.
[[gnu::always_inline]] inline double mills(double t) {
    const Mills m = mills_parts<double>(t);
    const double scaled = 1.2533141373155003 + (m.rise - 9.1642899902295838e-17);
    return fused(scaled, m.w, scaled * m.w_low);
}

// phi(0) M(t), which is 1/2 at 0.
template <class T = double>
[[gnu::always_inline]] inline double central_mills(double t) {
    const Mills m = mills_parts<T>(t);
    const double scaled = 0.5 + kDensityAtZero * m.rise;
    return fused(scaled, m.w, scaled * m.w_low);
}

// scale e^(-t^2/2). t^2 is not rounded: a float holds the leading half of t, whose square is exact, and the rest joins what
// the reduction of the exponent leaves.
template <class T = double>
[[gnu::always_inline]] inline double gaussian(double t, double scale) {
    using F = Format<double>;
    const double cut = t > 40 ? 40.0 : t;  // underflows at 38.6
    const double high = double(float(cut));
    const ExpParts<double> e = split_exp(-0.5 * high * high);
    const double r = e.r + (e.lost - 0.5 * (cut - high) * (cut + high));
    // In two steps, because 2^n alone is subnormal at the end of the range.
    const double half = (e.n * 0.5 + F::kRound) - F::kRound;
    return fused(scale, r + r * r * horner(r, Normal<T>::kExp), scale) * power_of_two(half) * power_of_two(e.n - half);
}

[[gnu::always_inline]] inline double normal_density(double t) { return gaussian(t, kDensityAtZero); }

// log(phi(0) M) - x^2/2 below 0, log(1 - phi(x) M) above, by one logarithm of u = 2^k (1 + f): f is exact, as in log1pmx_of.
template <class T>
[[gnu::always_inline]] inline T log_ndtr_of(T narrow) {
    using F = Format<double>;
    const double x = double(narrow);
    const bool below = x <= 0;
    const double t = magnitude(x), ratio = central_mills<T>(t);
    const double part = below ? ratio : -gaussian<T>(t, ratio);
    const uint64_t biased = (bit_cast<uint64_t>(below ? part : 1 + part) + (uint64_t(1) << 51)) >> 52;
    constexpr uint64_t kCarrier = uint64_t(F::kBias + 52) << 52;
    const double k = bit_cast<double>(biased | kCarrier) - (bit_cast<double>(kCarrier) + double(F::kBias));
    const double shrink = bit_cast<double>((uint64_t(2 * F::kBias) - biased) << 52);  // 2^-k
    const double f = fused(part, shrink, below ? -1.0 : shrink - 1);
    const double s = f / (2 + f), z = s * s;
    const double tail = s * (2 * z * horner(z, Normal<T>::kAtanh) - f);
    const double value = k * F::kLog2High + (f + (tail + k * F::kLog2Low));
    return T(x == -kInfinity<double> ? x : (below ? value - 0.5 * t * t : value));
}

[[gnu::always_inline]] inline double log_ndtr_slope(double x) {
    const double t = magnitude(x);
    const double ratio = mills(t), peak = normal_density(t);
    // Far out 1/M(t) is t, and t itself may be larger than the fit allows.
    const double below = t > 1e100 ? t : 1 / ratio;
    const double value = x <= 0 ? below : peak / (1 - peak * ratio);
    return t == kInfinity<double> ? 0.0 : value;
}

}  // namespace kullback::KULLBACK_SET
