// Inputs of lab tests: different on each rank and element, exactly representable, and with exactly representable sums
// over all ranks. So results are compared with ==, and a wrong sum shows which ranks it lacks or counts twice.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "common/runtime/run.hpp"

namespace lockstep::testing {

/// Returns element `element` of the input of rank `rank`, one of `ranks`: 4^rank + 65536 · (1 + element mod 31) with up
/// to 8 ranks. A sum of such values in base 4 shows how often it counts each rank. With --seed, 1 + … is drawn for
/// every rank, so that no rank can derive the sum from its own values.
float input_of(int rank, std::size_t element, int ranks);
/// Returns elements 0 … size − 1 of it.
std::vector<float> inputs_of(int rank, std::size_t size, int ranks);
/// Returns the same as integers, for i32 slices.
std::vector<std::int32_t> integer_inputs_of(int rank, std::size_t size, int ranks);
/// Returns the result of an all-reduce of all inputs at `element`.
double sum_of_inputs(std::size_t element, int ranks);

/// The operation that makes a rank's result. For a broadcast or a gather, messages do not mention additions.
enum class Made { by_adding, by_copying };

/// Describes the contents of `value`, seen at `element` of `size`: "the sum of ranks 0 and 1; ranks 2 and 3 are
/// missing", "rank 3's own input: nothing was added to it", "uninitialised memory".
std::string explain_sum(double value, std::size_t element, std::size_t size, int rank, int ranks,
                        Made made = Made::by_adding);

/// Returns "0, 2 and 3".
std::string list_of(const std::vector<int>& numbers);

/// The expected result of a rank.
struct Expectation {
  std::function<double(int rank, std::size_t element)> value;
  /// Text in brackets after a wrong element's index: "chunk 2". May be empty.
  std::function<std::string(int rank, std::size_t element)> place;
  Made made = Made::by_adding;
};
/// Finds the first element, in all ranks' first `size` values, that differs from the expectation, and describes its
/// contents; "" if all are equal.
std::string first_difference(const Outcome& outcome, std::size_t size, const Expectation& expected);
/// first_difference for results in which every rank must hold the sum of all ranks' inputs.
std::string not_the_sum(const Outcome& outcome, std::size_t size,
                        const std::function<std::string(int, std::size_t)>& place = {});

}  // namespace lockstep::testing
