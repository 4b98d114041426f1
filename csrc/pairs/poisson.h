// KL(Poisson || Poisson) = lambda_p log(lambda_p/lambda_q) - lambda_p + lambda_q, the generalised divergence of the rates.
#pragma once

#include "../math/entropy.h"

namespace kullback::KULLBACK_SET {

struct Poisson {
    using Single = float;
    static constexpr int kArity = 2;

    template <class T>
    static T value(const T (&x)[2]) {
        return kl_div_of(x[0], x[1]);
    }

    template <class T>
    static void slopes(const T (&x)[2], T (&d)[2]) {
        d[0] = kl_div_slope_p(x[0], x[1]);
        d[1] = kl_div_slope_q(x[0], x[1]);
    }
};

}  // namespace kullback::KULLBACK_SET
