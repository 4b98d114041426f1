// Runs the row kernels over odd sizes, unaligned and strided rows, masks and several thread counts; built with sanitizers.
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <limits>
#include <vector>

#include "rows/call.h"

extern "C" {
int64_t kullback_rows_forward(const kullback::RowsCall*);
int64_t kullback_rows_backward(const kullback::RowsCall*);
const char* kullback_parallel_runtime();
}

namespace {

using Bytes = std::vector<char>;
constexpr int64_t kElement[] = {8, 4, 2, 2};

void write(Bytes& to, int64_t index, int64_t dtype, double value) {
    const float narrow = float(value);
    uint32_t bits;
    std::memcpy(&bits, &narrow, 4);
    const uint16_t half = uint16_t(bits >> 16);
    char* at = to.data() + index * kElement[dtype];
    if (dtype == 0) std::memcpy(at, &value, 8);
    else if (dtype == 1) std::memcpy(at, &narrow, 4);
    else std::memcpy(at, &half, 2);
}

}  // namespace

int main() {
    int failures = 0, calls = 0;
    // Functions 0 to 3 (rows/call.h), and 4: cross-entropy of a side with itself. Mixes: which sides hold weights, of which p is
    // smoothed.
    for (int64_t kind = 0; kind < 20; ++kind) {
        const int64_t dtype = kind % 4, function = kind / 4;
        const bool one_sided = function >= 3;
        for (int64_t mix : {0, 1, 2, 3}) {
            if (one_sided && (mix == 1 || mix == 2)) continue;
            for (int64_t classes : {1, 7, 16, 63, 64, 65, 1000, 1024, 1500}) {
                for (int64_t stride : {1, 2}) {
                    const int64_t rows = 5, count = rows * classes * stride + 1;
                    Bytes p(size_t(count * kElement[dtype])), q(p.size());
                    for (int64_t i = 0; i < count; ++i) {
                        const int64_t row = i / (classes * stride);
                        // Near, far, with an excluded class, huge, equal: every path through a row.
                        double a = 0.1 * double(i % 97) - 3;
                        double b = a + (row == 4 ? 0 : row == 0 ? 1e-3 : 0.05) * double(i % 5);
                        if (row == 2 && i % 11 == 3) a = -std::numeric_limits<double>::infinity();
                        if (mix == 0 && row == 3) a *= 1e6, b *= 1e6;
                        write(p, i, dtype, mix & 1 ? std::exp(a) : a), write(q, i, dtype, mix & 2 ? std::exp(b) : b);
                    }
                    Bytes first[3];
                    for (int64_t threads : {1, 2, 8}) {
                        // Exactly as long as promised: one byte further is an error.
                        Bytes value(size_t(rows * 8)), grads[2];
                        std::vector<kullback::RowStatistics> statistics(static_cast<size_t>(rows));
                        std::vector<double> grad(size_t(rows), 0.5);
                        grad[1] = 0;
                        const uint8_t keep[] = {1, 1, 1, 1, 0};
                        kullback::RowsCall call{};
                        call.rows = rows, call.classes = classes, call.threads = threads;
                        // Narrow rows in double too, and weights with the logarithms that only doubles need.
                        call.wide = dtype == 0 || threads == 8, call.result_wide = 1;
                        call.keep = threads == 8 ? nullptr : keep;
                        call.statistics = statistics.data(), call.value = value.data(), call.grad = grad.data(), call.grad_stride = 1;
                        for (int side = 0; side < 2; ++side) {
                            grads[side].resize(size_t(rows * classes * kElement[dtype]));
                            // One element of offset: aligned to the element, not to a vector.
                            call.data[side] = (side && !one_sided ? q : p).data() + kElement[dtype];
                            call.gradient[side] = side && one_sided ? nullptr : grads[side].data();
                            const int64_t linear = (one_sided ? mix : mix >> side) & 1;
                            call.sides[side] = {classes * stride, stride, dtype, linear, linear && !side ? 0.25 : 0.0,
                                                std::numeric_limits<double>::infinity()};
                        }
                        if (one_sided) call.sides[1] = call.sides[0];
                        call.function = function == 4 ? 2 : function, call.share = 0.3, call.weights[0] = 1, call.weights[1] = 0.5;
                        // Without a backward pass to come, mixtures and weights take other routes.
                        call.statistics = nullptr;
                        failures += kullback_rows_forward(&call) < 0;
                        call.statistics = statistics.data();
                        failures += kullback_rows_forward(&call) < 0;
                        failures += kullback_rows_backward(&call) != 0;
                        std::vector<uint8_t> written(static_cast<size_t>(rows));
                        call.written = written.data();
                        const bool may_begin = function == 0 && mix == 0 && dtype == 1 && !call.wide && stride == 1;
                        if (may_begin) failures += kullback_rows_forward(&call) < 0 || kullback_rows_backward(&call) != 0;
                        call.written = nullptr;
                        for (int side = 0; side < 2 && !one_sided; ++side) {
                            kullback::RowsCall part = call;
                            part.gradient[side] = nullptr;
                            failures += kullback_rows_backward(&part) != 0, ++calls;
                        }
                        if (threads == 1) first[0] = value, first[1] = grads[0], first[2] = grads[1];
                        if (threads == 2) failures += first[0] != value || first[1] != grads[0] || first[2] != grads[1];
                        calls += 3;
                    }
                }
            }
        }
    }
    std::printf("%d calls, %d failures, threads by %s\n", calls, failures, kullback_parallel_runtime());
    return failures != 0 || calls == 0;
}
