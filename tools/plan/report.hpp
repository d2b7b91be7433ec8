// Prints what ./lab plan has found.
#pragma once

#include <optional>
#include <string>

#include "labs/trainer/plan/search.hpp"

namespace lockstep::plan {

/// Figures that follow from a predicted step.
struct Figures {
  double mfu = 0;   ///< model FLOP (no recomputation) / (GPUs × peak × seconds)
  double days = 0;  ///< to 20 tokens a parameter (arXiv 2203.15556)
};
Figures figures(const Task& task, const week25::Rated& rated);

/// --price: of one GPU and hour in any currency, "2.50" or "2.50/h"; "": 0, unknown. Throws Error(usage).
double price_of(const std::string& text);
/// "9470 GPU-hours, 23700 at 2.5 per GPU-hour".
std::string format_cost(double gpu_hours, double price);

void print_task(const Task& task);
/// Two lines for each plan. `played`: by the simulator, seconds of each plan's step; the second line then has the
/// formulas'.
void print_plans(const Task& task, const std::vector<week25::Rated>& plans, const std::vector<double>& played = {});
/// Accounts for one strategy's seconds and bytes, by formula. `played`: the step's seconds in the simulator.
void print_account(const Task& task, const week25::Rated& rated, std::optional<double> played = {});
/// Seconds of a step compared with another's, kind by kind.
void print_difference(const week25::Rated& mine, const week25::Rated& best);
/// Says what offloading gains and costs: `with` it, the same strategy `without` it, and the `best` without it, if any
/// fits.
void print_offload(const Task& task, const week25::Rated& with, const HostCost& host, const week25::Rated& without,
                   const std::vector<week25::Rated>& best);
/// Says what the memory limit costs: `free` would be the fastest without it, `best` is so with it; both by formula.
void print_unlimited(const week25::Rated& free, const week25::Rated& best);
void print_refused(const Search& search);
void print_rate(const Search& search);

}  // namespace lockstep::plan
