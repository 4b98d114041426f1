// Drives the pair kernels with every function, dtype, layout and awkward count; built with sanitizers.
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <vector>

#include "dispatch.h"
#include "pairs/call.h"
#include "pairs/dirichlet_call.h"
#include "pairs/factors.h"
#include "pairs/program.h"

using namespace kullback;

extern "C" {
int32_t kullback_pair_forward(const PairCall*);
int32_t kullback_pair_backward(const PairCall*);
int32_t kullback_compare_factors(const FactorCall*);
int32_t kullback_compare_matrices(const MatrixCall*);
int32_t kullback_compare_low_rank(const LowRankCall*);
int32_t kullback_dirichlet_forward(const DirichletCall*);
int32_t kullback_dirichlet_backward(const DirichletCall*);
int32_t kullback_program_check(const Program*);
int32_t kullback_program_run(const ProgramCall*);
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
}

template <class T>
void run_factors(int64_t batch, int64_t size, int64_t threads) {
    std::vector<T> p = draw<T>(batch * size * size, 1), q = draw<T>(size * size, 2);
    const std::vector<double> shift = draw<double>(batch * size, 3);
    std::vector<double> w(size_t(batch * size * size)), y(size_t(batch * size));
    std::vector<double> parts(size_t(batch * (panels_of(size) + 1) * 3));
    for (int64_t i = 0; i < size; ++i) q[size_t(i * size + i)] = T(size);
    FactorCall call{sizeof(T) == 8 ? 0 : 1, batch, size, threads, p.data(), q.data(), size * size, 0,
                    shift.data(), w.data(), y.data(), parts.data()};
    expect(kullback_compare_factors(&call) == 0, "factors");
    for (double x : w) expect(std::isfinite(x), "W is finite");
    call.w = nullptr;
    expect(kullback_compare_factors(&call) == 0, "factors without W");
}

// Small matrices as given, by every kind; equal ones are refined, and one that is not positive definite is reported.
template <class T>
void run_matrices(int64_t batch, int64_t size, int64_t threads) {
    std::vector<T> p = draw<T>(batch * size * size, 1), q = draw<T>(batch * size * size, 2);
    const std::vector<double> shift = draw<double>(batch * size, 3);
    std::vector<double> value(static_cast<size_t>(batch));
    for (int64_t b = 0; b < batch; ++b) {
        for (int64_t i = 0; i < size; ++i) {
            const size_t at = size_t((b * size + i) * size + i);
            p[at] = T(2 * size), q[at] = T(3 * size);
        }
    }
    for (const int64_t kind : {kByFactors, kByCovariances, kByPrecisions}) {
        for (const T* other : {q.data(), p.data()}) {
            const MatrixCall call{sizeof(T) == 8 ? 0 : 1, batch, size, threads, p.data(), other, shift.data(), value.data(), kind, 0.01};
            expect(kullback_compare_matrices(&call) == 0, "matrices");
            for (double x : value) expect(x >= 0, "a divergence of Gaussians is not negative");
        }
    }
    p[size_t(batch * size * size - 1)] = T(-1);
    const MatrixCall call{sizeof(T) == 8 ? 0 : 1, batch, size, threads, p.data(), q.data(), shift.data(), value.data(), kByCovariances, 0.01};
    expect(kullback_compare_matrices(&call) == 2, "a matrix that is not positive definite");
}

