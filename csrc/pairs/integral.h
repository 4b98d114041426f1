// Integrals of recorded programs over graded panels: what src/kullback/pairs/densities/expectation.py does for a batch by torch's
// operations, element by element. Nothing is kept of an element but its results, and each has as many panels as it needs.
#pragma once

#include <cstdint>

#include "placed.h"

namespace kullback {

constexpr int kOrder = 16, kTested = 8;  // nodes of a panel, and the Legendre coefficients that its error is told from
constexpr int64_t kIntegralResults = 5;

// The numbers of src/kullback/integrate, as Python hands them over.
struct IntegralRule {
    double nodes[kOrder], log_weights[kOrder], polynomials[kOrder][kTested];
    double outermost;                                    // the first weight
    double narrowest, negligible, fall, turned, turn, steepest;  // grading.py
    double length, fewest, most_panels;                  // of the first panels, in the stretched coordinate
    double enough, split, rounds;
    double near_count, far_count;
    double rungs[64];  // near ones, then far ones
};

// The table holds one column per element: places of marks, their widths, kinks, then whatever the programs read.
struct IntegralCall {
    const IntegralRule* rule;
    Placed size, plain, careful, slopes;  // slopes: derivatives of the integrand by what they are wanted of, or none
    const double* table;
    int64_t stride, marks, kinks, jumps;  // at the last kinks the integrand jumps: see below
    const int64_t* elements;              // null: the first `count`
    int64_t count, follow_q, crossings, plain_first, threads;
    double* results;  // value, size, error, noise, state (see below), `count` of each
    double* slope_results;
};

// Kinks move with parameters, and the integral with them where the integrand f jumps, by f(y-) - f(y+) for each unit. Where there
// are jumps, the last outputs of `slopes` are the derivative of f by its place and f itself, and the last rows of `slope_results`
// these differences, one for each jump, instead of the integrals of the two.
//
// With `crossings` the integrand has kinks where the second output of `size` changes its sign; they are found and made edges.
//
// What an element may report beside its integral: the plain program held, the careful one was needed, or neither holds.
enum class IntegralState { plain = 0, careful = 1, unforeseen = 2 };

}  // namespace kullback
