// A row as a sequence of blocks of log-weights in the computing precision, whatever it is stored as.
#pragma once

#include "../math/half.h"
#include "../math/log_low.h"
#include "call.h"
#include "lanes.h"

namespace kullback::KULLBACK_SET {

inline constexpr int64_t kBlock = 1024;  // elements: both sides of a block stay in the first-level cache

template <class T>
inline constexpr int64_t kGroup = 4 * Lanes<T>::kCount;  // vectors that are in flight at once

template <class T>
inline int64_t rounded_up(int64_t count) {
    return (count + kGroup<T> - 1) / kGroup<T> * kGroup<T>;
}

template <class T>
using Fetch = void (*)(const void* row, int64_t at, int64_t stride, int64_t count, double offset, T* target);

// offset: what is taken from a logarithm, or added to a weight.
template <class S, class T, bool kLinear>
void fetch(const void* row, int64_t at, int64_t stride, int64_t count, double offset, T* __restrict target) {
    const S* __restrict source = static_cast<const S*>(row) + at * stride;
    const T moved = T(offset);
    if (stride == 1) {
        for (int64_t i = 0; i < count; ++i) {
            if constexpr (kLinear) target[i] = log_of(load<T>(source[i]) + moved);
            else target[i] = load<T>(source[i]) - moved;
        }
    } else {
        for (int64_t i = 0; i < count; ++i) {
            if constexpr (kLinear) target[i] = log_of(load<T>(source[i * stride]) + moved);
            else target[i] = load<T>(source[i * stride]) - moved;
        }
    }
}

template <class T, bool kLinear>
inline constexpr Fetch<T> kFetchers[] = {fetch<double, T, kLinear>, fetch<float, T, kLinear>, fetch<Float16, T, kLinear>,
                                         fetch<Bfloat16, T, kLinear>};

using FetchLow = void (*)(const void* row, int64_t at, int64_t stride, int64_t count, double smoothing, double sign, double* low);

// Adds to `low`, times `sign`, what the rounded logarithms of weights miss.
template <class S>
void fetch_low(const void* row, int64_t at, int64_t stride, int64_t count, double smoothing, double sign, double* __restrict low) {
    const S* __restrict source = static_cast<const S*>(row) + at * stride;
    for (int64_t i = 0; i < count; ++i) {
        const double weight = load<double>(source[i * stride]);
        double sum = weight, rounded = 0;
        add_exactly(sum, smoothing, rounded);
        const double missing = log_missing(sum, log_of(sum)) + rounded / sum;
        low[i] += sum > 0 ? sign * missing : 0.0;
    }
}

inline constexpr FetchLow kLowFetchers[] = {fetch_low<double>, fetch_low<float>, fetch_low<Float16>, fetch_low<Bfloat16>};

inline int64_t element_size(int64_t dtype) { return dtype == 0 ? 8 : dtype == 1 ? 4 : 2; }

// Whether a side of weights is handed out as their logarithms or as it is. Exact logarithms, with what rounding took from them, are
// for rows of doubles that are nearly equal.
enum class Weights { kAsLogs, kAsExactLogs, kAsTheyAre };

// Reads one side, a row at a time; `first` is where the row begins.
template <class T>
class Reader {
  public:
    Reader(const RowsSide& side, const void* data, int64_t first, double shift, Weights weights)
        : data_(static_cast<const char*>(data)), size_(element_size(side.dtype)), stride_(side.class_stride) {
        turn_to(first);
        const bool take_logs = side.linear && weights != Weights::kAsTheyAre;
        low_ = side.linear && weights == Weights::kAsExactLogs ? kLowFetchers[side.dtype] : nullptr;
        offset_ = take_logs ? side.smoothing : side.linear ? -side.smoothing : shift;
        fetch_ = take_logs ? kFetchers<T, true>[side.dtype] : kFetchers<T, false>[side.dtype];
        in_place_ = !take_logs && stride_ == 1 && offset_ == 0.0 && element_size(side.dtype) == int64_t(sizeof(T));
    }

    void turn_to(int64_t first) { row_ = data_ + first * size_; }

    // Elements [at, at + count), followed by `padding` up to a whole group.
    [[gnu::always_inline]] const T* block(int64_t at, int64_t count, T padding, T* buffer) const {
        const int64_t padded = rounded_up<T>(count);
        if (in_place_ && padded == count) return reinterpret_cast<const T*>(row_) + at;
        fetch_(row_, at, stride_, count, offset_, buffer);
        for (int64_t i = count; i < padded; ++i) buffer[i] = padding;
        return buffer;
    }

    bool has_low() const { return low_ != nullptr; }
    void add_low(int64_t at, int64_t count, double sign, double* low) const {
        if (low_ != nullptr) low_(row_, at, stride_, count, offset_, sign, low);
    }

  private:
    const char *data_, *row_;
    int64_t size_, stride_;
    FetchLow low_;
    double offset_;
    Fetch<T> fetch_;
    bool in_place_;
};

// Both sides of a row. work(a, b, count, at): `count` elements from `at`, padded to whole groups with classes that
// have no weight on either side. each_exact_block: work(a, b, count, at, low), b - a misses `low` (null: nothing).
template <class T>
class RowPair {
  public:
    RowPair(const RowsCall& call, int64_t first_p, int64_t first_q, const double (&shift)[2],
            Weights weights = Weights::kAsLogs)
        : p_(call.sides[0], call.data[0], first_p, shift[0], weights),
          q_(call.sides[1], call.data[1], first_q, shift[1], weights),
          classes_(call.classes) {}

    template <bool kHasMask, class Work>
    void each_exact_block(Work&& work) const {
        if constexpr (sizeof(T) == 8) {
            if (p_.has_low() || q_.has_low()) {
                alignas(64) double low[kBlock];
                each_block<kHasMask>([&](const T* a, const T* b, int64_t count, int64_t at) {
                    for (int64_t i = 0; i < rounded_up<T>(count); ++i) low[i] = 0;
                    p_.add_low(at, count, -1, low), q_.add_low(at, count, 1, low);
                    work(a, b, count, at, low);
                });
                return;
            }
        }
        each_block<kHasMask>(
            [&](const T* a, const T* b, int64_t count, int64_t at) { work(a, b, count, at, static_cast<const T*>(nullptr)); });
    }

    // kLinearP, kLinearQ: which sides are handed out as weights.
    template <bool kHasMask, bool kLinearP = false, bool kLinearQ = false, class Work>
    void each_block(Work&& work) const {
        alignas(64) T buffers[2][kBlock];
        constexpr T kNothing = kHasMask ? -kInfinity<T> : T(-1e30);
        // A q of zero makes a pass without masks fail.
        constexpr T kNothingOfP = kLinearP ? T(0) : kNothing;
        constexpr T kNothingOfQ = !kLinearQ ? kNothing : kHasMask ? T(0) : Format<T>::kSmallestNormal;
        for (int64_t at = 0, count; at < classes_; at += count) {
            const int64_t left = classes_ - at, whole = left / kGroup<T> * kGroup<T>;
            // Whole groups can be read where they are; only what is left of them needs padding.
            count = left >= kBlock ? kBlock : whole > 0 ? whole : left;
            work(p_.block(at, count, kNothingOfP, buffers[0]), q_.block(at, count, kNothingOfQ, buffers[1]), count, at);
        }
    }

  private:
    Reader<T> p_, q_;
    int64_t classes_;
};

}  // namespace kullback::KULLBACK_SET
