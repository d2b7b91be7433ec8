// Exercise 24.5 (extra): zero bubble. The gradient of a stage's input is what the stage before waits for; the gradients
// of its weights nobody waits for, so they fill the bubble.
//
// Qi et al., "Zero Bubble Pipeline Parallelism" (arXiv 2401.10241), sections 2.1 and 2.2: the hand-crafted schedules.
#pragma once

#include "common/gpt/pipeline/schedule.hpp"

namespace lockstep::week24 {

/// Part a. ZB-H1: 1F1B with the backward in halves. Stage s does the weights' half of a microbatch s microbatches after
/// its input's half, so that each stage holds p microbatches at its peak, as 1F1B's first stage does. What is left
/// comes at the end, in order. Bubble (p − 1)(F + B − W), B being the input's half.
StageSchedule zb_h1(const PipelineShape& shape, int stage);

/// Part b. ZB-H2: twice the memory. Stage s warms up with 2(p − s) − 1 forwards (at most m); then, in turn, an input's
/// half, the weights' half of 2s microbatches before, and a forward; what is left in order. Holds 2p − 1 microbatches
/// at its peak. Bubble (p − 1)(F + B − 2W).
StageSchedule zb_h2(const PipelineShape& shape, int stage);

}  // namespace lockstep::week24
