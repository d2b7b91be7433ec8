// A fault planted in a run: data, drawn from a seed by drills.hpp.
#pragma once

#include <cstddef>
#include <string>

#include "labs/week25_3d/mesh.hpp"

namespace lockstep::drill {

/// A mesh whose tensor-parallel peers are farthest apart.
inline constexpr week25::AxisOrder kFaultyOrder = {week25::Axis::dp, week25::Axis::pp, week25::Axis::tp};

struct Fault {
  std::string kind;          ///< a word of kinds.hpp; "": nothing is planted
  int rank = -1;             ///< in the world; −1: every one
  int step = -1;             ///< from 0; −1: every one
  std::string operation;     ///< straggler: the arithmetic that is slow; norm-not-summed: the axis
  double factor = 1;         ///< straggler: how many times as long it takes
  double seconds = 0;        ///< slow-loader: longer, a step
  int bucket = -1;           ///< of a step's all-reduces, from 0
  std::size_t element = 0;   ///< flipped-bit: which of the bucket's
  int bit = 0;               ///< flipped-bit: of an fp32, from 0
  std::size_t left_out = 0;  ///< wrong-count: elements at the bucket's end
  int microbatch = -1;       ///< crossed-microbatches: changes places with the next

  bool is(const char* word) const { return kind == word; }
  bool at(int of_rank, int of_step) const { return rank == of_rank && (step < 0 || step == of_step); }
};

}  // namespace lockstep::drill
