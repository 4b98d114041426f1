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
#include "pairs/integral.h"
#include "pairs/program.h"

using namespace kullback;

extern "C" {
int32_t kullback_pair_forward(const PairCall*);
int32_t kullback_pair_backward(const PairCall*);
int32_t kullback_pair_together(const PairCall*);
int32_t kullback_dirichlet_forward(const DirichletCall*);
int32_t kullback_dirichlet_backward(const DirichletCall*);
int32_t kullback_program_check(const Program*);
int32_t kullback_program_run(const ProgramCall*);
int32_t kullback_program_opcode(const char*);
int32_t kullback_integral_run(const IntegralCall*);
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
        expect(std::fabs(value[i] - apart[i]) <= T(sizeof(T) == 8 ? 1e-13 : 1e-5) * apart[i], "the same value in one pass");
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

// A program as Python packs it.
std::vector<int64_t> pack(int64_t inputs, int64_t registers, const std::vector<double>& constants,
                          const std::vector<int32_t>& code, const std::vector<int64_t>& outputs) {
    std::vector<int64_t> words(sizeof(Program) / 8 + constants.size() + (code.size() + 1) / 2, 0);
    Program* program = reinterpret_cast<Program*>(words.data());
    program->input_count = inputs, program->constant_count = int64_t(constants.size()), program->register_count = registers;
    program->word_count = int64_t(code.size()), program->output_count = int64_t(outputs.size()), program->pair = -1;
    for (size_t i = 0; i < outputs.size(); ++i) program->outputs[i] = outputs[i];
    std::memcpy(const_cast<double*>(program->constants()), constants.data(), constants.size() * sizeof(double));
    std::memcpy(const_cast<int32_t*>(program->words()), code.data(), code.size() * sizeof(int32_t));
    return words;
}

// A program of one instruction, whose operands are inputs and, last, a number; as Python packs it.
struct Packed {
    std::vector<int64_t> words;

    Packed(int32_t opcode, int32_t results, int32_t operands) {
        std::vector<int32_t> code{opcode, results, operands};
        for (int32_t i = 0; i < results; ++i) code.push_back(operands + i);
        for (int32_t i = 0; i < operands; ++i) code.push_back(i);
        std::vector<int64_t> outputs;
        for (int32_t i = 0; i < results; ++i) outputs.push_back(operands + i);
        words = pack(operands - 1, operands + results, {0.5}, code, outputs);
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

// P_n(2x - 1) and its derivative by x.
std::array<double, 2> legendre(int n, double x) {
    const double t = 2 * x - 1;
    double before = 1, here = t;
    for (int k = 1; k < n; ++k) {
        const double next = ((2 * k + 1) * t * here - k * before) / (k + 1);
        before = here, here = next;
    }
    return {here, 2 * n * (t * here - before) / (t * t - 1)};
}

IntegralRule make_rule() {
    IntegralRule rule{};
    for (int i = 0; i < kOrder; ++i) {
        double x = 0.5 - 0.5 * std::cos(3.141592653589793 * (i + 0.75) / (kOrder + 0.5));
        for (int turn = 0; turn < 8; ++turn) x -= legendre(kOrder, x)[0] / legendre(kOrder, x)[1];
        const double slope = legendre(kOrder, x)[1];
        rule.nodes[i] = x, rule.log_weights[i] = -std::log(x * (1 - x) * slope * slope);
        for (int k = 0; k < kTested; ++k) rule.polynomials[i][k] = (2 * (kOrder - kTested + k) + 1) * legendre(kOrder - kTested + k, x)[0];
    }
    rule.outermost = std::exp(rule.log_weights[0]);
    rule.narrowest = 1e-250, rule.negligible = 38, rule.fall = 12, rule.turned = 8, rule.turn = 2, rule.steepest = 6e4;
    rule.length = 1, rule.fewest = 2, rule.most_panels = 64;
    rule.enough = 1e-14, rule.split = 4, rule.rounds = 30;
    rule.near_count = 17, rule.far_count = 8;
    for (int k = 0; k < 17; ++k) rule.rungs[k] = (k - 8) / 8.0;
    for (int k = 0; k < 4; ++k) rule.rungs[17 + k] = -std::sinh(6.0 - 1.5 * k), rule.rungs[21 + k] = std::sinh(1.5 * (k + 1));
    return rule;
}

// Integrals of e^(-(y - m)^2/2), or with a corner e^-|y - m|, or with the sign of y - m, which jumps, and their slopes by m; the
// plain program fails below m if asked to.
struct Shape {
    bool corner, jump, plain_fails, told, crossings;
};

void run_integral(Shape shape, int64_t count, int64_t threads) {
    const auto [corner, jump, plain_fails, told, crossings] = shape;
    static const IntegralRule rule = make_rule();
    const auto op = [](const char* name) { return kullback_program_opcode(name); };
    // Registers: m, y, log weight, a constant, then y - m, its size, the logarithm, the term, a root, two products, and with the sign
    // the term and its derivatives by m and y.
    std::vector<int32_t> code{op("sub"), 1, 2, 4, 1, 0};
    if (corner) code.insert(code.end(), {op("abs"), 1, 1, 5, 4});
    else code.insert(code.end(), {op("mul"), 1, 2, 5, 4, 4});
    code.insert(code.end(), {op("mul"), 1, 2, 6, 5, 3, op("add"), 1, 2, 7, 6, 2, op("exp"), 1, 1, 8, 7, op("sqrt"), 1, 1, 9, 4});
    code.insert(code.end(), {op("mul"), 1, 2, 10, 9, 8, op("mul"), 1, 2, 11, 4, 8});
    code.insert(code.end(), {op("sign"), 1, 1, 12, 4, op("mul"), 1, 2, 13, 12, 8, op("mul"), 1, 2, 14, 12, 11, op("neg"), 1, 1, 15, 14});
    const std::vector<double> constants{corner ? -1.0 : -0.5};
    const int64_t term = jump ? 13 : 8;
    const std::vector<int64_t> size = pack(3, 16, constants, code, {6, 4}), careful = pack(3, 16, constants, code, {term, 8});
    const std::vector<int64_t> plain = pack(3, 16, constants, code, {plain_fails ? 10 : term, 8});
    const std::vector<int64_t> slopes = jump ? pack(3, 16, constants, code, {14, 15, 13}) : pack(3, 16, constants, code, {11});
    const auto placed = [](const std::vector<int64_t>& words) { return Placed{reinterpret_cast<const Program*>(words.data()), {5}}; };
    for (const auto* words : {&size, &careful, &plain, &slopes}) {
        expect(kullback_program_check(reinterpret_cast<const Program*>(words->data())) == 0, "the program of an integral");
    }
    // Two marks and their widths, a kink, and m.
    std::vector<double> table(size_t(6 * count)), results(size_t(kIntegralResults * count)), slope_results(static_cast<size_t>(2 * count));
    std::vector<int64_t> elements;
    for (int64_t i = 0; i < count; ++i) {
        const double m = i == count - 1 ? std::nan("") : double(i) / 7 - 2;
        const double column[] = {i == count - 1 ? 0 : m, 0, 1, 1, told ? m : 0.3, m};
        for (int64_t k = 0; k < 6; ++k) table[size_t(k * count + i)] = column[k];
        elements.push_back(count - 1 - i);
    }
    const IntegralCall call{&rule, placed(size), placed(plain), placed(careful), placed(slopes), table.data(), count, 2, 1, jump,
                            elements.data(), count, 1, crossings, 1, threads, results.data(), slope_results.data()};
    expect(kullback_integral_run(&call) == 0, "integral");
    expect(results[size_t(4 * count)] == double(IntegralState::unforeseen), "no integral at NaN");
    // The nodes of a panel do not see a corner next to its edge that nobody told of.
    const double tolerance = corner && !told && !crossings ? 1e-7 : 1e-10;
    for (int64_t i = 1; i < count; ++i) {
        const double truth = jump ? 0 : corner ? 2 : 2.5066282746310002, error = results[size_t(2 * count + i)];
        expect(std::fabs(results[size_t(i)] - truth) <= tolerance && error <= 1e-9, "the integral");
        // At m the term with the sign goes from -1 to 1: what is lost by the integral of slopes is what the jump adds.
        expect(std::fabs(slope_results[size_t(i)] - (jump ? 2 : 0)) <= tolerance, "its slope");
        expect(!jump || std::fabs(slope_results[size_t(count + i)] + 2) <= tolerance, "its jump");
        expect(results[size_t(4 * count + i)] == double(plain_fails ? IntegralState::careful : IntegralState::plain), "its state");
    }
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
    run_programs();
    for (const int64_t count : {2, 9, 67}) {
        for (const bool corner : {false, true}) {
            run_integral({corner, false, false, true, false}, count, 2);
            run_integral({corner, false, true, false, false}, count, 1);
            run_integral({corner, false, false, false, true}, count, 2);
        }
        run_integral({false, true, false, true, false}, count, 2);
    }
    expect(kullback_integral_run(nullptr) == 1 && kullback_pair_together(nullptr) == 1, "refuses nothing");
    PairCall wrong{};
    wrong.function = functions;
    expect(kullback_pair_forward(&wrong) == 1 && kullback_pair_backward(nullptr) == 1, "refuses nonsense");
    std::printf("%s, %lld functions, %d failures\n", kullback_parallel_runtime(), static_cast<long long>(functions), failures);
    return failures != 0;
}
