// A model for tests of data parallelism whose gradients are given by a formula instead of computed: small integers that
// differ by rank, window, pass and element, so that averages are exact and a wrong one can be interpreted.
#pragma once

#include <functional>
#include <string>

#include "common/gpt/model/parameters.hpp"
#include "common/rank.hpp"

namespace lockstep::testing {

/// `tensors` parameters "layer0" … of 1 to 13 elements each. Values differ on every rank; gradients are unwritten.
Parameters scripted_parameters(Rank me, std::size_t tensors);

/// Returns the value that one backward pass adds to one element of the flat gradient.
float scripted_gradient(int rank, int window, int pass, std::size_t element);

/// Adds rank `rank`'s gradient of parameter `index` in that pass.
void add_scripted_gradient(Rank me, const Parameters& parameters, std::size_t index, int rank, int window, int pass);

/// Returns true if `rank` uses parameter `index` in pass `pass` of window `window`.
using Uses = std::function<bool(int rank, int window, int pass, std::size_t index)>;

/// The results of a window of passes, to be judged after the run.
struct ScriptedWindow {
  int ranks = 1;
  int window = 0;
  int passes = 1;
  Uses uses;  // empty: every rank uses every parameter

  /// This rank's own gradient of one element, from passes [first, passes).
  double own(int rank, std::size_t index, std::size_t element, int first = 0) const;
  double sum(std::size_t index, std::size_t element, int first = 0) const;
  /// The sum over the ranks, times 1/p, rounded as one f32 multiplication.
  double average(std::size_t index, std::size_t element) const;
  /// Describes a wrong value: "the sum over the ranks, not divided by p", …
  std::string explain(double value, int rank, std::size_t index, std::size_t element) const;
};

}  // namespace lockstep::testing
