// The instructions of a program: torch's elementwise operations, on doubles. A truth value is 1 or 0; a NaN counts as true.
#pragma once

#include "../math/exp.h"
#include "../math/log.h"

namespace kullback::KULLBACK_SET {

// A NaN on either side is the result, as in torch.maximum and torch.clamp.
[[gnu::always_inline]] inline double larger_of(double a, double b) { return a != a || a > b ? a : b; }
[[gnu::always_inline]] inline double smaller_of(double a, double b) { return a != a || a < b ? a : b; }

[[gnu::always_inline]] inline double sign_of(double a) { return a != a ? a : double(a > 0) - double(a < 0); }

// What Jensen and Shannon's divergence takes from a unit of mass at the log-ratio r, as src/kullback/pairs/sisters/term.py has it:
// with t = tanh(|r|/2) half the sum of t^2k/(2k(2k-1)) where t is small, else half of log 2 - log(1 + e) - |r| e/(1 + e), e = e^-|r|.
[[gnu::always_inline]] inline double js_term_of(double r) {
    const double size = __builtin_fabs(r) > 800 ? 800.0 : __builtin_fabs(r), e = exp_of(-size);
    const double t = -expm1_of(-size) / (1 + e), square = t * t;
    double series = 1.0 / 306;
    series = series * square + 1.0 / 240, series = series * square + 1.0 / 182, series = series * square + 1.0 / 132;
    series = series * square + 1.0 / 90, series = series * square + 1.0 / 56, series = series * square + 1.0 / 30;
    series = series * square + 1.0 / 12, series = series * square + 1.0 / 2;
    const double apart = 0.69314718055994530942 - log1p_of(e) - size * e / (1 + e);
    const double found = (t < 0.1 ? series * square : apart) / 2;
    return r != r ? r : found;
}

// Its derivative r e/(2 (1 + e)^2).
[[gnu::always_inline]] inline double js_slope_of(double r) {
    const double e = exp_of(-__builtin_fabs(r));
    return e == 0 ? 0.0 : r * e / (2 * (1 + e) * (1 + e));
}

#define KULLBACK_INSTRUCTIONS_1(X)                                     \
    X(neg, -a)                                                         \
    X(abs, __builtin_fabs(a))                                          \
    X(sqrt, __builtin_sqrt(a))                                         \
    X(reciprocal, 1 / a)                                               \
    X(exp, exp_of(a))                                                  \
    X(expm1, expm1_of(a))                                              \
    X(log, log_of(a))                                                  \
    X(log1p, log1p_of(a))                                              \
    X(sigmoid, 1 / (1 + exp_of(-a)))                                   \
    X(sign, sign_of(a))                                                \
    X(not, a == 0 ? 1.0 : 0.0)                                         \
    X(isnan, a != a ? 1.0 : 0.0)                                       \
    X(isinf, __builtin_fabs(a) == kInfinity<double> ? 1.0 : 0.0)       \
    X(js_term, js_term_of(a))                                          \
    X(js_slope, js_slope_of(a))                                        \
    X(erf, __builtin_erf(a))                                                \
    X(sin, __builtin_sin(a))                                                \
    X(cos, __builtin_cos(a))

#define KULLBACK_INSTRUCTIONS_2(X)                                     \
    X(add, a + b)                                                      \
    X(sub, a - b)                                                      \
    X(mul, a * b)                                                      \
    X(div, a / b)                                                      \
    X(maximum, larger_of(a, b))                                        \
    X(minimum, smaller_of(a, b))                                       \
    X(lt, a < b ? 1.0 : 0.0)                                           \
    X(le, a <= b ? 1.0 : 0.0)                                          \
    X(eq, a == b ? 1.0 : 0.0)                                          \
    X(and, a != 0 && b != 0 ? 1.0 : 0.0)                               \
    X(or, a != 0 || b != 0 ? 1.0 : 0.0)                                \
    X(pow, __builtin_pow(a, b))

#define KULLBACK_INSTRUCTIONS_3(X) X(where, a != 0 ? b : c)

}  // namespace kullback::KULLBACK_SET
