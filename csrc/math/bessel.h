// log I_nu(x), log(e^-x I_nu(x)) and r = I_(nu+1)(x)/I_nu(x) with its derivative, for nu >= 0 and x >= 0.
//
// Hankel's series far above nu^2/2 (DLMF 10.40), Debye's from order 30 on (DLMF 10.41); below, the power series up to x = 50
// and Debye's thirty orders up with the ratios in between, which the recurrence r_nu = x/(2 nu + 2 + x r_(nu+1)) gives
// backwards. Scalar: the branches cost ten times different amounts.
#pragma once

#include <cmath>

#include "binet.h"
#include "exact.h"

namespace kullback::KULLBACK_SET {

constexpr int kDebyeFrom = 30;
constexpr int kDebyeTerms = 13;
constexpr double kPowerSeriesTo = 50;
constexpr double kHalfLogTwoPi = 0.91893853320467274178;

// Hankel's terms fall like (nu^2/2x)^k/k! and then like k!/(2x)^k, to e^(-2x) at least.
inline bool is_far_above(double nu, double x) { return x >= 0.5 * nu * nu + 25; }

// Debye's expansion serves at any order whose p = nu/sqrt(nu^2 + x^2) is small.
inline bool is_direct(double nu, double x) { return x >= 60 && x >= 4 * nu; }

// log H, x (log H)' and x^2 (log H)'' of H = sqrt(2 pi x) e^-x I_nu(x).
struct Hankel {
    double log, first, second;
};

[[gnu::noinline]] inline Hankel hankel(double nu, double x) {
    constexpr int kTerms = 50;
    const double square = 4 * nu * nu, inverse = 1 / (8 * x);
    double terms[kTerms], term = 1;
    int count = 0;
    while (count < kTerms && std::fabs(term) > 1e-22) {  // the second derivative multiplies a term by k^2
        const double odd = 2 * count + 1;
        term *= (odd * odd - square) * inverse / (count + 1);
        terms[count++] = term;
    }
    double sum = 0, first = 0, second = 0;
    for (int k = count; k > 0; --k) {
        const double fall = k * terms[k - 1];
        sum += terms[k - 1];
        first -= fall;
        second += fall * (k + 1);
    }
    first /= 1 + sum, second /= 1 + sum;
    return {std::log1p(sum), first, second - first * first};
}

// Sums over k >= 1 of Debye's polynomials in p over nu^k, and of p times their derivatives.
struct DebyeSum {
    double value, first;
};

inline DebyeSum debye_sum(const double (&rows)[kDebyeTerms][kDebyeTerms + 1], double p, double nu) {
    const double ratio = p / nu, square = p * p;
    double value = 0, first = 0;
    for (int k = kDebyeTerms; k > 0; --k) {
        double polynomial = 0, slope = 0;
        for (int j = k; j >= 0; --j) {
            polynomial = polynomial * square + rows[k - 1][j];
            slope = slope * square + (k + 2 * j) * rows[k - 1][j];
        }
        value = ratio * (value + polynomial);
        first = ratio * (first + slope);
    }
    return {value, first};
}

struct LogBessel {
    double plain, scaled;  // log I and log I - x
};

[[gnu::noinline]] inline LogBessel debye_log(double nu, double x) {
    const double z = x / nu;
    const double square = std::sqrt(1 + z * z), root = square == kInfinity<double> ? z : square;
    const double level = -std::asinh(1 / z);
    const double sum = debye_sum(coefficients::kDebyeU, 1 / root, nu).value;
    const double series = 0.5 * std::log(nu * root) + (kHalfLogTwoPi - std::log1p(sum));
    return {nu * (root + level) - series, nu * (1 / (root + z) + level) - series};
}

struct BesselRatio {
    double r, slope;  // I_(nu+1)/I_nu and its derivative in x
};

// Q = sum v/sum u is a function of p = nu/sqrt(nu^2 + x^2), and r = (sqrt(1 + z^2) Q - 1)/z; x^2 r' = nu S with
// S = 1 - p Q - (1 - p^2) Q'. Far above nu p is small and nothing cancels.
inline BesselRatio debye_ratio(double nu, double x) {
    const double z = x / nu, root = std::sqrt(1 + z * z), p = 1 / root, rest = (1 - p) * (1 + p);
    const DebyeSum u = debye_sum(coefficients::kDebyeU, p, nu), v = debye_sum(coefficients::kDebyeV, p, nu);
    const double whole = 1 + u.value, excess = (v.value - u.value) / whole, quotient = 1 + excess;
    const double first = (v.first - quotient * u.first) / whole;  // p Q'
    const double slope = (1 - p) - p * excess - rest * (first / p);
    return {z / (root + 1) + root * excess / z, nu * slope / x / x};
}

// The start of the recurrence at an order of 30 or more; where x is below a twentieth of it Amos' bound is close enough.
inline double ratio_to_start_from(double nu, double x) {
    return x > 0.05 * nu ? debye_ratio(nu, x).r : x / (nu + 1 + std::sqrt(x * x + (nu + 1) * (nu + 1)));
}

// 30 steps of D_nu = x/r_nu = 2 (nu + 1) + x r_(nu+1), each of which multiplies an error by r^2; in pairs, because r'
// is a difference that cancels to (nu + 1/2)/x^2 of its terms.
struct Descent {
    Pair above, denominator;  // r_(nu+1) and D_nu
    double log_product;       // the sum of log r_(nu+k) over k < 30
};

[[gnu::noinline]] inline Descent descend(double nu, double x) {
    Pair r = {ratio_to_start_from(nu + kDebyeFrom, x), 0}, above = r, denominator = r;
    double product = 1;
    for (int k = kDebyeFrom; k > 0; --k) {
        above = r;
        denominator = plus(times(2, two_sum(nu, k)), times(x, r));
        r = divided({x, 0}, denominator);
        product *= r.high;
    }
    return {above, denominator, std::log(product)};
}

// From r_(nu+1) = s and q = 1/D by r = x q: with g = (x s)' = x (1 - s^2) - (2 nu + 2) s, r' = q (1 - r g).
inline BesselRatio ratio_by_descent(double nu, double x) {
    const Descent found = descend(nu, x);
    const Pair s = found.above, r = divided({x, 0}, found.denominator), q = divided({1, 0}, found.denominator);
    const Pair g = plus(times(x, one_minus(times(s, s))), times(-2, times(two_sum(nu, 1), s)));
    const Pair h = one_minus(times(r, g));
    return {rounded(r), rounded(times(q, h))};
}

// At an order of 3e8 or more, where pairs no longer hold the difference, below 4 nu: Debye's expansion to its second term,
// in a form that does not cancel at small z.
inline BesselRatio ratio_of_large_order(double nu, double x) {
    const double z = x / nu, square = 1 + z * z, root = std::sqrt(square), half = 0.5 / nu;
    const double first = 1 / (root * (1 + root)) - half * (1 - z * z) / (square * square);
    return {z / (1 + root) - half * z / square, first / nu};
}

// For x > 0.
[[gnu::noinline]] inline BesselRatio bessel_ratio_inside(double nu, double x) {
    if (is_far_above(nu, x)) {
        const Hankel h = hankel(nu, x);
        return {1 - (nu + 0.5 - h.first) / x, (nu + 0.5 + h.second) / x / x};
    }
    if (is_direct(nu, x)) return debye_ratio(nu, x);
    // Elsewhere the recurrence damps an error of its start by e^-15 at least.
    return nu < 3e8 ? ratio_by_descent(nu, x) : ratio_of_large_order(nu, x);
}

// nu log(x/2) - log Gamma(nu+1): small next to nu = 0; from 1 on with the large parts of both under one logarithm.
inline double log_power(double nu, double x) {
    if (nu == 0) return 0;
    if (nu <= 1) return nu * (std::log(0.5 * x) - horner(nu, coefficients::kLgammaDouble));
    const double y = nu + 1;
    return (nu * std::log(0.5 * x / y) + y) - (0.5 * std::log(y) + kHalfLogTwoPi + binet_above<0>(y));
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
        const double asymptotic = (hankel(nu, x).log - kHalfLogTwoPi) - 0.5 * std::log(x);
        return {x + asymptotic, asymptotic};
    }
    if (nu >= kDebyeFrom || is_direct(nu, x)) return debye_log(nu, x);
    if (x <= kPowerSeriesTo) return power_series(nu, x);
    const LogBessel above = debye_log(nu + kDebyeFrom, x);
    const double product = descend(nu, x).log_product;
    return {above.plain - product, above.scaled - product};
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
    return x == kInfinity<double> ? 0.0 : bessel_ratio_inside(nu, x).slope;
}

}  // namespace kullback::KULLBACK_SET
