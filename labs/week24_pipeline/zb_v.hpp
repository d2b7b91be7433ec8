// Exercise 24.8 (extra): ZB-V. Two chunks per stage in a V: chunk 0 on the way down the stages, chunk 1 on the way back
// up, so that the last stage passes its output to itself and the first computes the loss. No stage waits, and it needs
// no more memory than 1F1B.
//
// Qi, Wan, Huang, Lin: "Pipeline Parallelism with Controllable Memory" (arXiv 2405.15362); the halves of a backward are
// those of 24.5.
#pragma once

#include "common/gpt/pipeline/schedule.hpp"

namespace lockstep::week24 {

/// A stage's steps, of a shape with two chunks placed in a V; another shape is a USAGE error that says which. Any order
/// of F, B, I and W that can be run (check_schedule) and has these properties, for every p ≥ 2 and m:
///
///   Memory. A stage holds at most 2p microbatches × chunks: as much as 1F1B's first stage, whose p microbatches are of
///   chunks twice as large.
///   Time, F = B = W and no hops. For m ≥ 2p − 1 no stage waits once it has begun: the longest span is m(F + B + W),
///   and the makespan (p − 1)F/2 more. For fewer microbatches it is no longer than ZB-H1's.
///   Time, else. With F, B and W of each stage within 25 % of 1 ms, and hops of up to 0.1 ms: no longer than 1F1B's;
///   within 10 %, and for m ≥ 2p − 1, no longer than ZB-H1's.
///   It needs no buffers: it runs where a send lasts until its receive has begun.
StageSchedule zb_v(const PipelineShape& shape, int stage);

}  // namespace lockstep::week24
