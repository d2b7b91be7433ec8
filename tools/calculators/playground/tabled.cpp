// In the page, in place of planned.cpp and of the planner's dry runs (labs/trainer/plan/pieces.cpp): what they find, as
// `playground --pieces` wrote it down.
#include <algorithm>
#include <cstring>

#include "labs/trainer/plan/pieces.hpp"
#include "tools/calculators/playground/planned.hpp"

namespace lockstep {

namespace {

struct Row {
  const char* machine;
  std::size_t d_model;  // says which model
  int tp, microbatch;
  bool sequence_parallel;
  int values;
};

#include "pieces_table.inc"  // kMachines, kValues, kRows

}  // namespace

Machine playground::planned_machine(const std::string& file) {
  return *std::find_if(std::begin(kMachines), std::end(kMachines), [&](const Machine& m) { return m.name == file; });
}

plan::Pieces plan::price_pieces(const GptConfig& model, const Machine& machine, std::size_t,
                                const week25::Strategy& strategy, const week21::CostModel&, const week21::CostModel&,
                                const PriceOptions&) {
  const Row* row = std::find_if(std::begin(kRows), std::end(kRows), [&](const Row& r) {
    return r.machine == machine.name && r.d_model == model.d_model && r.tp == strategy.tp &&
           r.microbatch == strategy.microbatch && r.sequence_parallel == strategy.sequence_parallel;
  });
  if (row == std::end(kRows)) throw Error(Verdict::usage, "the page has no costs for this");
  Pieces pieces;
  static_assert(sizeof kValues[0] == sizeof pieces);
  std::memcpy(&pieces, kValues[row->values], sizeof pieces);
  return pieces;
}

}  // namespace lockstep
