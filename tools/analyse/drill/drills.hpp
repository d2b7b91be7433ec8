// The drills: what each runs, what may be planted there, and what is, by seed.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "tools/analyse/drill/answer.hpp"
#include "tools/analyse/drill/play.hpp"

namespace lockstep::drill {

struct Drill {
  std::string id;
  Job job;
  std::vector<std::string> kinds;  ///< one variant each: seed modulo their number says which
};

/// "21", "24", …; throws Error(usage) with the known ones for anything else. `vocabulary` is the text's.
Drill find_drill(std::string_view id, std::size_t vocabulary);
std::vector<std::string> drill_ids();

/// The fault that the seed plants in it. `good` is the drill without a fault.
Fault fault_of(const Drill& drill, const Played& good, std::uint64_t seed);

/// The right answer. `played` is the drill with the fault.
Truth truth_of(const Drill& drill, const Fault& fault, const Played& good, const Played& played);

/// Mean loss over the tokens of a step's global batch; NaN where a rank has not ended it.
double loss_of(const Job& job, const Played& played, int step);

/// Stage `stage`'s schedule, as good runs have it.
StageSchedule good_schedule(const Job& job, int stage);

}  // namespace lockstep::drill
