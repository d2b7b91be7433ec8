// ./lab bench hsdp: compares full sharding (22.4) with hybrid sharding (22.8): bytes by level of links, memory and time
// of a training step, by formula and in a run.
//
//   ./lab bench hsdp --machine dgx-a100-10gbe --ranks 16 --model gpt2-355m --microbatches 1,4 --phantom
//   ./lab bench hsdp --machine dgx-h100 --ranks 8 --model gpt2-355m --within 2,4,8 --phantom
#include "labs/week22_zero/hsdp.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "bench/support/batch.hpp"
#include "bench/support/bench.hpp"
#include "common/gpt/model/serial.hpp"
#include "common/runtime/ledger/ledger.hpp"
#include "common/support/text/counted.hpp"
#include "common/support/text/numbers.hpp"
#include "common/support/text/storage.hpp"
#include "common/support/text/units.hpp"
#include "labs/week22_zero/memory_calculator.hpp"

namespace lockstep::bench {
namespace {

using week22::Hybrid;
using week22::LevelBytes;
using week22::Pass;

constexpr float kRate = 0.01f;

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

struct Step {
  GptConfig config;
  std::size_t sequences = 1;
};

/// One rank's model, sharded.
class Replica {
 public:
  Replica(Rank me, const Step& step, const Sharding& sharding, int prefetch)
      : me_(me),
        shape_(sharding.shape),
        gpt_(me, step.config, 1, Owns::nothing),
        saved_(gpt_.allocate_activations(me, step.sequences, step.config.context)),
        loss_(me.allocate(1, DType::f32, Category::activation)) {
    const std::vector<Parameter> table = gpt_.parameters().list;
    const GptConfig config = step.config;
    const week22::ShardedModel model{table, week22::wrap(table, {}), gpt_usage_order(config),
                                     [table, config](Rank rank, std::size_t i, std::size_t first, Slice part) {
                                       initialise_part(rank, config, table[i], i, first, std::move(part), 1);
                                     }};
    const week22::FsdpOptions options{.prefetch = prefetch,
                                      .precision = {config.storage, config.storage, config.storage},
                                      .adamw = {.epsilon = 1e-3f}};
    const week22::BindTensor bind = [this](std::size_t i, Slice value, Slice gradient) {
      gpt_.bind(i, std::move(value), std::move(gradient));
    };
    if (sharding.full) {
      fsdp_ = week22::make_fsdp(me, model, options, bind);
    } else {
      auto made = week22::make_hsdp(week21::split_by_node(me, shape_.ranks_per_node), model, options, bind);
      hsdp_ = made.get();
      fsdp_ = std::move(made);
    }
    for (int i = 0; i < shape_.microbatches; ++i) batches_.push_back(batch_of(me.rank(), i));
  }

  Batch batch_of(int rank, int i) {
    const auto number = static_cast<std::size_t>(rank * shape_.microbatches + i);
    return counted_batch(me_, number * saved_.sequences, saved_.sequences, saved_.length, gpt_.config().vocabulary);
  }

  void step() {
    for (int i = 0; i < shape_.microbatches; ++i) {
      if (hsdp_) hsdp_->reduce_across(i + 1 == shape_.microbatches);
      pass(
          gpt_, batches_[static_cast<std::size_t>(i)], [this](Pass p, std::size_t piece) { fsdp_->before(p, piece); },
          [this](Pass p) { fsdp_->end(p); });
    }
    fsdp_->step(kRate);
  }

  /// Distance of this rank's shard from that of one rank that takes the same step alone, relative to the step's length.
  double error() {
    Gpt whole(me_, gpt_.config(), 1);
    fill(me_, whole.parameters().gradients, 0);
    const std::vector<float> first = to_host(me_, whole.parameters().values);
    Optimizer optimizer(me_, whole.parameters(), {.epsilon = 1e-3f});
    for (int rank = 0; rank < me_.size(); ++rank)
      for (int i = 0; i < shape_.microbatches; ++i) pass(whole, batch_of(rank, i), {}, {});
    scale(me_, whole.parameters().gradients, 1 / static_cast<float>(me_.size()));
    optimizer.step(me_, kRate);
    const std::vector<float> then = to_host(me_, whole.parameters().values);
    const std::vector<Unit> units = week22::wrap(whole.parameters().list, {});
    const int group = hsdp_ ? shape_.ranks_per_node : me_.size();
    double gap = 0, moved = 0;
    for (std::size_t u = 0; u < units.size(); ++u) {
      const std::vector<float> mine = to_host(me_, fsdp_->value_shares()[u]);
      const std::size_t offset = units[u].offset + units[u].shard(me_.rank() % group, group).offset;
      for (std::size_t i = 0; i < mine.size(); ++i) {
        gap += std::pow(static_cast<double>(mine[i]) - then[offset + i], 2);
        moved += std::pow(static_cast<double>(then[offset + i]) - first[offset + i], 2);
      }
    }
    return moved > 0 ? std::sqrt(gap / moved) : 0;
  }

