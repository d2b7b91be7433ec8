// In the page, in place of planned.cpp and of the planner's dry runs (labs/trainer/plan/pieces.cpp): what they find, as
// `playground --pieces` wrote it down.
#include <algorithm>
#include <cstring>

#include "common/error.hpp"
#include "tools/calculators/playground/planned.hpp"

namespace lockstep {

Machine playground::planned_machine(const std::string& file) {
  const std::span<const Machine> machines = pieces_table().machines;
  return *std::find_if(machines.begin(), machines.end(), [&](const Machine& m) { return m.name == file; });
}

plan::Pieces plan::price_pieces(const GptConfig& model, const Machine& machine, std::size_t,
                                const week25::Strategy& strategy, const week21::CostModel&, const week21::CostModel&,
                                const PriceOptions&) {
  const playground::PiecesTable& table = playground::pieces_table();
  const auto row = std::find_if(table.rows.begin(), table.rows.end(), [&](const playground::PieceRow& r) {
    return r.machine == machine.name && r.d_model == model.d_model && r.tp == strategy.tp &&
           r.microbatch == strategy.microbatch && r.sequence_parallel == strategy.sequence_parallel;
  });
  if (row == table.rows.end()) throw Error(Verdict::usage, "the page has no costs for this");
  Pieces pieces;
  static_assert(sizeof(playground::PieceValues) == sizeof pieces);
  std::memcpy(&pieces, table.values[row->values].data(), sizeof pieces);
  return pieces;
}

}  // namespace lockstep
