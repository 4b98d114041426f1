// Sums of recorded programs over counts: what src/kullback/pairs/counting.py does for a batch by torch's operations, element by
// element, over the counts that matter to each.
#pragma once

#include <cstdint>

#include "placed.h"

namespace kullback {

constexpr int64_t kSeriesResults = 5;

// The table holds one column per element: the largest count of p and of q, means of where the mass of p lies, as many deviations,
// the same of q, then whatever the programs read.
struct SeriesCall {
    Placed log_p, log_q;   // logarithms of probabilities; that of q only where its counts matter, too
    Placed terms, slopes;  // terms: value, what its roundings are relative to, and whether q lacks the count; slopes: or none
    const double* table;
    int64_t stride, marks_p, marks_q;
    const double* steps;  // from a mean, in deviations, where probabilities are looked at
    int64_t step_count;
    double negligible, head, longest;  // of a log-probability; counts from 0; the longest sum
    const int64_t* elements;           // null: the first `count`
    int64_t count, threads;
    double* results;  // value, size, noise, whether q lacks something, and 1 where there is no result, `count` of each
    double* slope_results;
};

}  // namespace kullback
