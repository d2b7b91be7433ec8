#include "tools/train/volume.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include "common/error.hpp"
#include "common/support/json/results.hpp"
#include "common/support/json/whose_code.hpp"
#include "common/support/text/counted.hpp"
#include "common/support/text/units.hpp"
#include "tools/train/program.hpp"

namespace lockstep::train {

namespace {

constexpr int kSteps = 4, kCounted = 2;  // the first step is logged, and the last has no next one

/// A rank's place on each axis, by the order in which axes number the ranks.
week25::Coordinate place_of(const week25::Options3d& o, int rank) {
  week25::Coordinate at;
  for (const week25::Axis axis : o.order) {
    (axis == week25::Axis::dp ? at.dp : axis == week25::Axis::tp ? at.tp : at.pp) = rank % o.mesh[axis];
    rank /= o.mesh[axis];
  }
  return at;
}

const char* axis_between(const week25::Options3d& o, int rank, int peer, const std::string& collective) {
  const week25::Coordinate a = place_of(o, rank), b = place_of(o, peer);
  if (a.pp != b.pp) return "pipeline";
  if (a.tp != b.tp) return "tensor";
  return collective.starts_with("ring attention") ? "context" : "data";
}

/// The region in a transfer's name: "reduce_scatter: 2 transfers, 64 bytes".
std::string region_of(const std::string& name) {
  const std::size_t end = name.find(": ");
  return end == name.npos ? "" : name.substr(0, end);
}

/// A rank's counted step, and when the next began.
struct CountedStep {
  double begin = 0, end = 0, next = 0;

