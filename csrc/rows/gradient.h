// The gradient of KL(p || q) in one pass over a row.
//
//     d/da = -p (v + KL),    d/db = q - p;    per weight, where a side is linear: divided by p's or q's weight.
#pragma once

#include <cstring>

#include "kl.h"

namespace kullback::KULLBACK_SET {

template <class T>
using Put = void (*)(const T* source, int64_t count, void* row, int64_t at);

template <class T, class S>
void put(const T* __restrict source, int64_t count, void* row, int64_t at) {
    S* __restrict target = static_cast<S*>(row) + at;
    for (int64_t i = 0; i < count; ++i) store(source[i], target[i]);
}

template <class T>
inline constexpr Put<T> kPutters[] = {put<T, double>, put<T, float>, put<T, Float16>, put<T, Bfloat16>};

// The gradient of one side of one row, written block by block.
template <class T>
class Writer {
  public:
    Writer(const RowsSide& side, int64_t row, int64_t classes)
        : row_(side.gradient == nullptr ? nullptr
                                        : static_cast<char*>(side.gradient) + row * classes * element_size(side.dtype)),
          put_(kPutters<T>[side.dtype]),
          size_(element_size(side.dtype)) {}

    bool wanted() const { return row_ != nullptr; }

    // Where to compute a block of `count` elements, with room for a whole number of groups.
    T* block(int64_t at, int64_t count, T* buffer) const {
        const bool in_place = size_ == int64_t(sizeof(T)) && rounded_up<T>(count) == count;
        return in_place ? reinterpret_cast<T*>(row_) + at : buffer;
    }

    void finish(const T* block, int64_t at, int64_t count, const T* buffer) const {
        if (block == buffer) put_(block, count, row_, at);
    }

    void fill_zeros(int64_t classes) const { std::memset(row_, 0, size_t(classes * size_)); }

    void fill_nan(int64_t classes) const {
        for (int64_t i = 0; i < classes; ++i) put_(&kNaN<T>, 1, row_, i);
    }

  private:
    char* row_;
    Put<T> put_;
    int64_t size_;
};

// q - p as the larger of the two times 1 - e^-|v|: one exponential of a log-weight, nothing overflows or cancels.
template <class T>
inline Vector<T> to_log_weight(const Normalised<T>& is, Vector<T> a, Vector<T> b, Vector<T> v) {
    const Mask<T> q_larger = v > T(0);
    const Vector<T> scale = q_larger ? fill(is.scale_q) : fill(is.scale_p);
    const Vector<T> over = q_larger ? fill(-is.over_q) : fill(is.over_p);
    return scaled_exp<T>(q_larger ? b : a, scale) * over * expm1_below<T>(q_larger ? -v : v);
}

// (q - p)/q.
template <class T>
inline Vector<T> to_weight(const Normalised<T>& is, Vector<T> a, Vector<T> b, Vector<T> v) {
    const Mask<T> q_larger = v > T(0);
    const Vector<T> less_one = expm1_below<T>(q_larger ? -v : v);
    return q_larger ? -less_one : is.p(a) * less_one / is.q(b);
}

// One over the sum of a side's weights.
template <class T>
inline T one_over_sum(const RowStatistics& s, int side) {
    return T(std::ldexp(1 / s.total[side], -int(s.scale[side])));
}

template <class T, bool kHasMask, bool kToP, bool kToQ>
void gradient_row(const RowPair<T>& row, const RowStatistics& s, T grad, const Writer<T>& to_p, const Writer<T>& to_q,
                  bool p_linear, bool q_linear) {
    using V = Vector<T>;
    using M = Mask<T>;
    constexpr int kCount = Lanes<T>::kCount;
    const Normalised<T> is(s);
    const T kl = T(s.kl);
    const T per_p = one_over_sum<T>(s, 0), per_q = one_over_sum<T>(s, 1);
    alignas(64) T buffers[2][kBlock];
    row.template each_block<kHasMask>([&](const T* a, const T* b, int64_t count, int64_t at) {
        T* grad_p = kToP ? to_p.block(at, count, buffers[0]) : nullptr;
        T* grad_q = kToQ ? to_q.block(at, count, buffers[1]) : nullptr;
        const int64_t padded = rounded_up<T>(count);
        for (int64_t i = 0; i < padded; i += kGroup<T>) {
#pragma GCC unroll 4
            for (int64_t k = i; k < i + kGroup<T>; k += kCount) {
                const V x = load_lanes(a + k), y = load_lanes(b + k);
                V v = is.log_ratio(x, y);
                M in_p{}, in_q{};
                if constexpr (kHasMask) {
                    in_p = x > -kInfinity<T>, in_q = y > -kInfinity<T>;
                    v = in_p ? (in_q ? v : V{}) : fill(kInfinity<T>);
                }
                if constexpr (kToP) {
                    V g = (p_linear ? fill(per_p) : is.p(x)) * (v + kl) * -grad;
                    if constexpr (kHasMask) g = in_p ? g : V{};
                    store_lanes(g, grad_p + k);
                }
                if constexpr (kToQ) {
                    V g;
                    if (q_linear) g = to_weight(is, x, y, v) * (per_q * grad);
                    else g = to_log_weight(is, x, y, v) * grad;
                    if constexpr (kHasMask) g = in_q | (q_linear ? ~in_p : M{}) ? g : V{};
                    store_lanes(g, grad_q + k);
                }
            }
        }
        if constexpr (kToP) to_p.finish(grad_p, at, count, buffers[0]);
        if constexpr (kToQ) to_q.finish(grad_q, at, count, buffers[1]);
    });
}

}  // namespace kullback::KULLBACK_SET
