// The exported functions of the programs: what their instructions are called, and one way to run them.
#include <cstring>
#include <memory>
#include <vector>

#include "../abi.h"
#include "../dispatch.h"
#include "../memory.h"
#include "../parallel.h"
#include "program.h"

namespace kullback {
namespace {

constexpr int64_t kGrain = 4096;          // elements a thread takes at once
constexpr int64_t kParallelFrom = 16384;  // below, waking a second thread costs more than it saves
constexpr int64_t kHugeFrom = int64_t(8) << 20;  // bytes

// How many results and operands an instruction has; false if there is no such instruction.
bool shape_of(int32_t opcode, int32_t* results, int32_t* operands) {
    const InstructionSet& set = instruction_set();
    *results = 1;
    if (opcode >= kPairSlopeCodes) {
        if (opcode - kPairSlopeCodes >= *set.pair_count) return false;
        *results = set.pairs[opcode - kPairSlopeCodes].arity, *operands = *results + 1;
    } else if (opcode >= kPairCodes) {
        if (opcode - kPairCodes >= *set.pair_count) return false;
        *operands = set.pairs[opcode - kPairCodes].arity;
    } else if (opcode >= kElementwiseCodes) {
        if (opcode - kElementwiseCodes >= set.function_count) return false;
        *operands = set.functions[opcode - kElementwiseCodes].arity;
    } else {
        if (opcode < 0 || opcode >= set.programs->instruction_count) return false;
        *operands = set.programs->instructions[opcode].arity;
    }
    return true;
}

int32_t run_pair(const ProgramCall& call) {
    const InstructionSet& set = instruction_set();
    PairCall pair{call.program->pair, call.dtype, call.rows, call.columns, call.threads, call.outputs[0].data, {}, {}, {}};
    for (int i = 0; i < set.pairs[pair.function].arity; ++i) pair.inputs[i] = call.inputs[i];
    const PairKernel kernel = set.pairs[pair.function].forward[call.dtype];
    const int64_t count = call.rows * call.columns;
    parallel_for(count, kGrain, count < kParallelFrom ? 1 : static_cast<int32_t>(call.threads),
                 [&](int64_t begin, int64_t end) { kernel(pair, begin, end); });
    return 0;
}

}  // namespace
}  // namespace kullback

using namespace kullback;

// The opcode of an instruction of this name, or -1.
KULLBACK_API int32_t kullback_program_opcode(const char* name) {
    const ProgramKernels& kernels = *instruction_set().programs;
    for (int32_t i = 0; i < kernels.instruction_count; ++i) {
        if (std::strcmp(kernels.instructions[i].name, name) == 0) return i;
    }
    return -1;
}

// 0 if the program reads and writes nothing but its registers, each after it was written; else 1. Asked once per program.
KULLBACK_API int32_t kullback_program_check(const Program* program) {
    const auto within = [](int64_t x, int64_t low, int64_t high) { return x >= low && x <= high; };
    if (program == nullptr || !within(program->input_count, 0, kProgramInputs) || program->constant_count < 0 ||
        !within(program->output_count, 1, kProgramOutputs) || program->word_count < 0) {
        return 1;
    }
    const int64_t known = program->input_count + program->constant_count, registers = program->register_count;
    if (registers < known || program->pair >= *instruction_set().pair_count) return 1;
    std::vector<bool> written(static_cast<size_t>(registers), false);
    for (int64_t i = 0; i < known; ++i) written[size_t(i)] = true;
    const int32_t *word = program->words(), *end = word + program->word_count;
    while (word < end) {
        int32_t results, operands;
        if (end - word < 3 || !shape_of(word[0], &results, &operands)) return 1;
        if (word[1] != results || word[2] != operands || end - word < 3 + results + operands) return 1;
        word += 3;
        const int32_t* const result = word;
        for (const int32_t* operand = word + results; operand < word + results + operands; ++operand) {
            if (!within(*operand, 0, registers - 1) || !written[size_t(*operand)]) return 1;
            for (int32_t i = 0; i < results; ++i) {
                if (result[i] == *operand) return 1;
            }
        }
        for (int32_t i = 0; i < results; ++i) {
            if (!within(result[i], known, registers - 1)) return 1;
            written[size_t(result[i])] = true;
        }
        word += results + operands;
    }
    for (int64_t k = 0; k < program->output_count; ++k) {
        if (!within(program->outputs[k], 0, registers - 1) || !written[size_t(program->outputs[k])]) return 1;
    }
    return 0;
}

// Returns 0, or 1 for a request that makes no sense. The program must have passed kullback_program_check.
KULLBACK_API int32_t kullback_program_run(const ProgramCall* call) {
    if (call == nullptr || call->program == nullptr || call->dtype < 0 || call->dtype > 1) return 1;
    const Program& program = *call->program;
    const int64_t count = call->rows * call->columns;
    if (call->rows < 0 || call->columns < 0) return 1;
    if (count == 0) return 0;
    for (int64_t i = 0; i < program.input_count; ++i) {
        if (call->inputs[i].data == nullptr) return 1;
    }
    const int64_t bytes = count * (call->dtype == 0 ? 8 : 4);
    for (int64_t k = 0; k < program.output_count && bytes >= kHugeFrom; ++k) {
        if (call->outputs[k].data != nullptr) advise_huge_pages(call->outputs[k].data, size_t(bytes * call->outputs[k].stride));
    }
    if (program.pair >= 0) return call->outputs[0].data == nullptr ? 1 : run_pair(*call);
    const auto kernel = instruction_set().programs->by_dtype[call->dtype];
    parallel_for(count, kGrain, count < kParallelFrom ? 1 : static_cast<int32_t>(call->threads), [&](int64_t begin, int64_t end) {
        // Not a vector: filling it with zeros would take longer than a small program does.
        const int64_t size = program.register_count * (program_stride(end - begin) + 1);
        const std::unique_ptr<double[]> scratch(new double[static_cast<size_t>(size)]);
        kernel(*call, begin, end, scratch.get());
    });
    return 0;
}
