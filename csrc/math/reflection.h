// The sine and the cotangent of pi x with what rounding took from them, for the reflection of the polygamma functions
// (DLMF 5.5.4, 5.15.6): their poles are powers of 1/sin(pi x), which multiply every error of it.
#pragma once

#include <cmath>

#include "exact.h"

namespace kullback::KULLBACK_SET {

inline constexpr double kPi = 3.141592653589793, kPiLow = 1.2246467991473532e-16;
inline constexpr double kPiSquare = 9.869604401089358, kPiSquareLow = 6.265295508739711e-16;

// sin(pi t) and cos(pi t) for |t| <= 1/4: Taylor's series after its first term, which is exact here.
inline Pair sine_of_pi_times(double t) {
    constexpr double series[] = {-5.16771278004997,      2.5501640398773455,     -0.5992645293207921,     0.08214588661112823,
                                 -0.0073704309457143504, 0.00046630280576761255, -2.1915353447830217e-05, 7.952054001475513e-07};
    const double square = t * t;
    return plus(times(t, {kPi, kPiLow}), {t * square * horner(square, series), 0});
}

inline Pair cosine_of_pi_times(double t) {
    constexpr double series[] = {-4.934802200544679,    4.0587121264167685,    -1.3352627688545895,    0.2353306303588932,
                                 -0.02580689139001406,  0.0019295743094039231, -0.0001046381049248457, 4.303069587032947e-06};
    const double square = t * t;
    return two_sum(1, square * horner(square, series));
}

struct Reflection {
    Pair pole;         // (pi/sin(pi x))^2
    double cotangent;  // of pi x
};

// The integer part of x is removed exactly; beyond a quarter the complement to 1/2 keeps the zero of the cotangent exact.
inline Reflection reflect(double x) {
    const double part = x - std::nearbyint(x);
    const double complement = std::copysign(0.5 - std::fabs(part), part);
    const bool turned = std::fabs(part) > 0.25;
    const double t = turned ? complement : part;
    const Pair s = sine_of_pi_times(t), c = cosine_of_pi_times(t);
    const Pair sine = turned ? c : s, cosine = turned ? s : c;  // up to a common sign, that of the sine
    return {divided({kPiSquare, kPiSquareLow}, times(sine, sine)), rounded(divided(cosine, sine))};
}

}  // namespace kullback::KULLBACK_SET
