// A formula as a list of instructions on blocks of doubles, recorded from its torch form (src/kullback/kernels/recorder.py).
//
// A formula of a hundred elementwise operations costs a hundred calls of torch; as a program it costs one, and the blocks its
// instructions pass on stay in the cache. What an instruction computes is rounded once, as each torch operation is.
#pragma once

#include <cstdint>

#include "../abi.h"
#include "call.h"

namespace kullback {

constexpr int kProgramInputs = 40;
constexpr int kProgramOutputs = 40;

// As Python packs it: this head, then `constant_count` doubles, then the instructions as 32-bit words
//   opcode, number of results, number of operands, result registers..., operand registers...
// Registers 0 ... inputs-1 hold the inputs, the next ones the constants, the others what the instructions compute.
struct Program {
    int64_t input_count, constant_count, register_count, word_count, output_count;
    int64_t outputs[kProgramOutputs];  // the register of each output
    // Where the program is a single pair function of its inputs in order, the function (call.h), else -1.
    int64_t pair;

    const double* constants() const { return reinterpret_cast<const double*>(this + 1); }
    const int32_t* words() const { return reinterpret_cast<const int32_t*>(constants() + constant_count); }
};

struct ProgramCall {
    const Program* program;
    int64_t dtype, rows, columns, threads;
    Operand inputs[kProgramInputs];
    PairOutput outputs[kProgramOutputs];  // null data: not wanted
};

// Opcodes from here on are elementwise functions of the library, pair functions, and the derivatives of those.
constexpr int32_t kElementwiseCodes = 1000, kPairCodes = 2000, kPairSlopeCodes = 3000;

struct Instruction {
    const char* name;
    int32_t arity;
    void (*run)(const double* const* in, double* out, int64_t count);
};

struct ProgramKernels {
    const Instruction* instructions;
    int32_t instruction_count;
    // Elements [begin, end) of the flattened result, by dtype; `scratch` holds scratch_size() doubles.
    void (*by_dtype[2])(const ProgramCall&, int64_t begin, int64_t end, double* scratch);
};

// So short that the registers of most programs fit the first-level cache.
constexpr int64_t kProgramBlock = 128;

// Registers lie a cache line further apart than a block, so that they do not compete for the same lines of the cache.
inline int64_t program_stride(int64_t count) {
    const int64_t block = count < kProgramBlock ? count : kProgramBlock;
    return (block + 7) / 8 * 8 + 8;
}

}  // namespace kullback
