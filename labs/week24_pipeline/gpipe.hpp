// Exercise 24.2: GPipe: all forwards, then all backwards. m microbatches fill a pipeline that one batch leaves idle,
// and the idle time that remains is the bubble, of which texts mix up two conventions: idle time over the ideal time,
// and idle time over the total.
//
// Huang et al., "GPipe" (arXiv 1811.06965), section 2; Narayanan et al. (arXiv 2104.04473), section 2.2.
#pragma once

#include "common/gpt/pipeline/schedule.hpp"

namespace lockstep::week24 {

// Part a: the schedule.

/// Given: one microbatch after the other, each all the way forward and back. That is how layers on several GPUs run
/// without a pipeline: one stage works at a time.
StageSchedule naive(const PipelineShape& shape, int stage);

/// F0 … F(m − 1), then B(m − 1) … B0: each backward in turn frees the latest activations. Holds m microbatches at its
/// peak. (B0 … B(m − 1) on every stage is right too: PyTorch's order.)
StageSchedule gpipe(const PipelineShape& shape, int stage);

// Part b: two conventions. Naive pipelines have m = 1; with v chunks the idle time is 1/v of that. Equal stages, no
// transfers.

/// Idle / ideal: (p − 1)/(v·m).
double bubble_of_ideal(const PipelineShape& shape);
/// Idle / total: (p − 1)/(v·m + p − 1). The rest is the utilisation.
double bubble_of_total(const PipelineShape& shape);

}  // namespace lockstep::week24
