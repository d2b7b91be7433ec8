// A strategy as 25.2's step runs it, to compare with its prediction.
#pragma once

#include "labs/trainer/options_3d.hpp"
#include "labs/trainer/plan/search.hpp"

namespace lockstep::plan {

/// Returns the options of 25.2's step for a strategy.
week25::Options3d options_of(const Task& task, const week25::Strategy& strategy);

}  // namespace lockstep::plan
