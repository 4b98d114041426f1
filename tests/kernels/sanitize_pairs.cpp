// Drives the pair kernels with every function, dtype, layout and awkward count; built with sanitizers.
#include <array>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <vector>

#include "dispatch.h"
#include "pairs/call.h"
#include "pairs/dirichlet_call.h"

using namespace kullback;

extern "C" {
int32_t kullback_pair_forward(const PairCall*);
int32_t kullback_pair_backward(const PairCall*);
int32_t kullback_pair_together(const PairCall*);
int32_t kullback_dirichlet_forward(const DirichletCall*);
int32_t kullback_dirichlet_backward(const DirichletCall*);
const char* kullback_parallel_runtime();
}

namespace {

int failures = 0;

void expect(bool condition, const char* what) {
    if (!condition) ++failures, std::printf("failed: %s\n", what);
}

// Probabilities, some of them small: every family accepts them.
template <class T>
std::vector<T> draw(int64_t count, int seed) {
    std::vector<T> found(static_cast<size_t>(count));
    for (int64_t i = 0; i < count; ++i) found[size_t(i)] = T(double((i * 37 + seed * 11) % 97 + 1) / 98);
    return found;
}

template <class T>
void run_function(int64_t function, int64_t rows, int64_t columns, int64_t threads) {
    const int64_t count = rows * columns;
    std::vector<std::vector<T>> in, out;
    for (int i = 0; i < kPairArity; ++i) in.push_back(draw<T>(count, i)), out.emplace_back(size_t(2 * count));
    std::vector<T> value(static_cast<size_t>(count)), grad(1, T(1));
    PairCall call{};
    call.function = function, call.dtype = sizeof(T) == 8 ? 0 : 1;
    call.rows = rows, call.columns = columns, call.threads = threads;
    call.value = value.data();
    call.grad = {grad.data(), 0, 0};
    for (int i = 0; i < kPairArity; ++i) {
        // One operand repeats a row, one a column, one is contiguous, one is transposed.
        const int64_t strides[][2] = {{0, 1}, {1, 0}, {columns, 1}, {1, rows}};
        call.inputs[i] = {in[size_t(i)].data(), strides[i][0], strides[i][1]};
        call.gradients[i] = {i == 1 ? nullptr : out[size_t(i)].data(), i == 2 ? 2 : 1};
    }
    expect(kullback_pair_forward(&call) == 0, "forward");
    expect(kullback_pair_backward(&call) == 0, "backward");
    for (T x : value) expect(x >= 0, "a divergence is not negative");
    const std::vector<T> apart = value;
    int64_t lost = 0;
    call.lost = &lost;
    expect(kullback_pair_together(&call) == 0, "value and slopes in one pass");
    for (size_t i = 0; i < value.size(); ++i) {
        // Outside the support both are infinite, and their difference is NaN.
        const bool same = value[i] == apart[i] || std::fabs(value[i] - apart[i]) <= T(sizeof(T) == 8 ? 1e-13 : 1e-5) * apart[i];
        expect(same, "the same value in one pass");
    }
}

template <class T>
void run_dirichlet(int64_t rows, int64_t classes, int64_t threads) {
    std::vector<T> alpha = draw<T>(rows * classes, 1), beta = draw<T>(rows * classes, 2), grad(size_t(rows), T(1));
    std::vector<T> value(static_cast<size_t>(rows)), to_alpha(size_t(rows * classes)), to_beta(size_t(rows * classes));
    DirichletCall call{sizeof(T) == 8 ? 0 : 1, rows, classes, threads, alpha.data(), beta.data(),
                       value.data(), grad.data(), to_alpha.data(), to_beta.data()};
    expect(kullback_dirichlet_forward(&call) == 0, "Dirichlet forward");
    expect(kullback_dirichlet_backward(&call) == 0, "Dirichlet backward");
    for (T x : value) expect(x >= 0, "a divergence of Dirichlets is not negative");
    call.to_alpha = nullptr;
    expect(kullback_dirichlet_backward(&call) == 0, "one gradient only");
}

}  // namespace

int main() {
    const int64_t functions = *instruction_set().pair_count;
    const int64_t shapes[][2] = {{1, 1}, {1, 255}, {3, 86}, {1, 257}, {7, 5}, {200, 101}};
    for (int64_t f = 0; f < functions; ++f) {
        for (const auto& shape : shapes) {
            run_function<double>(f, shape[0], shape[1], 2);
            run_function<float>(f, shape[0], shape[1], 2);
        }
    }
    for (const int64_t classes : {1, 2, 7, 8, 9, 1000}) {
        run_dirichlet<double>(30, classes, 2);
        run_dirichlet<float>(3, classes, 1);
    }
    expect(kullback_pair_together(nullptr) == 1, "refuses nothing");
    PairCall wrong{};
    wrong.function = functions;
    expect(kullback_pair_forward(&wrong) == 1 && kullback_pair_backward(nullptr) == 1, "refuses nonsense");
    std::printf("%s, %lld functions, %d failures\n", kullback_parallel_runtime(), static_cast<long long>(functions), failures);
    return failures != 0;
}
