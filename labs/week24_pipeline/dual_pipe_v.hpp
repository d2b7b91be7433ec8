// DualPipeV, given: two chunks per stage in a V as in 24.8, in another order. A steady turn is two pairs of a forward
// through one chunk and the whole backward of another microbatch through the other. Where each has long messages of its
// own, such as experts' all-to-alls, code that runs the pair as one step hides them. Here it is two steps, one after
// the other.
//
// DeepSeek-AI: "DeepSeek-V3" (arXiv 2412.19437), section 3.2.1, and github.com/deepseek-ai/DualPipe; a V since Qi, Wan,
// Huang, Lin: "DualPipe could be better without the Dual" (2025), where it is called cut in half.
#pragma once

#include <algorithm>
#include <cstddef>
#include <map>

#include "common/error.hpp"
#include "common/gpt/pipeline/schedule.hpp"

namespace lockstep::week24 {

/// A stage's steps, of a shape with two chunks placed in a V and at least two stages; another is a USAGE error. For m ≥
/// 2p a stage holds 2p + 1 microbatches × chunks, and the bubble is (p − 1)(F + B − W)/2 if F = B ≥ W. Fewer
/// microbatches have the order of 2p, without those that there are not.
inline StageSchedule dual_pipe_v(const PipelineShape& shape, int stage) {
  if (shape.placement != Placement::vee || shape.chunks != 2 || shape.stages < 2)
    usage_error("DualPipeV needs two chunks per stage in a V, and at least two stages");
  const int p = shape.stages, m = shape.microbatches, above = stage + 1, below = p - above;
  std::map<int, int> forwards, backwards;  // by chunk: the next one's microbatch
  StageSchedule steps, owed;
  std::size_t paid = 0;
  const auto forward = [&](int chunk) { steps.push_back({Work::forward, forwards[chunk]++, chunk}); };
  const auto back = [&](Work work, int chunk) {
    steps.push_back({work, backwards[chunk]++, chunk});
    if (work == Work::input_gradient) owed.push_back({Work::weight_gradient, steps.back().microbatch, chunk});
  };
  const auto weight = [&] { steps.push_back(owed[paid++]); };
  const auto pair = [&](int chunk, int other) { forward(chunk), back(Work::backward, other); };

  // Until the first gradient: chunk 0, then both in turn.
  for (int i = 0; i < 2 * below; ++i) forward(0);
  for (int i = 0; i < above; ++i) forward(0), forward(1);
  // Each forward takes the place that a microbatch leaves.
  for (int i = 0; i < below; ++i) back(Work::input_gradient, 1), weight(), forward(1);
  for (int i = 0; i < std::max(m, 2 * p) - 2 * p + above; ++i) pair(0, 1), pair(1, 0);
  for (int i = 0; i < below; ++i) back(Work::backward, 1), pair(1, 0);
  // No forward is left. The weights of the last gradients come while stages wait for the gradients of others.
  for (int i = 0; i < 2 * above; ++i) back(i < above ? Work::backward : Work::input_gradient, i % 2 == 0 ? 1 : 0);
  for (int i = 0; i < below; ++i) weight(), back(Work::input_gradient, 0);
  for (int i = 0; i < above; ++i) weight();
  std::erase_if(steps, [m](const Step& step) { return step.microbatch >= m; });
  return steps;
}

}  // namespace lockstep::week24
