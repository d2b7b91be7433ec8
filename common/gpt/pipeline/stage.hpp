// The interface between the pipeline interpreter and a model: what one stage computes for one microbatch.
#pragma once

#include <map>
#include <string>

#include "common/error.hpp"
#include "common/gpt/pipeline/schedule.hpp"
#include "common/rank.hpp"

namespace lockstep {

/// Called by the interpreter on main, in the order of the schedule. A part is a (stage, chunk). The first part of the
/// model has no input and no input gradient, the last part no output and no output gradient: these slices are empty.
/// Two consecutive parts on one stage, at the bottom of a V, exchange data within the model: their slices are empty,
/// too.
class StageModel {
 public:
  virtual ~StageModel() = default;

  /// Elements that cross a boundary for this microbatch, in each direction.
  virtual std::size_t boundary_elements(int microbatch) const = 0;
  virtual DType boundary_dtype() const = 0;

  /// output = part(input). `input` is unchanged until this part's backward has ended.
  virtual void forward(int microbatch, int chunk, Slice input, Slice output) = 0;
  /// Runs Work::backward or one of its halves: computes input_gradient from output_gradient; gradients of parameters
  /// accumulate. For Work::weight_gradient both slices are empty: the other half has kept its inputs.
  virtual void backward(Work work, int microbatch, int chunk, Slice output_gradient, Slice input_gradient) = 0;
};

/// Slices that a stage passes to itself at the bottom of a V, by the step that takes them.
class HandOver {
 public:
  Slice give(const Step& to, Slice slice) { return slices_[to] = std::move(slice); }
  Slice take(const Step& step) {
    const auto found = slices_.find(step);
    if (found == slices_.end())
      usage_error(to_string(step, 2) + " runs before the other chunk of its stage has produced its input");
    Slice slice = std::move(found->second);
    slices_.erase(found);
    return slice;
  }

 private:
  std::map<Step, Slice> slices_;
};

}  // namespace lockstep
