// Exercise 24.3: 1F1B (PipeDream-flush): the same bubble as GPipe, but a stage never holds more microbatches than there
// are stages from it to the last.
//
// Narayanan et al., "Memory-Efficient Pipeline-Parallel DNN Training" (arXiv 2006.09503), section 3.2.
#pragma once

#include "common/gpt/pipeline/schedule.hpp"

namespace lockstep::week24 {

/// Stage s first does as many forwards as there are stages after it (p − 1 − s, at most m); then a forward and a
/// backward in turn; then the backwards that are left. Backwards in the order of the forwards. Holds min(p − s, m)
/// microbatches at its peak.
StageSchedule one_f_one_b(const PipelineShape& shape, int stage);

}  // namespace lockstep::week24
