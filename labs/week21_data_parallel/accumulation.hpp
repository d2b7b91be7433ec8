// Exercise 21.6: gradient accumulation. A batch that does not fit in memory is run as several microbatches whose
// gradients add up to the gradient of the whole batch, if each is weighted by its samples.
#pragma once

#include <functional>
#include <vector>

#include "common/rank.hpp"

namespace lockstep::week21 {

/// Samples [first, first + count) of a batch.
struct Microbatch {
  std::size_t first = 0;
  std::size_t count = 0;
};

/// Runs forward and backward of one microbatch and adds weight × ∇(mean loss of its samples) to the gradients.
using WeightedBackward = std::function<void(Microbatch microbatch, float weight)>;

/// Given: `samples` split into microbatches of at most `largest`; the last one may be shorter.
std::vector<Microbatch> microbatches(std::size_t samples, std::size_t largest);

/// Fills `gradients` with the gradient of the mean loss over all samples of all `parts`, which may differ in length; a
/// part without samples is skipped (its mean loss is 0/0). Each other part is run once, in any order. The old contents
/// of `gradients` are overwritten. At least one part has a sample.
void accumulate_gradients(Rank me, Slice gradients, const std::vector<Microbatch>& parts,
                          const WeightedBackward& backward);

/// ‖a − b‖ / ‖b‖: how far apart two gradients are. Equally long f32 slices, which are not changed. b is not all zeros.
double relative_gap(Rank me, Slice a, Slice b);

}  // namespace lockstep::week21
