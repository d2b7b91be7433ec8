// The rows that ./lab plan writes with --json and --csv.
#pragma once

#include <optional>
#include <vector>

#include "labs/trainer/plan/search.hpp"
#include "tools/plan/options.hpp"
#include "tools/plan/refine.hpp"
#include "tools/train/phantom_step.hpp"

namespace lockstep::plan {

/// GPU-hours of the whole training, at so many seconds per step.
double gpu_hours(const Task& task, const week25::Rated& rated, double seconds);

/// Writes a row for each plan, each operation of the best one's microbatch and each reason of a refusal. `simulated`:
/// of the first plans; `explained`: --explain's, if one fits; `price`: of a GPU for an hour, 0: none.
void write_plans(const PlanOptions& options, const Task& task, const Search& found,
                 const std::vector<std::optional<week25::PhantomStep>>& simulated,
                 const std::optional<Refined>& explained, double price);

}  // namespace lockstep::plan
