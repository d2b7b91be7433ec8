// What training sends, predicted from the layout by the formulas of the weeks.
#pragma once

#include <string>

#include "tools/train/plan.hpp"

namespace lockstep::train {

/// Bytes that a rank sends in a step, the mean over all ranks and over the steps after `first_step`. To the byte, since
/// the chunks of a ring, however unequal, are together the whole.
double predicted_bytes(const TrainPlan& plan, int first_step);

/// In words: how `predicted_bytes` comes about.
std::string traffic_formula(const TrainPlan& plan);

}  // namespace lockstep::train
