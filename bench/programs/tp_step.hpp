// The measurements of ./lab bench tp: a forward and backward pass of a GPT whose layers p ranks share, without
// communication, with collectives on main or overlapped with other work, or with sequence parallelism; and prices of
// its parts from a machine file.
#pragma once

#include <array>
#include <string>

#include "bench/support/measure.hpp"
#include "bench/support/step_shape.hpp"
#include "common/runtime/run.hpp"

namespace lockstep::bench {

/// Variants of the pass on the same layers: no communication (each rank alone with its part), collectives on main,
/// collectives overlapped with weight gradients, sequence parallelism as well.
enum class Variant { compute, sequential, overlapped, sequence };
constexpr std::array<const char*, 4> kVariantNames = {"compute", "no_overlap", "overlap", "sequence_parallel"};
constexpr const char* name_of(Variant variant) { return kVariantNames[static_cast<std::size_t>(variant)]; }

Contender tp_contender(const StepShape& shape, Variant variant, double predicted);

/// Runs one pass that all ranks begin together, for its ledgers. pass_seconds: its time on the slowest rank.
Outcome run_pass(const RunOptions& options, const StepShape& shape, Variant variant);
double pass_seconds(const Outcome& outcome);

/// Prices by the machine file, without a run. priced_compute: one rank's part of a pass without communication. The
/// other: the weight gradient with which `place` ("attention backward", "mlp backward", "head backward") may overlap; 0
/// elsewhere.
double priced_compute(const Machine& machine, const StepShape& shape, int ranks);
double priced_beside(const Machine& machine, const StepShape& shape, int ranks, const std::string& place);

}  // namespace lockstep::bench
