// Numbers that ranks saw, in loops that a test's -O0 makes slow. These are compiled with optimisation.
#pragma once

#include <cstddef>
#include <span>

#include "common/runtime/run.hpp"

namespace lockstep::testing {

/// Appends the elements of `data` to what a rank saw, as to_host returns them.
void append(Rank me, const Slice& data, Values& seen);

/// Returns the largest absolute value; 0 of none.
double largest(std::span<const double> values);

/// Returns the index of the first value that is not within `tolerance` of the exact one, or the size. A NaN is not.
std::size_t first_unlike(std::span<const double> values, std::span<const double> exact, double tolerance);

}  // namespace lockstep::testing
