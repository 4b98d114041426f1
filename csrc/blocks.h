// Blocks of an operand, brought into a buffer in the precision a function computes in, or used in place.
#pragma once

#include <type_traits>

#include "elementwise.h"
#include "math/half.h"

namespace kullback::KULLBACK_SET {

constexpr int64_t kBlock = 256;
constexpr int64_t kBlockInPlace = 2048;  // without buffers: three operands of doubles fit the first-level cache

// Inlines the whole of a function into its loop: a call left over would keep it from vectorising.
#define KULLBACK_FLAT [[gnu::flatten]]

// Not std::min: an inline function of the standard library compiled here could be linked into other files.
inline int64_t smaller(int64_t a, int64_t b) { return a < b ? a : b; }

inline bool is_contiguous(const Operand& operand, int64_t columns) {
    return operand.column_stride == 1 && operand.row_stride == columns;
}

// Elements [begin, begin + count) of the flattened rows x columns view.
template <class S, class C>
const C* load_block(const Operand& operand, int64_t columns, int64_t begin, int64_t count, C* buffer) {
    const S* data = static_cast<const S*>(operand.data);
    const bool contiguous = is_contiguous(operand, columns);
    if constexpr (std::is_same_v<S, C>) {
        if (contiguous) return data + begin;
    }
    int64_t row = begin / columns, column = begin - row * columns, done = 0;
    if (contiguous) row = 0, column = begin, columns = begin + count;
    while (done < count) {
        const int64_t run = smaller(count - done, columns - column);
        const S* source = data + row * operand.row_stride + column * operand.column_stride;
        C* target = buffer + done;
        if (operand.column_stride == 1) {
            for (int64_t i = 0; i < run; ++i) target[i] = load<C>(source[i]);
        } else if (operand.column_stride == 0) {
            for (int64_t i = 0; i < run; ++i) target[i] = load<C>(*source);
        } else {
            for (int64_t i = 0; i < run; ++i) target[i] = load<C>(source[i * operand.column_stride]);
        }
        done += run, column = 0, ++row;
    }
    return buffer;
}

}  // namespace kullback::KULLBACK_SET
