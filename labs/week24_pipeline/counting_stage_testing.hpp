// A stage without a model for the tests of week 24, whose numbers tell which parts a microbatch has gone through.
#pragma once

#include <fmt/format.h>

#include <map>
#include <string>
#include <vector>

#include "common/arithmetic.hpp"
#include "common/runtime/run.hpp"
#include "common/support/text/counted.hpp"
#include "labs/week24_pipeline/stages.hpp"

namespace lockstep::week24 {

/// Part k adds k + 1 to what goes through it, in both directions, and gathers in its gradient what has come in: small
/// whole numbers, exact. Every second microbatch is one element longer. Slices that the contract of StageModel does not
/// give end the run with a sentence.
class CountingStage final : public StageModel {
 public:
  CountingStage(Rank me, const PipelineShape& shape, std::size_t elements)
      : me_(me), shape_(shape), elements_(elements), scratch_(me.allocate(elements + 1, DType::f32, Category::buffer)) {
    for (int c = 0; c < shape.chunks; ++c) {
      gradients_.push_back(me.allocate(elements, DType::f32, Category::gradient));
      fill(me, gradients_.back(), 0);
    }
  }
  std::size_t boundary_elements(int microbatch) const override {
    return elements_ + static_cast<std::size_t>(microbatch % 2);
  }
  DType boundary_dtype() const override { return DType::f32; }

  void forward(int microbatch, int chunk, Slice input, Slice output) override {
    const int part = part_of(shape_, me_.rank(), chunk);
    const Step step{Work::forward, microbatch, chunk};
    check_slice(step, "an input", input, comes(part));
    check_slice(step, "an output", output, comes(part + 1));
    if (part == 0)
      input = made(microbatch);
    else if (!comes(part))
      input = handed_.take(step);
    inputs_[{microbatch, chunk}] = input;
    if (part + 1 == parts())
      output = last_[microbatch] = boundary(microbatch);
    else if (!comes(part + 1))
      output = handed_.give({Work::forward, microbatch, chunk + 1}, boundary(microbatch));
    through(output, input, part);
  }
  void backward(Work work, int microbatch, int chunk, Slice output_gradient, Slice input_gradient) override {
    const int part = part_of(shape_, me_.rank(), chunk);
    const Step step{work, microbatch, chunk};
    const bool weights_alone = work == Work::weight_gradient;
    const std::pair key{microbatch, chunk};
    if (!inputs_.contains(key) || (weights_alone && !gradients_of_.contains(key)))
      throw Error(Verdict::fail,
                  to_string(step, shape_.chunks) + " runs before its inputs exist, or for the second time");
    check_slice(step, "a gradient of the output", output_gradient, comes(part + 1) && !weights_alone);
    check_slice(step, "a gradient of the input", input_gradient, comes(part) && !weights_alone);
    if (!weights_alone) {
      if (part + 1 == parts())
        output_gradient = last_.at(microbatch);
      else if (!comes(part + 1))
        output_gradient = handed_.take({Work::input_gradient, microbatch, chunk});
      if (part == 0)
        input_gradient = first_[microbatch] = boundary(microbatch);
      else if (!comes(part))
        input_gradient = handed_.give({Work::input_gradient, microbatch, chunk - 1}, boundary(microbatch));
      through(input_gradient, output_gradient, part);
      gradients_of_[key] = output_gradient;
    }
    if (work != Work::input_gradient) {
      Slice gradient = gradients_[static_cast<std::size_t>(chunk)];
      add(me_, gradient, inputs_.at(key).cut(0, elements_));
      add(me_, gradient, gradients_of_.at(key).cut(0, elements_));
      inputs_.erase(key);
      gradients_of_.erase(key);
    }
  }

  /// The values that came back to the first part for each microbatch (first stage; −1 where nothing did), then the
  /// gradients of all chunks: element 0 of each.
  Values seen() {
    Values values;
    for (int m = 0; me_.rank() == 0 && m < shape_.microbatches; ++m)
      values.push_back(first_.contains(m) ? to_host(me_, first_.at(m))[0] : -1);
    for (const Slice& gradient : gradients_) values.push_back(to_host(me_, gradient)[0]);
    return values;
  }
  static double input_of(int microbatch) { return 1000.0 * (microbatch + 1); }

 private:
  int parts() const { return shape_.stages * shape_.chunks; }
  /// True if another stage gives what goes from part − 1 to part; at the bottom of a V the stage hands it to itself.
  bool comes(int part) const {
    return part > 0 && part < parts() && chunk_of_part(shape_, part - 1).stage != chunk_of_part(shape_, part).stage;
  }
  Slice boundary(int microbatch) {
    return me_.allocate(boundary_elements(microbatch), DType::f32, Category::activation);
  }
  Slice made(int microbatch) {
    Slice slice = boundary(microbatch);
    fill(me_, slice, static_cast<float>(input_of(microbatch)));
    return slice;
  }
  void through(Slice to, Slice from, int part) {
    fill(me_, scratch_, static_cast<float>(part + 1));
    add(me_, to, from, scratch_.cut(0, to.size()));
  }
  /// A neighbour's slice is there, and as long as the microbatch's boundary; at the ends of the model there is none.
  void check_slice(const Step& step, const char* what, const Slice& slice, bool wanted) const {
    const std::size_t expected = wanted ? boundary_elements(step.microbatch) : 0;
    if (slice.size() == expected) return;
    throw Error(
        Verdict::fail,
        fmt::format("stage {} gives {} {} of {}, expected {}{}", me_.rank(), to_string(step, shape_.chunks), what,
                    counted(slice.size(), "element"), expected,
                    wanted ? "" : ": at the ends of the model, and for the weights alone, that slice is empty"));
  }

  Rank me_;
  PipelineShape shape_;
  std::size_t elements_;
  Slice scratch_;
  std::vector<Slice> gradients_;
  std::map<std::pair<int, int>, Slice> inputs_, gradients_of_;
  std::map<int, Slice> last_, first_;
  HandOver handed_;
};

/// Checks the counts that every rank of a CountingStage must have seen.
inline std::string wrong_counts(const PipelineShape& shape, const Outcome& outcome) {
  const int parts = shape.stages * shape.chunks;
  const double all = parts * (parts + 1) / 2.0;  // 1 + 2 + … + parts
  for (int stage = 0; stage < shape.stages; ++stage) {
    const Values& seen = outcome.values[static_cast<std::size_t>(stage)];
    std::size_t at = 0;
    for (int m = 0; stage == 0 && m < shape.microbatches; ++m, ++at) {
      const double back = CountingStage::input_of(m) + 2 * all;
      if (seen.at(at) < 0)
        return fmt::format("microbatch {} did not come back to the first stage: no backward was run", m);
      if (seen.at(at) != back)
        return fmt::format(
            "microbatch {} came back to the first stage as {}, expected {}: through every part once in "
            "each direction, {} + 2·{}",
            m, seen[at], back, CountingStage::input_of(m), all);
    }
    for (int c = 0; c < shape.chunks; ++c, ++at) {
      const int part = part_of(shape, stage, c);
      const double before = part * (part + 1) / 2.0, after = all - (part + 1) * (part + 2) / 2.0;
      double expected = 0;
      for (int m = 0; m < shape.microbatches; ++m)
        expected += (CountingStage::input_of(m) + before) + (CountingStage::input_of(m) + all + after);
      if (seen.at(at) != expected)
        return fmt::format(
            "stage {}, chunk {}: what came in, of all microbatches and both directions, adds up to {}, "
            "expected {}",
            stage, c, seen[at], expected);
    }
  }
  return "";
}

}  // namespace lockstep::week24
