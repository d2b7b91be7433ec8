// What a benchmark measures, once more with a trace: for ./lab view bench and for the report.
#pragma once

#include <string>
#include <vector>

#include "bench/support/measure.hpp"
#include "common/runtime/trace/trace.hpp"

namespace lockstep::bench {

/// One act, of each rank from when it begins it to when it has ended it; on the judge alone.
struct RecordedAct {
  Trace trace;
  double seconds = 0;
};
/// After a barrier (where time is real, after warming up too), and without what came before. Of more than 128 ranks the
/// first 16.
RecordedAct record_act(RunOptions options, const Contender& contender);

/// Of each contender that is `drawn`, PREFIX_NAME.trace and PREFIX_NAME.svg, with - for each / of its name; `what`
/// stands in titles. How many.
int write_timelines(const std::string& prefix, const std::string& what, const RunOptions& options,
                    const std::vector<Contender>& contenders);

}  // namespace lockstep::bench
