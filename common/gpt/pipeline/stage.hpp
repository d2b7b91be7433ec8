// What one stage of a pipeline does with one microbatch, whatever the model is.
#pragma once

#include <map>
#include <string>

#include "common/error.hpp"
#include "common/gpt/pipeline/schedule.hpp"
#include "common/rank.hpp"

namespace lockstep {

/// Called by the interpreter on main, in the order of the schedule. A part is a (stage, chunk); the first part of the
/// model has no input and no input gradient, the last part no output and no output gradient: these slices are empty.
/// Two parts that follow each other on one stage, the bottom of a V, are a matter of the model alone: empty, too.
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

/// What a stage hands to itself at the bottom of a V: by the step that takes it.
class HandOver {
 public:
  Slice give(const Step& to, Slice slice) { return slices_[to] = std::move(slice); }
  Slice take(const Step& step) {
    const auto found = slices_.find(step);
    if (found == slices_.end())
      usage_error(to_string(step, 2) + " is run before the other chunk of its stage has given what it takes");
    Slice slice = std::move(found->second);
    slices_.erase(found);
    return slice;
  }

 private:
  std::map<Step, Slice> slices_;
};

}  // namespace lockstep
