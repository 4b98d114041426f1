// Programs for one instruction set; CMake compiles this file once per set.
#include "program.h"

#include "../blocks.h"
#include "instructions.h"

namespace kullback::KULLBACK_SET {

extern const InstructionSet kSet;

namespace {

// Registers of one instruction never overlap: a result has its register to itself while the operands live.
#define KULLBACK_LOOP_1(name, expression)                                                  \
    KULLBACK_FLAT void run_##name(const double* const* in, double* __restrict out, int64_t n) { \
        const double* __restrict x = in[0];                                                \
        for (int64_t i = 0; i < n; ++i) {                                                  \
            const double a = x[i];                                                         \
            out[i] = expression;                                                           \
        }                                                                                  \
    }
#define KULLBACK_LOOP_2(name, expression)                                                  \
    KULLBACK_FLAT void run_##name(const double* const* in, double* __restrict out, int64_t n) { \
        const double *__restrict x = in[0], *__restrict y = in[1];                         \
        for (int64_t i = 0; i < n; ++i) {                                                  \
            const double a = x[i], b = y[i];                                               \
            out[i] = expression;                                                           \
        }                                                                                  \
    }
#define KULLBACK_LOOP_3(name, expression)                                                  \
    KULLBACK_FLAT void run_##name(const double* const* in, double* __restrict out, int64_t n) { \
        const double *__restrict x = in[0], *__restrict y = in[1], *__restrict z = in[2];  \
        for (int64_t i = 0; i < n; ++i) {                                                  \
            const double a = x[i], b = y[i], c = z[i];                                     \
            out[i] = expression;                                                           \
        }                                                                                  \
    }
KULLBACK_INSTRUCTIONS_1(KULLBACK_LOOP_1)
KULLBACK_INSTRUCTIONS_2(KULLBACK_LOOP_2)
KULLBACK_INSTRUCTIONS_3(KULLBACK_LOOP_3)

#define KULLBACK_ENTRY_1(name, expression) {#name, 1, run_##name},
#define KULLBACK_ENTRY_2(name, expression) {#name, 2, run_##name},
#define KULLBACK_ENTRY_3(name, expression) {#name, 3, run_##name},
constexpr Instruction kInstructions[] = {KULLBACK_INSTRUCTIONS_1(KULLBACK_ENTRY_1) KULLBACK_INSTRUCTIONS_2(KULLBACK_ENTRY_2)
                                             KULLBACK_INSTRUCTIONS_3(KULLBACK_ENTRY_3)};

void call_elementwise(int32_t function, const double* const* in, double* out, int64_t n) {
    ElementwiseCall call{1, n, {}, out};
    for (int i = 0; i < kSet.functions[function].arity; ++i) call.inputs[i] = {in[i], n, 1};
    kSet.functions[function].by_dtype[0](call, 0, n);
}

void call_pair(int32_t function, const double* const* in, double* out, int64_t n) {
    PairCall call{};
    call.rows = 1, call.columns = n, call.value = out;
    for (int i = 0; i < kSet.pairs[function].arity; ++i) call.inputs[i] = {in[i], n, 1};
    kSet.pairs[function].forward[0](call, 0, n);
}

// The incoming gradient is the first operand.
void call_pair_slopes(int32_t function, const double* const* in, double* const* out, int64_t n) {
    PairCall call{};
    call.rows = 1, call.columns = n, call.grad = {in[0], n, 1};
    for (int i = 0; i < kSet.pairs[function].arity; ++i) {
        call.inputs[i] = {in[1 + i], n, 1}, call.gradients[i] = {out[i], 1};
    }
    kSet.pairs[function].backward[0](call, 0, n);
}