 private:
  void pass(const Gpt& gpt, const Batch& batch, const std::function<void(Pass, std::size_t)>& before,
            const std::function<void(Pass)>& end) {
    const auto of = [&before](Pass p) {
      return before ? BeforePiece([&before, p](std::size_t piece) { before(p, piece); }) : BeforePiece{};
    };
    fill(me_, loss_, 0);
    gpt.forward(me_, batch, saved_, of(Pass::forward));
    if (end) end(Pass::forward);
    cross_entropy(me_, loss_, saved_.logits, batch.targets,
                  1 / static_cast<float>(batch.rows() * static_cast<std::size_t>(shape_.microbatches)));
    gpt.backward(me_, batch, saved_, {}, of(Pass::backward));
    if (end) end(Pass::backward);
  }

  Rank me_;
  Hybrid shape_;
  Gpt gpt_;
  Activations saved_;
  Slice loss_;
  std::unique_ptr<week22::Fsdp> fsdp_;
  week22::Hsdp* hsdp_ = nullptr;  // fsdp_, if it is an Hsdp
  std::vector<Batch> batches_;
};

/// Indices of a rank's results.
constexpr std::size_t kSeconds = 0, kCommunication = 1, kInside = 2, kAcross = 3, kState = 4, kError = 5;

/// Runs two steps on a rank. Results of the second: seconds, those in collectives, bytes by level of links, bytes of
/// state; and the error of the first.
Values run_steps(Rank me, const Step& step, const Sharding& sharding, int prefetch, bool verify) {
  Replica replica(me, step, sharding, prefetch);
  replica.step();
  const double error = verify ? replica.error() : 0;
  const RankLedger before = ledger_of(me);
  const double began = me.now();
  replica.step();
  const double seconds = me.now() - began;
  const RankLedger after = ledger_of(me);
  double communication = 0, inside = 0, across = 0, state = 0;
  for (const char* name : {"all_gather", "reduce_scatter"}) {
    const RegionTotal *was = before.region(name), *is = after.region(name);
    if (is) communication += is->seconds - (was ? was->seconds : 0);
  }
  for (int peer = 0; peer < me.size(); ++peer)
    (peer / sharding.node == me.rank() / sharding.node ? inside : across) +=
        static_cast<double>(after.sent_to(peer) - before.sent_to(peer));
  for (const Category kind : {Category::parameter, Category::gradient, Category::optimizer})
    state += static_cast<double>(after.memory.live_of(kind));
  return {seconds, communication, inside, across, state, error};
}

double most(const Outcome& outcome, std::size_t field) {
  double value = 0;
  for (const Values& seen : outcome.values) value = std::max(value, seen[field]);
  return value;
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
Prediction predict(const Sharding& sharding, const Step& step, const Machine& machine) {
  const Hybrid& shape = sharding.shape;
  const week21::CostModel all = week21::cost_model(machine, shape.ranks()),
                          inside = week21::cost_model(machine, shape.ranks_per_node),
                          across = week21::cost_of_all_at_once(machine, shape.ranks());
  Prediction said;
  const double element = static_cast<double>(bytes_of(step.config.storage));
  for (const Unit& unit : week22::wrap(gpt_parameter_table(step.config), {})) {
    const double bytes = element * static_cast<double>(unit.size);
    said.communication += sharding.full ? week22::full_sharding_seconds(shape, all, bytes)
                                        : week22::hybrid_seconds(shape, inside, across, bytes);
  }
  const auto parameters = static_cast<double>(step.config.parameters());
  said.sent = sharding.full ? week22::full_sharding_bytes(shape, element * parameters)
                            : week22::hybrid_bytes(shape, element * parameters);
  said.state = week22::model_state(parameters, 3, sharding.full ? shape.ranks() : shape.ranks_per_node,
                                   week22::recipe_of(step.config.storage))
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
    const int g = text == "node" ? node : static_cast<int>(number_in("--within", text, 1, 1e6));
    if (node % g != 0)
      throw Error(Verdict::usage, fmt::format("--within {} does not divide a node of {} ranks", g, node));
    all.push_back({fmt::format("hybrid:{}", g), {ranks / g, g, microbatches}, node, false});
  }
  return all;
}

void measure(Bench& bench, const Sharding& sharding, const Step& step, const std::string& model) {
  const Hybrid& shape = sharding.shape;
  const RunOptions options = bench.run_options(shape.ranks());
  const auto run_with = [&](int prefetch) {
    return run(options, [&](Rank me) { return run_steps(me, step, sharding, prefetch, !options.phantom); });
  };
  const Outcome alone = run_with(0), hidden = run_with(1);
  alone.check();
  hidden.check();
  const double error = std::max(most(alone, kError), most(hidden, kError));
  if (error > (step.config.storage == DType::f32 ? 1e-3 : 0.1))
    throw Error(Verdict::fail,
                fmt::format("{}: the step differs from that of a single rank: {:.3g} of it", sharding.name, error));
  const Prediction said = predict(sharding, step, options.machine);
  Row row;
  row.set("backend", backend_name()).set("machine", options.machine.name).set("ranks", shape.ranks());
  row.set("method", sharding.name).set("model", model).set("ranks_per_node", sharding.node);
  row.set("microbatches", shape.microbatches).set("batch_sequences", step.sequences);
  row.set("state_bytes", most(hidden, kState)).set("predicted_state_bytes", said.state);
  row.set("bytes_inside_node", of_a_node(hidden, kInside, sharding.node))
      .set("predicted_bytes_inside_node", said.sent.inside);
  row.set("bytes_across_nodes", of_a_node(hidden, kAcross, sharding.node))
      .set("predicted_bytes_across_nodes", said.sent.across);
  row.set("communication_seconds", most(alone, kCommunication))
      .set("predicted_communication_seconds", said.communication);
  row.set("seconds_without_overlap", most(alone, kSeconds)).set("seconds", most(hidden, kSeconds));
  bench.report(row);
  if (!is_judge()) return;
  const auto bytes = [](double value) { return std::isnan(value) ? std::string("-") : format_bytes(value); };
  fmt::print("{:>10} {:>2} {:>10} {:>10} {:>10} {:>10} {:>10} {:>10} {:>10} {:>10} {:>10}\n", sharding.name,
             shape.microbatches, bytes(most(hidden, kState)), bytes(said.state),
             bytes(of_a_node(hidden, kInside, sharding.node)), bytes(said.sent.inside),
             bytes(of_a_node(hidden, kAcross, sharding.node)), bytes(said.sent.across),
             format_seconds(most(alone, kCommunication)), format_seconds(said.communication),
             format_seconds(most(hidden, kSeconds)));
}

void measure_all(Bench& bench, const HsdpOptions& o) {
  Step step{gpt_preset(o.model), static_cast<std::size_t>(o.batch)};
  step.config.storage = parse_storage(o.dtype);
  if (!bench.has_machine()) throw Error(Verdict::usage, "add --machine: its nodes and links matter here");
  for (const int ranks : bench.ranks()) {
    shardings_of(o, bench.run_options(ranks).machine, ranks, 1);  // throws before anything is printed
    if (is_judge())
      fmt::print(
          "{} in {}, {}, {} ranks; bytes are totals over the ranks of a node\n"
          "{:>10} {:>2} {:>10} {:>10} {:>10} {:>10} {:>10} {:>10} {:>10} {:>10} {:>10}\n",
          o.model, o.dtype, counted(o.batch, "sequence per rank and microbatch"), ranks, "sharding", "m", "state",
          "(formula)", "inside", "(formula)", "across", "(formula)", "comm.", "(formula)", "a step");
    for (const std::string& text : o.microbatches)
      for (const Sharding& sharding : shardings_of(o, bench.run_options(ranks).machine, ranks,
                                                   static_cast<int>(number_in("--microbatches", text, 1, 4096))))
        measure(bench, sharding, step, o.model);
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
    line.add("--dtype", o.dtype, "type of values and gradients: fp32, bf16 or fp16");
    line.add("--within", o.within,
             "ranks that together hold one copy of the state: node, or numbers that divide it; separate several with "
             "commas");
    line.add("--microbatches", o.microbatches, "microbatches per step; separate several with commas");
    line.add("--batch", o.batch, "sequences per rank and microbatch", Whole{1, 4096});
  };
  return bench::bench_main("hsdp", "Full and hybrid sharding: bytes by level of links, memory, time.", argc, argv,
                           declare, [&](bench::Bench& bench) { bench::measure_all(bench, o); });
}
