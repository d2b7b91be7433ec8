// ./lab bench hsdp: compares full sharding (22.4) with hybrid sharding (22.8): bytes by level of links, memory and time
// of a training step, by formula and in a run.
//
//   ./lab bench hsdp --machine dgx-a100-10gbe --ranks 16 --model gpt2-355m --microbatches 1,4 --phantom
//   ./lab bench hsdp --machine dgx-h100 --ranks 8 --model gpt2-355m --within 2,4,8 --phantom
#include "labs/week22_zero/hsdp.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "bench/programs/zero_step.hpp"
#include "bench/support/bench.hpp"
#include "common/runtime/ledger/ledger.hpp"
#include "common/support/text/counted.hpp"
#include "common/support/text/numbers.hpp"
#include "common/support/text/storage.hpp"
#include "common/support/text/units.hpp"
#include "labs/week22_zero/memory_calculator.hpp"
#include "labs/week22_zero/sharding_policy.hpp"

namespace lockstep::bench {
namespace {

using week22::Hybrid;
using week22::LevelBytes;

struct HsdpOptions {
  std::string model = "tiny", dtype = "fp32";
  std::vector<std::string> within{"node"}, microbatches{"1"};
  int batch = 1;
};

/// One way to shard, on one number of ranks.
struct Sharding {
  std::string name;
  Hybrid shape;  // full: of the machine's nodes; hybrid: of the groups that hold one copy of the state
  int node = 1;  // ranks per node
  bool full = false;
};

ZeroShape shape_of(const Sharding& sharding, const GptConfig& model, int batch, int prefetch) {
  ZeroShape shape{step_shape(model, batch, 0)};
  shape.microbatches = sharding.shape.microbatches;
  shape.engine = {.zero = 3,
                  .prefetch = prefetch,
                  .shard_group = sharding.full ? 0 : sharding.shape.ranks_per_node,
                  .reduce = model.storage};
  return shape;
}

/// Indices of a rank's results.
constexpr std::size_t kSeconds = 0, kCommunication = 1, kInside = 2, kAcross = 3, kState = 4;

/// Runs two steps on a rank, the first of which is verified. Returns of the second: seconds, those in collectives,
/// bytes by level of links, bytes of state.
Values run_steps(Rank me, const ZeroShape& shape, int node, bool verify) {
  ZeroStep step(me, shape);
  step.act();
  if (const double error = verify ? step.error() : 0; !(error < step.tolerance()))
    throw Error(Verdict::fail, fmt::format("a sharded step differs from that of a single rank by {:.3g} of it", error));
  const RankLedger before = ledger_of(me);
  const double began = me.now();
  step.act();
  const double seconds = me.now() - began;
  const RankLedger after = ledger_of(me);
  double communication = 0, inside = 0, across = 0, state = 0;
  for (const char* name : {"all_gather", "reduce_scatter"}) {
    const RegionTotal *was = before.region(name), *is = after.region(name);
    if (is) communication += is->seconds - (was ? was->seconds : 0);
  }
  for (int peer = 0; peer < me.size(); ++peer)
    (peer / node == me.rank() / node ? inside : across) +=
        static_cast<double>(after.sent_to(peer) - before.sent_to(peer));
  for (const Category kind : {Category::parameter, Category::gradient, Category::optimizer})
    state += static_cast<double>(after.memory.live_of(kind));
  return {seconds, communication, inside, across, state};
}

/// Total over the ranks of a node, averaged over the nodes.
double of_a_node(const Outcome& outcome, std::size_t field, int node) {
  double sum = 0;
  for (const Values& seen : outcome.values) sum += seen[field];
  return sum * node / static_cast<double>(outcome.values.size());
}

struct Prediction {
  double communication = 0, state = 0;
  LevelBytes sent;
};

/// Applies the formulas of 22.1 and 22.8 to each unit. Bytes by level are those of the machine's nodes. There is no
/// prediction if the state is sharded over fewer ranks than a node has: traffic between groups may then stay inside the
/// node.
Prediction predict(const Sharding& sharding, const GptConfig& model, const Machine& machine) {
  const Hybrid& shape = sharding.shape;
  const week21::CostModel all = week21::cost_model(machine, shape.ranks()),
                          inside = week21::cost_model(machine, shape.ranks_per_node),
                          across = week21::cost_of_all_at_once(machine, shape.ranks());
  Prediction said;
  const double element = static_cast<double>(bytes_of(model.storage));
  for (const Unit& unit : week22::wrap(gpt_parameter_table(model), {})) {
    const double bytes = element * static_cast<double>(unit.size);
    said.communication += sharding.full ? week22::full_sharding_seconds(shape, all, bytes)
                                        : week22::hybrid_seconds(shape, inside, across, bytes);
  }
  const auto parameters = static_cast<double>(model.parameters());
  said.sent = sharding.full ? week22::full_sharding_bytes(shape, element * parameters)
                            : week22::hybrid_bytes(shape, element * parameters);
  said.state = week22::model_state(parameters, 3, sharding.full ? shape.ranks() : shape.ranks_per_node,
                                   week22::recipe_of(model.storage))
                   .total_bytes();
  if (shape.ranks_per_node < sharding.node) said.sent = {std::nan(""), std::nan("")};
  return said;
}

std::vector<Sharding> shardings_of(const HsdpOptions& o, const Machine& machine, int ranks, int microbatches) {
  const int held = machine.levels.front().ranks, node = held == 0 ? ranks : std::min(held, ranks);
  if (ranks % node != 0)
    throw Error(Verdict::usage, fmt::format("--ranks {} is not a whole number of nodes of {}", ranks, node));
  std::vector<Sharding> all{{"full", {ranks / node, node, microbatches}, node, true}};
  for (const std::string& text : o.within) {
    const int g = text == "node" ? node : count_in("--within", text, 1'000'000);
    if (node % g != 0)
      throw Error(Verdict::usage, fmt::format("--within {} does not divide a node of {} ranks", g, node));
    all.push_back({fmt::format("hybrid:{}", g), {ranks / g, g, microbatches}, node, false});
  }
  return all;
}

void measure(Bench& bench, const Sharding& sharding, const HsdpOptions& o, const GptConfig& model) {
  const Hybrid& shape = sharding.shape;
  const RunOptions options = bench.run_options(shape.ranks());
  const auto run_with = [&](int prefetch) {
    const ZeroShape step = shape_of(sharding, model, o.batch, prefetch);
    return run(options, [&](Rank me) { return run_steps(me, step, sharding.node, !options.phantom); });
  };
  const Outcome alone = run_with(0), hidden = run_with(1);
  alone.check();
  hidden.check();
  const Prediction said = predict(sharding, model, options.machine);
  Row row;
  row.set("backend", backend_name()).set("machine", options.machine.name).set("ranks", shape.ranks());
  row.set("method", sharding.name).set("model", o.model).set("ranks_per_node", sharding.node);
  row.set("microbatches", shape.microbatches).set("batch_sequences", o.batch);
  row.set("state_bytes", slowest(hidden, kState)).set("predicted_state_bytes", said.state);
  row.set("bytes_inside_node", of_a_node(hidden, kInside, sharding.node))
      .set("predicted_bytes_inside_node", said.sent.inside);
  row.set("bytes_across_nodes", of_a_node(hidden, kAcross, sharding.node))
      .set("predicted_bytes_across_nodes", said.sent.across);
  row.set("communication_seconds", slowest(alone, kCommunication))
      .set("predicted_communication_seconds", said.communication);
  row.set("seconds_without_overlap", slowest(alone, kSeconds)).set("seconds", slowest(hidden, kSeconds));
  bench.report(row);
  if (!is_judge()) return;
  const auto bytes = [](double value) { return std::isnan(value) ? std::string("-") : format_bytes(value); };
  fmt::print("{:>10} {:>2} {:>10} {:>10} {:>10} {:>10} {:>10} {:>10} {:>10} {:>10} {:>10}\n", sharding.name,
             shape.microbatches, bytes(slowest(hidden, kState)), bytes(said.state),
             bytes(of_a_node(hidden, kInside, sharding.node)), bytes(said.sent.inside),
             bytes(of_a_node(hidden, kAcross, sharding.node)), bytes(said.sent.across),
             format_seconds(slowest(alone, kCommunication)), format_seconds(said.communication),
             format_seconds(slowest(hidden, kSeconds)));
}

void measure_all(Bench& bench, const HsdpOptions& o) {
  GptConfig model = gpt_preset(o.model);
  model.storage = parse_storage(o.dtype);
  if (!bench.has_machine()) throw Error(Verdict::usage, "add --machine NAME: the result depends on nodes and links");
  for (const int ranks : bench.ranks()) {
    shardings_of(o, bench.run_options(ranks).machine, ranks, 1);  // throws before anything is printed
    say("{} in {}, {}, {} ranks; bytes are totals over the ranks of a node\n"
        "{:>10} {:>2} {:>10} {:>10} {:>10} {:>10} {:>10} {:>10} {:>10} {:>10} {:>10}\n",
        o.model, o.dtype, counted(o.batch, "sequence per rank and microbatch"), ranks, "sharding", "m", "state",
        "(formula)", "inside", "(formula)", "across", "(formula)", "comm.", "(formula)", "a step");
    for (const int microbatches : counts_in("--microbatches", o.microbatches, 4096))
      for (const Sharding& sharding : shardings_of(o, bench.run_options(ranks).machine, ranks, microbatches))
        measure(bench, sharding, o, model);
  }
  bench.run();
}

}  // namespace
}  // namespace lockstep::bench

int main(int argc, char** argv) {
  using namespace lockstep;
  bench::HsdpOptions o;
  auto declare = [&](CommandLine& line) {
    line.add("--model", o.model, "a preset, as for ./lab train");
    line.add("--dtype", o.dtype, "type of parameters and gradients: fp32, bf16 or fp16");
    line.add("--within", o.within,
             "ranks that together hold one copy of the state: node, or numbers that divide it; separate several with "
             "commas");
    line.add("--microbatches", o.microbatches, "microbatches per step; separate several with commas");
    line.add("--batch", o.batch, "sequences per rank and microbatch", Whole{1, 4096});
  };
  return bench::bench_main("hsdp", "Full and hybrid sharding: bytes by level of links, memory, time.", argc, argv,
                           declare, [&](bench::Bench& bench) { bench::measure_all(bench, o); });
}
