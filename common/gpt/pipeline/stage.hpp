// What one stage of a pipeline does with one microbatch, whatever the model is.
#pragma once

#include "common/gpt/pipeline/schedule.hpp"
#include "common/rank.hpp"

namespace lockstep {

/// Called by the interpreter on main, in the order of the schedule. A part is a (stage, chunk); the first part of the
/// model has no input and no input gradient, the last part no output and no output gradient: these slices are empty.
class StageModel {
 public:
  virtual ~StageModel() = default;

  /// What crosses a boundary for this microbatch, in both directions.
  virtual std::size_t boundary_elements(int microbatch) const = 0;
  virtual DType boundary_dtype() const = 0;

  /// output = part(input). `input` stays as it is until this part's backward is over.
  virtual void forward(int microbatch, int chunk, Slice input, Slice output) = 0;
  /// Work::backward, or one of its halves: input_gradient from output_gradient; gradients of parameters accumulate.
  /// For Work::weight_gradient alone both slices are empty: what it needs was kept by its other half.
  virtual void backward(Work work, int microbatch, int chunk, Slice output_gradient, Slice input_gradient) = 0;
};

}  // namespace lockstep
