// What ./lab bench tp runs: a forward and backward pass of a GPT whose layers p ranks share, with nothing sent, with
// its sums on main or beside other work, or with tokens sharded as well; and what a machine file says its parts take.
#pragma once

#include <array>
#include <string>

#include "bench/support/measure.hpp"
#include "common/gpt/model/config.hpp"
#include "common/runtime/run.hpp"

namespace lockstep::bench {

struct StepShape {
  GptConfig model;
  std::size_t sequences = 0, length = 0;
};

/// What is timed, on the same layers: no communication (each rank alone with its part), sums on main, sums beside the
/// weights' gradients, tokens sharded as well.
enum class Variant { compute, sequential, overlapped, sequence };
constexpr std::array<const char*, 4> kVariantNames = {"compute", "no_overlap", "overlap", "sequence_parallel"};
constexpr const char* name_of(Variant variant) { return kVariantNames[static_cast<std::size_t>(variant)]; }

Contender tp_contender(const StepShape& shape, Variant variant, double predicted);

/// One pass, begun together, for its ledgers. The seconds it took on the slowest rank:
Outcome run_pass(const RunOptions& options, const StepShape& shape, Variant variant);
double pass_seconds(const Outcome& outcome);

/// By the machine's prices, nothing run: one of `ranks`' part of a pass, nothing sent; and, of it, the gradient of the
/// weight that `place` ("attention backward", "mlp backward", "head backward") may be summed beside, 0 elsewhere.
double priced_compute(const Machine& machine, const StepShape& shape, int ranks);
double priced_beside(const Machine& machine, const StepShape& shape, int ranks, const std::string& place);

}  // namespace lockstep::bench
