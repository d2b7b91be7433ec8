// Exercise 24.4 (extra): interleaved 1F1B. Each stage has v chunks, parts s, p + s, 2p + s, … of the model, so the
// pipeline fills after 1/v of a stage's time: a v times smaller bubble for v times the messages.
//
// Narayanan et al. (arXiv 2104.04473), section 2.2; m must be a multiple of p.
#pragma once

#include "common/gpt/pipeline/schedule.hpp"

namespace lockstep::week24 {

/// Part a. Forwards go in groups of p microbatches through all chunks: the k-th forward of any stage is of this
/// microbatch and chunk, for k from 0 to v·m − 1. Backwards likewise, chunks from the last to the first.
Step forward_number(const PipelineShape& shape, int k);
Step backward_number(const PipelineShape& shape, int k);

/// Part b. Stage s warms up with 2(p − 1 − s) + (v − 1)·p forwards (at most all), then does a forward and a backward in
/// turn, then the rest. An m that p does not divide is a USAGE error that names both.
StageSchedule interleaved(const PipelineShape& shape, int stage);

}  // namespace lockstep::week24
