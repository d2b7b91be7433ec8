// Exercise 24.2: GPipe as a schedule: all forwards, then all backwards. m microbatches fill a pipeline that one batch
// leaves idle.
//
// Huang et al., "GPipe" (arXiv 1811.06965), section 2.
#pragma once

#include "common/gpt/pipeline/schedule.hpp"

namespace lockstep::week24 {

/// Given: one microbatch after the other, each all the way forward and back. That is how layers on several GPUs run
/// without a pipeline: one stage works at a time.
StageSchedule naive(const PipelineShape& shape, int stage);

/// F0 … F(m − 1), then B(m − 1) … B0: each backward in turn frees the latest activations. Holds m microbatches at its
/// peak. (B0 … B(m − 1) on every stage is right too: PyTorch's order.)
StageSchedule gpipe(const PipelineShape& shape, int stage);

}  // namespace lockstep::week24
