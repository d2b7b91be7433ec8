// Exercise 24.5 (extra): zero bubble. The previous stage waits for the gradient of a stage's input; no stage waits for
// the gradients of its weights, so they can fill the bubble.
//
// Qi et al., "Zero Bubble Pipeline Parallelism" (arXiv 2401.10241), sections 2.1 and 2.2: the hand-crafted schedules.
#pragma once

#include "common/gpt/pipeline/schedule.hpp"

namespace lockstep::week24 {

/// Part a. ZB-H1: 1F1B with the backward split. Stage s computes the weight gradients of a microbatch s microbatches
/// after its input gradient, so that each stage holds p microbatches at its peak, as 1F1B's first stage does. The rest
/// come at the end, in order. Bubble (p − 1)(F + B − W), B being the input gradient's time.
StageSchedule zb_h1(const PipelineShape& shape, int stage);

/// Part b. ZB-H2: twice the memory. Stage s warms up with 2(p − s) − 1 forwards (at most m); then, in turn, an input
/// gradient, the weight gradients of 2s microbatches before, and a forward; then the rest, in order. Holds 2p − 1
/// microbatches at its peak. Bubble (p − 1)(F + B − 2W).
StageSchedule zb_h2(const PipelineShape& shape, int stage);

}  // namespace lockstep::week24