  /// Other queues may run on when the step has ended, and main then does something else.
  bool has(const TraceEvent& event) const {
    return event.begin >= begin && event.begin < (event.queue == 0 ? end : next);
  }
};

/// By rank.
std::map<int, CountedStep> counted_steps(const Trace& trace) {
  std::map<int, std::vector<const TraceEvent*>> steps;
  for (const TraceEvent& event : trace.events)
    if (event.region() && event.name == "step") steps[event.rank].push_back(&event);
  std::map<int, CountedStep> all;
  for (auto& [rank, of] : steps) {
    std::sort(of.begin(), of.end(), [](const TraceEvent* a, const TraceEvent* b) { return a->begin < b->begin; });
    all[rank] = {of.at(kCounted)->begin, of.at(kCounted)->end, of.at(kCounted + 1)->begin};
  }
  return all;
}

/// Elements along an axis, in the letters of meanings().
std::string formula_of(const TrainPlan& plan, const std::string& axis) {
  const week25::Options3d& o = plan.step;
  if (axis == "tensor") return fmt::format("{}LNC(t−1)/t + …", tensor_halves(o));
  if (axis == "pipeline") return o.sequence_parallel ? "NC/t a boundary + …" : "NC a boundary + …";
  if (axis == "context") return fmt::format("{}LNK", context_messages(o));
  if (!plan.request.compress.empty()) return plan.request.compress;
  if (o.is_hybrid()) return fmt::format("{}Ψ(g−1)/g + 2Ψ(k−1)/gk", data_halves(o));
  return fmt::format("{}Ψ(d−1)/d", data_halves(o));
}

/// The meaning of each letter in this run.
std::vector<std::string> meanings(const TrainPlan& plan) {
  const week25::Options3d& o = plan.step;
  std::vector<std::string> all;
  double parameters = 0;
  for (int stage = 0; stage < o.mesh.pp; ++stage)
    parameters += static_cast<double>(week25::stage_parameters(o, stage)) / o.mesh.pp;
  const bool layers = o.mesh.tp > 1 || o.cp > 1;
  if (o.data_ranks() > 1) {
    all.push_back(fmt::format("Ψ   {:.10g} parameters of a rank", parameters));
    all.push_back(fmt::format("d   {} ranks average gradients", o.data_ranks()));
  }
  if (o.is_hybrid())
    all.push_back(fmt::format("g   {} of them hold one copy of the state, k = {}", o.state_ranks(),
                              o.data_ranks() / o.state_ranks()));
  if (layers)
    all.push_back(fmt::format("L   {:.4g} layers of a rank", static_cast<double>(o.model.layers) / o.mesh.pp));
  if (layers || o.mesh.pp > 1)
    all.push_back(fmt::format("N   {} tokens of a rank in a step", plan.tokens_per_step() / o.data_ranks()));
  if (o.mesh.tp > 1 || o.mesh.pp > 1) all.push_back(fmt::format("C   {}, the model's width", o.model.d_model));
  if (o.mesh.tp > 1) all.push_back(fmt::format("t   {} ranks share a layer", o.mesh.tp));
  if (o.cp > 1)
    all.push_back(
        fmt::format("K   {} keys and values of a token", (o.model.qkv_width() - o.model.d_model) / o.mesh.tp));
  if (o.mesh.tp > 1 || o.mesh.pp > 1) all.emplace_back("…   embedding, head and loss; numbers that all must know");
  all.push_back(fmt::format("bytes of an element: {} of an activation, {} of a gradient", bytes_of(o.model.storage),
                            bytes_of(o.reduce)));
  return all;
}

Row row_of(const CountedTraffic& counted) {
  Row row;
  row.set("axis", counted.axis).set("collective", counted.collective);
  row.set("batches", counted.batches).set("bytes_sent", counted.bytes).set("predicted_bytes_sent", NAN);
  return row;
}

}  // namespace

TrainRequest counted_run(TrainRequest request) {
  for (const char* option : {"--steps", "--trace", "--checkpoint", "--resume", "--explain-as", "--emulate"})
    if (request.asks(option))
      throw Error(Verdict::usage, fmt::format("{} has no effect on what a step sends: leave it out", option));
  if (request.outer_steps > 0)
    throw Error(Verdict::usage,
                "--outer-steps: no step sends what the next one does, so one says nothing of the others");
  if (request.phantom && !request.every_rank)
    throw Error(Verdict::usage,
                "--phantom runs one rank of each stage, and what is counted is what all send: add --every-rank");
  request.steps = kSteps;
  request.log_every = request.validate_every = kSteps;
  request.sample = 0;
  return request;
}

std::vector<CountedTraffic> counted_traffic(const TrainPlan& plan) {
  RunOptions traced = plan.run;
  traced.trace = true;
  TrainLog log(plan, nullptr);
  checkpoint::Disk disk;
  StopSignals signals(false);
  const Outcome outcome = run(traced, [&](Rank me) { return train_rank(me, plan, log, disk, signals); });
  if (!outcome.passed()) throw Error(outcome.verdict, outcome.message);
  const std::map<int, CountedStep> steps = counted_steps(outcome.trace);
  std::map<std::pair<std::string, std::string>, CountedTraffic> found;
  const double ranks = plan.run.ranks;
  for (const TraceEvent& event : outcome.trace.events) {
    if (!event.transfer() || !steps.at(event.rank).has(event)) continue;
    const std::string collective = region_of(event.name);
    const CountedTraffic* last = nullptr;
    for (const TraceMessage& message : event.transfer()->messages) {
      if (!message.sends) continue;
      const char* axis = axis_between(plan.step, event.rank, message.peer, collective);
      CountedTraffic& counted = found[{axis, collective}];
      counted.axis = axis;
      counted.collective = collective;
      counted.bytes += static_cast<double>(message.bytes) / ranks;
      if (last != &counted) counted.batches += 1 / ranks;
      last = &counted;
    }
  }
  std::vector<CountedTraffic> all;
  for (const char* axis : {"data", "context", "tensor", "pipeline"})
    for (const auto& [key, counted] : found)
      if (key.first == axis) all.push_back(counted);
  return all;
}

int report_volume(const TrainRequest& request, int available_ranks) {
  if (std::string_view(backend_name()) != "sim")
    throw Error(Verdict::usage, "what a step sends is counted in the simulator: leave out --backend");
  const TrainPlan plan = make_plan(counted_run(request), available_ranks);
  if (plan.run.ranks == 1) throw Error(Verdict::usage, "one rank sends nothing: try --dp 4");
  if (plan.step.has_experts())
    throw Error(Verdict::usage, "--volume: what a model with experts sends depends on what its routers choose");
  const std::vector<CountedTraffic> collectives = counted_traffic(plan);
  const AxisBytes predicted = predicted_traffic(plan, kCounted);
  const std::pair<const char*, double> axes[] = {{"data", predicted.data},
                                                 {"context", predicted.context},
                                                 {"tensor", predicted.tensor},
                                                 {"pipeline", predicted.pipeline}};
  fmt::print("what a rank sends in a step, the mean over {}\n\n", counted(plan.run.ranks, "rank"));
  fmt::print("{:<9} {:<23} {:>7} {:>9} {:>10}  elements\n", "axis", "collective", "batches", "sent", "predicted");
  std::vector<Row> rows;
  double all = 0;
  for (const auto& [axis, expected] : axes) {
    double sum = 0;
    for (const CountedTraffic& one : collectives) {
      if (one.axis != axis) continue;
      fmt::print("{:<9} {:<23} {:>7.4g} {:>9}\n", sum > 0 ? "" : axis,
                 one.collective.empty() ? "sends" : one.collective, one.batches, format_bytes(one.bytes));
      sum += one.bytes;
      rows.push_back(row_of(one));
    }
    if (sum == 0 && expected == 0) continue;
    fmt::print("{:<41} {:>9} {:>10}  {}\n", fmt::format("{:9} together", ""), format_bytes(sum), format_bytes(expected),
               formula_of(plan, axis));
    all += sum;
    rows.push_back(row_of({.axis = axis, .collective = "all", .bytes = sum}));
    rows.back().set("predicted_bytes_sent", expected);
  }
  fmt::print("{:<41} {:>9} {:>10}\n\n", "all", format_bytes(all), format_bytes(predicted.all()));
  for (const std::string& line : meanings(plan)) fmt::print("{}\n", line);
  if (!request.csv.empty()) write_csv(request.csv, rows);
  if (!request.json.empty()) write_results(request.json, context_of(plan), rows);
  return 0;
}

}  // namespace lockstep::train
