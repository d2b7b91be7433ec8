#include "tools/plan/terms.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "common/error.hpp"
#include "common/support/text/nearest.hpp"

namespace lockstep::plan {

namespace {

/// Products at the best rate of a short run, with no time of their own to write what they compute.
void best_products(Machine& machine) {
  LibraryPrices& library = *machine.library;
  constexpr double kLarge = 1e15;  // FLOP of a product whose beginning and end do not count
  const double best = machine.matmul_efficiency(kLarge) * machine.peak(DType::bf16);
  library.fp8_flop_per_second *= best / library.matmul_flop_per_second;
  library.matmul_flop_per_second = best;
  library.write_bytes_per_second = 1e30;
}

}  // namespace

const std::vector<Term>& terms() {
  static const std::vector<Term> all{
      {"fp32-gradients", "gradients have 16 bits",
       [](PublishedRun& run) {
         run.model.fp32_gradients = run.fp32_reduction = run.two_gradients = run.copied_gradients = false;
       }},
      {"sustained-rate", "products reach the best rate seen in a short run, and write for nothing", nullptr,
       best_products},
      {"early-stop", "every checkpoint recomputes all of its block",
       [](PublishedRun& run) { run.stops_early = false; }},
      {"exposed", "all gradients' sums and tensor-parallel ones overlap with computation, as far as they fit",
       [](PublishedRun& run) { run.overlap = run.overlap_tensor = true; }},
      {"occupied", "hidden collectives take no multiprocessors", nullptr,
       [](Machine& machine) {
         machine.library->collective_blocks = machine.library->collective_blocks_across_nodes = 0;
       }},
      {"copies", "FSDP's units are not copied", [](PublishedRun& run) { run.copied_bytes = 0; }},
      {"host", "the host issues operations in no time", [](PublishedRun& run) { run.host = HostMode::ignored; }},
      {"passes", "software fuses what ours does", [](PublishedRun& run) { run.unfused = ""; }},
      {"update", "AdamW is one operation"},
      {"trees", "all-reduces over two nodes are rings", nullptr,
       [](Machine& machine) { machine.library->tree_bytes_per_second = 1; }},
      {"slowest-card", "all cards are the same"}};
  return all;
}

const Term& find_term(const std::string& name) {
  std::vector<std::string> names;
  for (const Term& term : terms()) {
    if (term.name == name) return term;
    names.emplace_back(term.name);
  }
  throw Error(Verdict::usage, "--without: " + unknown_name("term", name, names));
}

bool Without::has(const std::string& name) const {
  return std::any_of(left_out.begin(), left_out.end(), [&](const Term* term) { return term->name == name; });
}

void Without::from(PublishedRun& run) const {
  for (const Term* term : left_out)
    if (term->of_run) term->of_run(run);
}

void Without::from(Machine& machine) const {
  for (const Term* term : left_out)
    if (term->of_machine && machine.library) term->of_machine(machine);
}

Without without(const std::string& names) {
  Without result;
  for (std::size_t at = 0; at < names.size();) {
    const std::size_t end = std::min(names.find(',', at), names.size());
    result.left_out.push_back(&find_term(names.substr(at, end - at)));
    at = end + 1;
  }
  return result;
}

}  // namespace lockstep::plan