void run_instructions(const Program& program, double* const* registers, int64_t n) {
    const int32_t *word = program.words(), *end = word + program.word_count;
    while (word < end) {
        const int32_t opcode = word[0], results = word[1], operands = word[2];
        const double* in[kProgramInputs];
        double* out[kProgramOutputs];
        word += 3;
        for (int32_t i = 0; i < results; ++i) out[i] = registers[*word++];
        for (int32_t i = 0; i < operands; ++i) in[i] = registers[*word++];
        if (opcode >= kPairSlopeCodes) call_pair_slopes(opcode - kPairSlopeCodes, in, out, n);
        else if (opcode >= kPairCodes) call_pair(opcode - kPairCodes, in, out[0], n);
        else if (opcode >= kElementwiseCodes) call_elementwise(opcode - kElementwiseCodes, in, out[0], n);
        else kInstructions[opcode].run(in, out[0], n);
    }
}

// Inputs that are one number for all elements, as bits.
using Repeated = uint64_t;
static_assert(kProgramInputs <= 64, "a bit for each input");

// NaN for each element with a parameter that is no number, else 0, to be added to every output: a formula of cases may make
// a number of it. Returns whether there is one.
bool find_lost(const Program& program, const double* const* registers, Repeated repeated, double* lost, int64_t n) {
    bool found = false;
    for (int64_t k = 0; k < program.input_count; ++k) {
        const double* x = registers[k];
        const int64_t different = (repeated >> k & 1) != 0 ? 1 : n;
        for (int64_t i = 0; i < different; ++i) found |= x[i] != x[i];
    }
    if (!found) return false;
    for (int64_t i = 0; i < n; ++i) {
        lost[i] = 0;
        for (int64_t k = 0; k < program.input_count; ++k) lost[i] = registers[k][i] != registers[k][i] ? kNaN<double> : lost[i];
    }
    return true;
}

template <class S>
void run_program(const ProgramCall& call, int64_t begin, int64_t end, double* scratch) {
    const Program& program = *call.program;
    const int64_t stride = program_stride(end - begin), inputs = program.input_count;
    double** registers = reinterpret_cast<double**>(scratch);
    double* blocks = scratch + program.register_count;
    for (int64_t r = 0; r < program.register_count; ++r) registers[r] = blocks + r * stride;
    for (int64_t k = 0; k < program.constant_count; ++k) {
        for (int64_t i = 0; i < stride; ++i) registers[inputs + k][i] = program.constants()[k];
    }
    Repeated repeated = 0;
    for (int64_t k = 0; k < inputs; ++k) {
        if (call.inputs[k].row_stride != 0 || call.inputs[k].column_stride != 0) continue;
        const double number = load<double>(*static_cast<const S*>(call.inputs[k].data));
        for (int64_t i = 0; i < stride; ++i) registers[k][i] = number;
        repeated |= Repeated(1) << k;
    }
    for (int64_t at = begin; at < end; at += kProgramBlock) {
        const int64_t count = smaller(kProgramBlock, end - at);
        for (int64_t k = 0; k < inputs; ++k) {
            if ((repeated >> k & 1) != 0) continue;
            double* own = blocks + k * stride;
            // Doubles that lie contiguous are used where they are; a program never writes to its inputs.
            registers[k] = const_cast<double*>(load_block<S, double>(call.inputs[k], call.columns, at, count, own));
        }
        run_instructions(program, registers, count);
        alignas(64) double lost[kProgramBlock];
        const bool some_lost = find_lost(program, registers, repeated, lost, count);
        for (int64_t k = 0; k < program.output_count; ++k) {
            S* output = static_cast<S*>(call.outputs[k].data);
            if (output == nullptr) continue;
            const double* result = registers[program.outputs[k]];
            const int64_t step = call.outputs[k].stride;
            if (some_lost) {
                for (int64_t i = 0; i < count; ++i) output[(at + i) * step] = S(result[i] + lost[i]);
            } else if (step == 1) {
                for (int64_t i = 0; i < count; ++i) output[at + i] = S(result[i]);
            } else {
                for (int64_t i = 0; i < count; ++i) output[(at + i) * step] = S(result[i]);
            }
        }
    }
}

}  // namespace

extern const ProgramKernels kPrograms;
const ProgramKernels kPrograms = {
    kInstructions, int32_t(sizeof(kInstructions) / sizeof(kInstructions[0])), {run_program<double>, run_program<float>}};

}  // namespace kullback::KULLBACK_SET
