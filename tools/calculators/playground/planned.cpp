#include "tools/calculators/playground/planned.hpp"

#include <cstring>
#include <map>

#include "tools/analyse/view/json_text.hpp"

namespace lockstep::playground {

namespace {

/// Prices of a microbatch's pieces on one of `tp` ranks, as the planner asks for them (Pricer).
PieceValues values_of(const Machine& machine, GptConfig model, int tp, int microbatch, bool sequence_parallel) {
  model.storage = DType::bf16;
  const week21::CostModel links = plan::ring_prices(machine, {.tp = tp}, week25::Axis::tp);
  const plan::Pieces pieces =
      plan::price_pieces(model, machine, model.context,
                         {.tp = tp, .microbatch = microbatch, .sequence_parallel = sequence_parallel}, links, {}, {});
  PieceValues values;
  static_assert(sizeof values == sizeof pieces);
  std::memcpy(values.data(), &pieces, sizeof pieces);
  return values;
}

std::string machine_code(const Machine& m) {
  const std::string levels = view::list(m.levels, [](const LinkLevel& level) {
    return fmt::format(R"({{"{}",{},{},{},{}}})", level.name, level.ranks, level.latency, level.bytes_per_second,
                       level.shared);
  });
  return fmt::format("{{.name=\"{}\",.levels={{{}}},.memory_bytes={},.memory_bytes_per_second={},.launch={}}},\n",
                     m.name, levels.substr(1, levels.size() - 2), m.memory_bytes, m.memory_bytes_per_second, m.launch);
}

/// Rows that different machines share are written once.
struct Table {
  std::map<PieceValues, std::size_t> known;
  std::string values, rows;

  void add(const Machine& machine, const GptConfig& model, int tp, int microbatch, bool sequence_parallel) {
    const auto [row, is_new] =
        known.try_emplace(values_of(machine, model, tp, microbatch, sequence_parallel), known.size());
    if (is_new)
      values += "{" + view::joined(row->first, [](double value) { return fmt::format("{}", value); }) + "},\n";
    rows += fmt::format("{{\"{}\",{},{},{},{},{}}},\n", machine.name, model.d_model, tp, microbatch, sequence_parallel,
                        row->second);
  }
};

/// True if the planner considers it: whole heads, and whole parts of an MLP.
bool divides(const GptConfig& model, int tp) {
  const auto p = static_cast<std::size_t>(tp);
  return model.heads % p == 0 && model.architecture.key_value_heads(model.heads) % p == 0 && model.mlp_width() % p == 0;
}

}  // namespace

Machine planned_machine(const std::string& file) { return find_machine(file, LOCKSTEP_SOURCE_DIR "/bench/machines"); }

std::string write_pieces_table() {
  Table table;
  std::string machines;
  for (const PlannedMachine& planned : kPlannedMachines) {
    const Machine machine = planned_machine(planned.file);
    machines += machine_code(machine);
    for (const char* name : kPlannedModels)
      for (int tp = 1; tp <= kMostPlannedGpus; tp *= 2)
        for (int microbatch = 1; microbatch <= 64 && divides(gpt_preset(name), tp); microbatch *= 2)
          for (int parallel = 0; parallel <= (tp > 1 ? 1 : 0); ++parallel)
            table.add(machine, gpt_preset(name), tp, microbatch, parallel == 1);
  }
  return fmt::format(
      "#include \"tools/calculators/playground/planned.hpp\"\n\n"
      "const lockstep::playground::PiecesTable& lockstep::playground::pieces_table() {{\n"
      "static const Machine machines[] = {{\n{}}};\nstatic constexpr PieceValues values[] = {{\n{}}};\n"
      "static constexpr PieceRow rows[] = {{\n{}}};\n"
      "static const PiecesTable table{{machines, values, rows}};\nreturn table;\n}}\n",
      machines, table.values, table.rows);
}

}  // namespace lockstep::playground
