// Runs every function over odd sizes, unaligned and strided inputs and several thread counts; built with sanitizers.
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <limits>
#include <vector>

extern "C" {
int32_t kullback_abi_version();
const char* kullback_parallel_runtime();
int32_t kullback_function_index(const char*);
int32_t kullback_elementwise(int32_t, int32_t, int64_t, const void*, const void*, const void*, void*, int32_t,
                             const int64_t*);
}

int main() {
    const int64_t element[] = {8, 4, 2, 2};
    const double infinity = std::numeric_limits<double>::infinity();
    const double extremes[] = {infinity, -infinity, std::nan(""), 1e308, -1e308, 5e-324, -0.0, 1e-40};
    int failures = 0, calls = 0;
    for (int32_t function = 0;; ++function) {
        char probe[8] = {};
        if (kullback_elementwise(function, 0, 0, probe, probe, probe, probe, 1, nullptr) != 0) break;
        for (int32_t dtype = 0; dtype < 4; ++dtype) {
            for (int64_t n : {0, 1, 7, 8, 63, 1000, 40001}) {
                // One element of offset: aligned to the element, not to a vector.
                const int64_t bytes = (n + 1) * element[dtype];
                std::vector<std::vector<char>> in(3, std::vector<char>(static_cast<size_t>(bytes)));
                for (int i = 0; i < 3; ++i) {
                    for (int64_t j = 0; j <= n; ++j) {
                        const double ordinary = 0.01 * double(j % 701) * (i == 1 ? 1.5 : 1) - (j % 5 == 4 ? 3.0 : 0.0);
                        const double d = (j + i) % 31 == 30 ? extremes[(j / 31) % 8] : ordinary;
                        const float f = float(d);
                        uint32_t bits;
                        std::memcpy(&bits, &f, 4);
                        const uint16_t half = uint16_t(bits >> 16);
                        char* at = in[size_t(i)].data() + j * element[dtype];
                        if (dtype == 0) std::memcpy(at, &d, 8);
                        else if (dtype == 1) std::memcpy(at, &f, 4);
                        else std::memcpy(at, &half, 2);
                    }
                }
                std::vector<char> first;
                for (int32_t threads : {1, 2, 8}) {
                    std::vector<char> out(static_cast<size_t>(bytes));
                    const int64_t skip = element[dtype];
                    failures += kullback_elementwise(function, dtype, n, in[0].data() + skip, in[1].data() + skip,
                                                     in[2].data() + skip, out.data() + skip, threads, nullptr);
                    if (threads == 1) first = out;
                    failures += first != out;
                    ++calls;
                }
                if (n >= 8 && n % 8 == 0) {  // transposed, repeated and every second element
                    const int64_t rows = n / 8 / 2 ? n / 8 / 2 : 1, columns = 4;
                    const int64_t layout[] = {rows, columns, 1, rows, 0, 1, 8, 2};
                    std::vector<char> out(static_cast<size_t>(rows * columns * element[dtype]));
                    failures += kullback_elementwise(function, dtype, rows * columns, in[0].data(), in[1].data(),
                                                     in[2].data(), out.data(), 2, layout);
                    ++calls;
                }
            }
        }
    }
    std::printf("%d calls, %d failures, threads by %s\n", calls, failures, kullback_parallel_runtime());
    return failures != 0 || calls == 0;
}
