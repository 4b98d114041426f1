// A program whose inputs lie in a table with one column per element, run at the points of one element.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "../dispatch.h"
#include "program.h"

namespace kullback {

// The last two inputs are the points and the logarithms of their weights, the others rows of the table.
struct Placed {
    const Program* program;
    int64_t rows[kProgramInputs];
};

// One per thread; what it computes with serves the next call.
class PlacedRunner {
public:
    PlacedRunner(const double* table, int64_t stride) : table_(table), stride_(stride) {}

    double at(int64_t row, int64_t element) const { return table_[row * stride_ + element]; }

    // No weights: their logarithms are 0.
    void run(const Placed& placed, int64_t element, const double* points, const double* log_weights, int64_t count,
             double* const* outputs) {
        const Program& program = *placed.program;
        ProgramCall call{};
        call.program = &program, call.rows = 1, call.columns = count, call.threads = 1;
        const int64_t given = program.input_count - 2;
        for (int64_t i = 0; i < given; ++i) call.inputs[i] = {table_ + placed.rows[i] * stride_ + element, 0, 0};
        call.inputs[given] = {points, count, 1};
        static const double kNone = 0;
        if (log_weights == nullptr) call.inputs[given + 1] = {&kNone, 0, 0};
        else call.inputs[given + 1] = {log_weights, count, 1};
        for (int64_t k = 0; k < program.output_count; ++k) call.outputs[k] = {outputs[k], 1};
        const size_t size = size_t(program.register_count * (program_stride(count) + 1));
        if (scratch_.size() < size) scratch_.resize(size);
        instruction_set().programs->by_dtype[0](call, 0, count, scratch_.data());
    }

    // The sums of the first outputs of a program of derivatives; what they are sums of stays here until the next call.
    void sum(const Placed& placed, int64_t element, const double* points, const double* log_weights, int64_t count, int64_t wanted,
             double* results, int64_t step) {
        const int64_t outputs = placed.program->output_count;
        values_.resize(size_t(outputs * count));
        double* pointers[kProgramOutputs];
        for (int64_t k = 0; k < outputs; ++k) pointers[k] = values_.data() + k * count;
        if (count > 0) run(placed, element, points, log_weights, count, pointers);
        for (int64_t k = 0; k < wanted; ++k) {
            double total = 0;
            for (int64_t i = 0; i < count; ++i) total += pointers[k][i];
            results[k * step] = total;
        }
    }

    // What an output was at the points of the last sum.
    const double* summed(int64_t output, int64_t count) const { return values_.data() + output * count; }

private:
    const double* table_;
    int64_t stride_;
    std::vector<double> scratch_, values_;
};

}  // namespace kullback
