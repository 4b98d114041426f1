// log I_nu(x), log(e^-x I_nu(x)) and r = I_(nu+1)(x)/I_nu(x) with its slope, for nu >= 0 and x >= 0.
//
// Hankel's series far above nu^2/2 (DLMF 10.40), Debye's from order 30 on (DLMF 10.41); below, the power series up to x = 50
// and Debye's thirty orders up with the ratios in between, which the recurrence r_nu = x/(2 nu + 2 + x r_(nu+1)) gives
// backwards. Scalar: the branches cost ten times different amounts.
#pragma once

#include <cmath>

#include "binet.h"

namespace kullback::KULLBACK_SET {

constexpr int kDebyeFrom = 30;
constexpr int kDebyeTerms = 13;
constexpr double kPowerSeriesTo = 50;

// Hankel's terms fall like (nu^2/2x)^k/k! and then like k!/(2x)^k, to e^(-2x) at least.
inline bool is_far_above(double nu, double x) { return x >= 0.5 * nu * nu + 25; }

// log H, x (log H)' and x^2 (log H)'' of H = sqrt(2 pi x) e^-x I_nu(x).
struct Hankel {
    double log, first, second;
};

[[gnu::noinline]] inline Hankel hankel(double nu, double x) {
    constexpr int kTerms = 50;
    const double square = 4 * nu * nu, inverse = 1 / (8 * x);
    double terms[kTerms], term = 1;
    int count = 0;
    while (count < kTerms && std::fabs(term) > 1e-19) {
        const double odd = 2 * count + 1;
        term *= (odd * odd - square) * inverse / (count + 1);
        terms[count++] = term;
    }
    double sum = 0, first = 0, second = 0;
    for (int k = count; k > 0; --k) {
        sum += terms[k - 1];
        first -= k * terms[k - 1];
        second += double(k) * (k + 1) * terms[k - 1];
    }
    first /= 1 + sum;
    return {std::log1p(sum), first, second / (1 + sum) - first * first};
}

// Sums over k >= 1 of Debye's polynomials in p over nu^k, and of p times their derivatives.
struct DebyeSum {
    double value, slope;
};

inline DebyeSum debye_sum(const double (&rows)[kDebyeTerms][kDebyeTerms + 1], double p, double nu) {
    const double ratio = p / nu, square = p * p;
    double value = 0, slope = 0;
    for (int k = kDebyeTerms; k > 0; --k) {
        double polynomial = 0, derivative = 0;
        for (int j = k; j >= 0; --j) {
            polynomial = polynomial * square + rows[k - 1][j];
            derivative = derivative * square + (k + 2 * j) * rows[k - 1][j];
        }
        value = ratio * (value + polynomial);
        slope = ratio * (slope + derivative);
    }
    return {value, slope};
}

struct LogBessel {
    double plain, scaled;  // log I and log I - x
};

[[gnu::noinline]] inline LogBessel debye_log(double nu, double x) {
    const double z = x / nu;
    const double square = std::sqrt(1 + z * z), root = square == kInfinity<double> ? z : square;
    const double level = -std::asinh(1 / z);
    const double sum = debye_sum(coefficients::kDebyeU, 1 / root, nu).value;
    const double series = 0.5 * std::log(6.283185307179586477 * nu * root) - std::log1p(sum);
    return {nu * (root + level) - series, nu * (1 / (root + z) + level) - series};
}

struct BesselRatio {
    double r, slope, log_product;  // log_product: the sum of log r_(nu+k) over k < 30
};

// At an order of 30 or more; where x is below a twentieth of it, a start that the recurrence improves (Amos' bound).
inline BesselRatio debye_ratio(double nu, double x) {
    const double z = x / nu;
    if (z <= 0.05) {
        const double amos = x / (nu + 1 + std::sqrt(x * x + (nu + 1) * (nu + 1)));
        return {amos, amos / x, 0};
    }
    const double root = std::sqrt(1 + z * z), p = 1 / root;
    const DebyeSum u = debye_sum(coefficients::kDebyeU, p, nu), v = debye_sum(coefficients::kDebyeV, p, nu);
    const double quotient = (1 + v.value) / (1 + u.value);
    const double p_slope = (v.slope - quotient * u.slope) / ((1 + u.value) * p);
    const double slope = nu * ((1 - p * quotient) - (1 - p * p) * p_slope);
    return {(root * quotient - 1) / z, slope / x / x, 0};
}

// For x > 0; log_product only where neither Hankel's series nor the power series serves.
[[gnu::noinline]] inline BesselRatio bessel_ratio_inside(double nu, double x) {
    if (is_far_above(nu, x)) {
        const Hankel h = hankel(nu, x);
        return {1 - (nu + 0.5 - h.first) / x, (nu + 0.5 + h.second) / x / x, 0};
    }
    // Far above nu Debye's expansion subtracts nothing that is close, and the recurrence would not damp its errors.
    if (nu >= kDebyeFrom && x >= 4 * nu) return debye_ratio(nu, x);
    const BesselRatio above = debye_ratio(nu + kDebyeFrom, x);
    double r = above.r, slope = above.slope, product = 1;
    for (int k = kDebyeFrom; k > 0; --k) {
        const double twice = 2 * (nu + k);
        const double q = 1 / (twice + x * r);
        slope = q * q * (twice - x * (x * slope));
        r = x * q;
        product *= r;
    }
    return {r, slope, std::log(product)};
}

// nu log(x/2) - log Gamma(nu+1): small next to nu = 0; from 1 on with the large parts of both under one logarithm.
inline double log_power(double nu, double x) {
    if (nu == 0) return 0;
    if (nu <= 1) return nu * (std::log(0.5 * x) - horner(nu, coefficients::kLgammaDouble));
    const double y = nu + 1;
    return (nu * std::log(0.5 * x / y) + y) - (0.5 * std::log(y) + 0.91893853320467274178 + binet_above<0>(y));
}

// nu log(x/2) - log Gamma(nu+1) + log of the sum of (x^2/4)^k/(k! (nu+1) ... (nu+k)).
[[gnu::noinline]] inline LogBessel power_series(double nu, double x) {
    const double quarter = 0.25 * x * x;
    double terms[80], term = 1, total = 0;
    int count = 0;
    do {
        ++count;
        term *= quarter / (count * (nu + count));
        terms[count - 1] = term;
    } while (count < 80 && (term > 1e-19 * (1 + total) || count * (nu + count) < quarter) && ((total += term), true));
    total = 0;
    for (int k = count; k > 0; --k) total += terms[k - 1];
    const double power = log_power(nu, x);
    const double log_sum = std::log1p(total);
    // From x = 1 on, e^-x times the sum is formed before the logarithm, which then does not cancel against x.
    return {power + log_sum, power + (x < 1 ? log_sum - x : std::log((1 + total) * std::exp(-x)))};
}

inline LogBessel log_bessel_inside(double nu, double x) {
    if (is_far_above(nu, x)) {
        const double asymptotic = hankel(nu, x).log - 0.5 * std::log(6.283185307179586477 * x);
        return {x + asymptotic, asymptotic};
    }
    if (nu >= kDebyeFrom) return debye_log(nu, x);
    if (x <= kPowerSeriesTo) return power_series(nu, x);
    const LogBessel above = debye_log(nu + kDebyeFrom, x);
    const double product = bessel_ratio_inside(nu, x).log_product;
    return {above.plain - product, above.scaled - product};
}

// r' without cancellation: x r' I_nu^2 = (2 nu + 1) times the integral of I_nu I_(nu+1)/t from 0 to x, and with the power
// series of both products (DLMF 10.31.3)
//   r' = (nu + 1/2) E[1/((2 nu + 1 + K) (nu + 1 + K))],  K = k with a probability proportional to the k-th term of I_nu^2.
// Summed outwards from the most probable k as a relative deviation, which is small where the terms are many.
[[gnu::noinline]] inline double ratio_slope_by_mean(double nu, double x) {
    // Below 1 the first term is the largest, and x^2 may be 0.
    const double quarter = 0.25 * x * x, start = x < 1 ? 0 : std::floor(x * (x / (nu + std::sqrt(nu * nu + x * x))));
    const double a = 2 * nu + 1 + start, b = nu + 1 + start;
    const auto rise = [&](double k) {
        return quarter * (2 * (2 * (nu + k) + 1)) / ((2 * nu + k + 1) * (k + 1) * (nu + k + 1));
    };
    double total = 1, deviation = 0, weight = 1;
    const auto add = [&](double j) {
        total += weight;
        deviation -= weight * (j * (a + b + j)) / ((a + j) * (b + j));
        return weight > 1e-18 * total;
    };
    for (double j = 1;; ++j) {
        weight *= rise(start + j - 1);
        if (!add(j)) break;
    }
    weight = 1;
    for (double j = -1; j >= -start; --j) {
        weight /= rise(start + j);
        if (!add(j)) break;
    }
    const double centre = (nu + 0.5) / (a * b);
    return centre + centre * (deviation / total);
}

inline bool is_bessel_domain(double nu, double x) { return nu >= 0 && x >= 0 && nu < kInfinity<double>; }

// I_0(0) = 1, I_nu(0) = 0.
inline double log_iv_of(double nu, double x) {
    if (!is_bessel_domain(nu, x)) return kNaN<double>;
    if (x == 0) return nu == 0 ? 0.0 : -kInfinity<double>;
    return x == kInfinity<double> ? x : log_bessel_inside(nu, x).plain;
}

inline double log_ive_of(double nu, double x) {
    if (!is_bessel_domain(nu, x)) return kNaN<double>;
    if (x == 0) return nu == 0 ? 0.0 : -kInfinity<double>;
    return x == kInfinity<double> ? -x : log_bessel_inside(nu, x).scaled;
}

inline double bessel_ratio_of(double nu, double x) {
    if (!is_bessel_domain(nu, x)) return kNaN<double>;
    if (x == 0) return 0.0;
    return x == kInfinity<double> ? 1.0 : bessel_ratio_inside(nu, x).r;
}

// Slopes in x: (log I)' less `tilt`, which is 1 for the scaled function; r'.
inline double log_bessel_slope(double nu, double x, double tilt) {
    if (!is_bessel_domain(nu, x)) return kNaN<double>;
    if (x == 0) return nu == 0 ? -tilt : kInfinity<double>;
    if (x == kInfinity<double>) return 0.0;
    if (is_far_above(nu, x)) return (1 - tilt) + (hankel(nu, x).first - 0.5) / x;
    return (bessel_ratio_inside(nu, x).r - tilt) + nu / x;
}

inline double bessel_ratio_slope(double nu, double x) {
    if (!is_bessel_domain(nu, x)) return kNaN<double>;
    if (x == 0) return 0.5 / (nu + 1);
    if (x == kInfinity<double>) return 0.0;
    // Beyond 1000 the terms become many, and the order is so large that Debye's expansion is as accurate.
    const bool by_mean = x <= 1000 && !is_far_above(nu, x);
    return by_mean ? ratio_slope_by_mean(nu, x) : bessel_ratio_inside(nu, x).slope;
}

}  // namespace kullback::KULLBACK_SET
