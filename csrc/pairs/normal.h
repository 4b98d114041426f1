// KL(Normal || Normal) = w^2/2 + [w - log(1 + w)] + (dmu/sigma_q)^2/2 with w = (sigma_p - sigma_q)/sigma_q.
//
// Every term is non-negative and second order near equality. The difference of the scales is exact there, so w is; the
// logarithm is taken of the ratio of the scales, which is never formed and so neither over- nor underflows.
//
// The slope in sigma_q is (sigma_q^2 - sigma_p^2 - dmu^2)/sigma_q^3. Whichever of sigma_p and |dmu| is larger may all but equal
// sigma_q, so that one's square is subtracted by the difference, |dmu| with the rounding error of its own.
#pragma once

#include "../math/exact.h"
#include "../math/log.h"

namespace kullback::KULLBACK_SET {

struct Normal {
    using Single = double;
    static constexpr int kArity = 4;

    static bool holds(const double (&x)[4]) { return x[1] >= 0 && x[3] >= 0; }

    static double value(const double (&x)[4]) {
        const double scale_p = x[1], scale_q = x[3];
        const double w = (scale_p - scale_q) / scale_q, shift = (x[0] - x[2]) / scale_q;
        const LogRatio l = split_log_ratio(scale_p, scale_q);
        // w - log(1+w) with log(1+w) = 2 atanh(s), s = w/(2+w): w - 2 s is exactly w s.
        const double near = l.s * (w - 2 * (l.s * l.s) * l.remainder);
        const double gap = l.k == 0 ? near : w - log_of(l);
        const double sum = 0.5 * w * w + (gap + 0.5 * shift * shift);
        return scale_p == 0 ? kInfinity<double> : sum;
    }

    static void slopes(const double (&x)[4], double (&d)[4]) {
        const double scale_p = x[1], scale_q = x[3];
        const double inverse = 1 / scale_q;
        const Pair difference = two_difference(x[0], x[2]);
        const double w = (scale_p - scale_q) * inverse, shift = difference.high * inverse;
        const double distance = magnitude(difference.high), rest = difference.high < 0 ? -difference.low : difference.low;
        const bool apart = distance > scale_p;
        const double gap = apart ? ((distance - scale_q) + rest) * inverse : w, other = apart ? scale_p * inverse : shift;
        d[0] = shift * inverse;
        d[2] = -d[0];
        d[1] = w * (2 + w) / scale_p;  // (sigma_p/sigma_q)^2 - 1
        d[3] = -(gap * (2 + gap) + other * other) * inverse;
    }
};

}  // namespace kullback::KULLBACK_SET
