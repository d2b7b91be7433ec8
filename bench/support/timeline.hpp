// Records a benchmark's operation again with a trace: for ./lab view bench and for the report.
#pragma once

#include <string>
#include <vector>

#include "bench/support/measure.hpp"
#include "common/runtime/trace/trace.hpp"

namespace lockstep::bench {

/// The trace of one act, for each rank from its beginning to its end; only on the judge.
struct RecordedAct {
  Trace trace;
  double seconds = 0;
};
/// Records an act after a barrier (and, in real time, after warm-up), without the operations before it. Records only
/// the first 16 ranks if there are more than 128.
RecordedAct record_act(RunOptions options, const Contender& contender);

/// Writes PREFIX_NAME.trace for each contender that is `drawn`, with - for each / of its name;
/// `what` is part of the titles. Returns the number of contenders.
int write_timelines(const std::string& prefix, const std::string& what, const RunOptions& options,
                    const std::vector<Contender>& contenders);

}  // namespace lockstep::bench
