// Inputs of lab tests: different on each rank and element, exactly representable, as are their sums over all ranks. So
// results are compared with ==, and a wrong sum can be read: it says which ranks it lacks or counts twice.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "common/runtime/run.hpp"

namespace lockstep::testing {

/// Element `element` of rank `rank`'s input, one of `ranks`: 4^rank + 65536 · (1 + element mod 31) with up to 8 ranks.
/// A sum of such values, written to base 4, shows how often it counts each rank. With --seed 1 + … is drawn for every
/// rank, and nobody can tell the sum from its own values.
float input_of(int rank, std::size_t element, int ranks);
/// Elements 0 … size − 1 of it.
std::vector<float> inputs_of(int rank, std::size_t size, int ranks);
/// The same as integers, for i32 slices.
std::vector<std::int32_t> integer_inputs_of(int rank, std::size_t size, int ranks);
/// What an all-reduce of all inputs must give at `element`.
double sum_of_inputs(std::size_t element, int ranks);

/// How a rank's result comes about: of a broadcast or a gather nobody says that something was added.
enum class Made { by_adding, by_copying };

/// What `value`, seen at `element` of `size`, is made of, in words: "the sum of ranks 0 and 1; ranks 2 and 3 are
/// missing", "rank 3's own input: nothing was added to it", "uninitialised memory".
std::string explain_sum(double value, std::size_t element, std::size_t size, int rank, int ranks,
                        Made made = Made::by_adding);

/// "0, 2 and 3".
std::string list_of(const std::vector<int>& numbers);

/// One rank's result against what it must be.
struct Expectation {
  std::function<double(int rank, std::size_t element)> value;
  /// Added in brackets to a wrong element's number: "chunk 2". May be empty.
  std::function<std::string(int rank, std::size_t element)> place;
  Made made = Made::by_adding;
};
/// The first element, over all ranks' first `size` values, that differs from what is expected, with what it is made of;
/// "" when all are equal.
std::string first_difference(const Outcome& outcome, std::size_t size, const Expectation& expected);
/// first_difference where every rank must hold the sum of all ranks' inputs.
std::string not_the_sum(const Outcome& outcome, std::size_t size,
                        const std::function<std::string(int, std::size_t)>& place = {});

}  // namespace lockstep::testing