template <class T>
void run_low_rank(int64_t batch, int64_t size, int64_t rank, int64_t threads) {
    std::vector<std::vector<T>> tensors;
    for (int side = 0; side < 2; ++side) {
        tensors.push_back(draw<T>(batch * size, side));
        tensors.push_back(draw<T>(batch * size * rank, 2 + side));
        tensors.push_back(draw<T>(batch * size, 4 + side));
    }
    std::vector<double> value(static_cast<size_t>(batch));
    for (const size_t other : {3, 0}) {
        const LowRankCall call{sizeof(T) == 8 ? 0 : 1, batch, size, rank, threads,
                               tensors[0].data(), tensors[1].data(), tensors[2].data(),
                               tensors[other].data(), tensors[other + 1].data(), tensors[other + 2].data(), value.data(), 0.01};
        expect(kullback_compare_low_rank(&call) == 0, "low rank");
        for (double x : value) expect(other == 0 ? x == 0 : x >= 0, "zero for equal laws, else not negative");
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

// A program of one instruction, whose operands are inputs and, last, a number; as Python packs it.
struct Packed {
    std::vector<int64_t> words;

    Packed(int32_t opcode, int32_t results, int32_t operands) {
        std::vector<int32_t> code{opcode, results, operands};
        for (int32_t i = 0; i < results; ++i) code.push_back(operands + i);
        for (int32_t i = 0; i < operands; ++i) code.push_back(i);
        const int64_t inputs = operands - 1;
        words.assign((sizeof(Program) + sizeof(double)) / 8 + (code.size() + 1) / 2, 0);
        Program* program = reinterpret_cast<Program*>(words.data());
        program->input_count = inputs, program->constant_count = 1, program->register_count = operands + results;
        program->word_count = int64_t(code.size()), program->output_count = results, program->pair = -1;
        for (int32_t i = 0; i < results; ++i) program->outputs[i] = operands + i;
        const double number = 0.5;
        std::memcpy(const_cast<double*>(program->constants()), &number, sizeof(number));
        std::memcpy(const_cast<int32_t*>(program->words()), code.data(), code.size() * sizeof(int32_t));
    }
    const Program* get() const { return reinterpret_cast<const Program*>(words.data()); }
};

template <class T>
void run_program(const Packed& packed, int64_t rows, int64_t columns, int64_t threads) {
    const int64_t count = rows * columns;
    std::vector<std::vector<T>> in, out;
    ProgramCall call{};
    call.program = packed.get(), call.dtype = sizeof(T) == 8 ? 0 : 1;
    call.rows = rows, call.columns = columns, call.threads = threads;
    const int64_t strides[][2] = {{0, 1}, {1, 0}, {columns, 1}, {1, rows}};
    for (int64_t i = 0; i < packed.get()->input_count; ++i) {
        in.push_back(draw<T>(count, int(i)));
        call.inputs[i] = {in.back().data(), strides[i % 4][0], strides[i % 4][1]};
    }
    for (int64_t i = 0; i < packed.get()->output_count; ++i) {
        out.emplace_back(size_t(2 * count));
        call.outputs[i] = {i == 1 ? nullptr : out.back().data(), i == 2 ? 2 : 1};
    }
    expect(kullback_program_run(&call) == 0, "program");
}

void run_programs() {
    const InstructionSet& set = instruction_set();
    std::vector<Packed> programs;
    for (int32_t i = 0; i < set.programs->instruction_count; ++i) {
        programs.emplace_back(i, 1, set.programs->instructions[i].arity);
    }
    for (int32_t i = 0; i < set.function_count; ++i) programs.emplace_back(kElementwiseCodes + i, 1, set.functions[i].arity);
    for (int32_t i = 0; i < *set.pair_count; ++i) {
        programs.emplace_back(kPairCodes + i, 1, set.pairs[i].arity);
        programs.emplace_back(kPairSlopeCodes + i, set.pairs[i].arity, set.pairs[i].arity + 1);
    }
    const int64_t shapes[][2] = {{1, 1}, {1, 255}, {3, 86}, {7, 5}, {200, 101}};
    for (const Packed& packed : programs) {
        expect(kullback_program_check(packed.get()) == 0, "a well formed program");
        for (const auto& shape : shapes) {
            run_program<double>(packed, shape[0], shape[1], 2);
            run_program<float>(packed, shape[0], shape[1], 2);
        }
    }
    Packed wrong(0, 1, 1);
    reinterpret_cast<Program*>(wrong.words.data())->outputs[0] = 9;
    expect(kullback_program_check(wrong.get()) == 1, "an output that is no register");
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
    for (const int64_t size : {1, 3, 4, 31, 32, 33, 67}) {
        run_factors<double>(3, size, 2);
        run_factors<float>(2, size, 1);
    }
    for (const int64_t size : {1, 2, 7, 8, 9, 32, 33, 64, 65, 96}) {
        run_matrices<double>(size < 60 ? 19 : 9, size, 2);
        run_matrices<float>(1, size, 1);
    }
    for (const int64_t size : {1, 4, 8, 31}) {
        for (const int64_t rank : {1, 2, 5, 16}) {
            run_low_rank<double>(3, size, rank, 2);
            run_low_rank<float>(40, size, rank, 2);
        }
    }
    for (const int64_t classes : {1, 2, 7, 8, 9, 1000}) {
        run_dirichlet<double>(30, classes, 2);
        run_dirichlet<float>(3, classes, 1);
    }
    run_programs();
    PairCall wrong{};
    wrong.function = functions;
    expect(kullback_pair_forward(&wrong) == 1 && kullback_pair_backward(nullptr) == 1, "refuses nonsense");
    std::printf("%s, %lld functions, %d failures\n", kullback_parallel_runtime(), static_cast<long long>(functions), failures);
    return failures != 0;
}
