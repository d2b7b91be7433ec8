#include "tools/analyse/drill/drills.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <limits>
#include <numeric>

#include "common/analysis/why.hpp"
#include "labs/trainer/worker.hpp"
#include "tools/analyse/drill/kinds.hpp"
#include "tools/analyse/drill/plant.hpp"

namespace lockstep::drill {
namespace {

/// So slow that a model this computer trains within a second takes the virtual time of a large one: nodes of four.
Machine slow_cluster() {
  Machine machine;
  machine.name = "drill";
  machine.levels = {{"in the node", 4, 20e-6, 100e6, false}, {"between nodes", 0, 50e-6, 10e6, false}};
  machine.peak_flop_per_second.fill(5e9);
  machine.memory_bytes_per_second = 5e9;
  machine.memory_bytes = 16e9;
  machine.launch = 10e-6;
  return machine;
}

Job job(std::string title, week25::MeshShape mesh, std::size_t vocabulary) {
  Job job{.title = std::move(title), .options = {}, .machine = slow_cluster()};
  week25::Options3d& o = job.options;
  o.model = {.layers = 4, .heads = 4, .d_model = 64, .vocabulary = vocabulary, .context = 32, .tied_head = false};
  o.mesh = mesh;
  o.batch = 16;
  o.sequence = 32;
  o.bucket_bytes = 200 << 10;
  return job;
}

std::vector<Drill> all_drills(std::size_t vocabulary) {
  std::vector<Drill> all;
  all.push_back({"21",
                 job("data parallelism on 4 ranks", {.dp = 4}, vocabulary),
                 {"straggler", "slow-loader", "flipped-bit", "swapped-order", "wrong-count", "same-data"}});
  all.push_back({"22",
                 job("4 replicas, ZeRO-1", {.dp = 4}, vocabulary),
                 {"norm-not-summed", "sync-in-no-sync", "straggler", "slow-loader", "same-data"}});
  all.back().job.options.zero = 1;
  all.back().job.options.microbatches = 4;
  all.push_back({"23",
                 job("2 replicas × 4 tensor-parallel ranks on two nodes", {.dp = 2, .tp = 4}, vocabulary),
                 {"mesh-order", "norm-not-summed", "sync-in-no-sync", "straggler", "slow-loader"}});
  all.back().job.options.microbatches = 4;
  all.push_back({"24",
                 job("a pipeline of 4 stages, 1F1B", {.pp = 4}, vocabulary),
                 {"long-warm-up", "short-warm-up", "crossed-microbatches", "lost-message", "straggler"}});
  all.back().job.options.model.layers = 6;
  all.back().job.options.microbatches = 8;
  all.push_back({"25",
                 job("2 replicas × 2 tensor-parallel ranks × 2 stages on two nodes, ZeRO-1", {2, 2, 2}, vocabulary),
                 {"straggler", "slow-loader", "lost-message", "mesh-order", "norm-not-summed"}});
  all.back().job.options.zero = 1;
  all.back().job.options.microbatches = 4;
  return all;
}

/// splitmix64: the same draws for the same seed, everywhere.
class Draw {
 public:
  explicit Draw(std::uint64_t seed) : state_(seed) {}
  /// From 0 to count − 1.
  int below(int count) {
    std::uint64_t x = state_ += 0x9e3779b97f4a7c15u;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return static_cast<int>((x ^ (x >> 31)) % static_cast<std::uint64_t>(count));
  }

 private:
  std::uint64_t state_;
};

/// Bytes of rank 0's buckets, in the order of a step.
std::vector<std::uint64_t> bucket_bytes(const Played& good) {
  std::vector<std::uint64_t> bytes;
  for (const Collective& c : good.collectives)
    if (c.rank == 0 && c.step == 0) bytes.push_back(c.bytes);
  return bytes;
}

/// A bucket that is not as long as the next one: else who swaps them is not found by their bytes.
int bucket_to_swap(const std::vector<std::uint64_t>& bytes, Draw& draw) {
  std::vector<int> fit;
  for (std::size_t b = 0; b + 1 < bytes.size(); ++b)
    if (bytes[b] != bytes[b + 1]) fit.push_back(static_cast<int>(b));
  return fit.at(static_cast<std::size_t>(draw.below(static_cast<int>(fit.size()))));
}

void draw_bucket(Fault& fault, const std::vector<std::uint64_t>& bytes, Draw& draw) {
  fault.bucket = fault.is("swapped-order") ? bucket_to_swap(bytes, draw) : draw.below(static_cast<int>(bytes.size()));
  fault.element = static_cast<std::size_t>(draw.below(1 << 20));
  fault.bit = 24 + draw.below(3);
  fault.left_out = static_cast<std::size_t>(1 + draw.below(64));
}

/// So much slower that a step is, too.
void draw_slow_operation(Fault& fault, Draw& draw) {
  const char* const slow[] = {"matmul", "attention_backward", "gelu_backward"};
  fault.operation = slow[draw.below(3)];
  fault.factor = fault.operation == "matmul" ? 2 + draw.below(2) : 20 + draw.below(10);
}

int stage_of(const Job& job, int rank) { return week25::coordinate_of(job.options.mesh, job.options.order, rank).pp; }

/// −1 for a fault on every rank. The last stage sends no activations, has no warm-up, and does each backward right
/// after its forward.
void draw_rank(Fault& fault, const Job& job, Draw& draw) {
  if (fault.is("mesh-order") || fault.is("norm-not-summed") || fault.is("sync-in-no-sync")) return;
  const bool not_last = fault.is("short-warm-up") || fault.is("crossed-microbatches") || fault.is("lost-message");
  do fault.rank = draw.below(job.ranks());
  while (not_last && stage_of(job, fault.rank) + 1 == job.options.mesh.pp);
}

const Collective& collective_at(const Played& played, const Fault& fault) {
  int bucket = 0;
  for (const Collective& c : played.collectives)
    if (c.rank == fault.rank && c.step == fault.step && bucket++ == fault.bucket) return c;
  throw Error(Verdict::fail, "the run ended before its fault");
}

const analysis::RankUse& use_of(const analysis::Why& why, int rank) {
  return why.use.at(static_cast<std::size_t>(rank));
}

/// Σ over the ranks of what each rank saw of a step; NaN where one has not ended it.
double sum_over_ranks(const Job& job, const Played& played, int step) {
  double sum = 0;
  int seen = 0;
  for (const StepSeen& s : played.steps)
    if (s.step == step) sum += s.loss, ++seen;
  return seen == job.ranks() ? sum : std::numeric_limits<double>::quiet_NaN();
}

double first_other_loss(const Job& job, const Played& good, const Played& played) {
  for (int step = 0; step < job.steps; ++step)
    if (loss_of(job, played, step) != loss_of(job, good, step)) return loss_of(job, played, step);
  throw Error(Verdict::fail, "the fault changed no loss");
}

/// The first step of a stage that is not the good schedule's, and how many are in flight.
void say_of_schedule(const Job& job, const Fault& fault, Truth& truth) {
  const StageSchedule good = good_schedule(job, stage_of(job, fault.rank)), faulty = faulty_schedule(good, fault);
  truth.operation = to_string(*std::mismatch(faulty.begin(), faulty.end(), good.begin()).first);
  truth.evidence = peak_in_flight(faulty);
}

void say_of_mesh(const Job& job, const Played& played, Truth& truth) {
  truth.rank = std::to_string(week25::rank_of(job.options.mesh, kFaultyOrder, {.tp = 1}));
  truth.operation = "ring_all_reduce";
  truth.evidence =
      static_cast<double>(std::accumulate(played.across_nodes.begin(), played.across_nodes.end(), std::uint64_t{0}));
}

const StepSeen& first_step(const Played& played, int rank) {
  for (const StepSeen& s : played.steps)
    if (s.rank == rank && s.step == 0) return s;
  throw Error(Verdict::fail, fmt::format("rank {} has not ended a step", rank));
}

}  // namespace

std::vector<std::string> drill_ids() {
  std::vector<std::string> ids;
  for (const Drill& drill : all_drills(1)) ids.push_back(drill.id);
  return ids;
}

Drill find_drill(std::string_view id, std::size_t vocabulary) {
  for (Drill& drill : all_drills(vocabulary))
    if (drill.id == id) return std::move(drill);
  throw Error(Verdict::usage, fmt::format("there is no drill '{}': there are {}", id, fmt::join(drill_ids(), ", ")));
}

double loss_of(const Job& job, const Played& played, int step) {
  return sum_over_ranks(job, played, step) / (job.options.mesh.dp * job.options.mesh.tp);
}

StageSchedule good_schedule(const Job& job, int stage) { return week25::stage_schedule(job.options, stage); }

Fault fault_of(const Drill& drill, const Played& good, std::uint64_t seed) {
  Fault fault{.kind = drill.kinds[seed % drill.kinds.size()]};
  Draw draw(seed);
  const Job& job = drill.job;
  draw_rank(fault, job, draw);
  const bool once =
      fault.is("flipped-bit") || fault.is("swapped-order") || fault.is("wrong-count") || fault.is("lost-message");
  if (once) fault.step = 1 + draw.below(job.steps - 2);  // neither the first nor the last
  if (once && !fault.is("lost-message")) draw_bucket(fault, bucket_bytes(good), draw);
  if (fault.is("straggler")) draw_slow_operation(fault, draw);
  if (fault.is("slow-loader")) fault.seconds = 0.02 + 0.001 * draw.below(20);
  if (fault.is("crossed-microbatches")) fault.microbatch = draw.below(job.options.microbatches - 1);
  if (fault.is("norm-not-summed")) fault.operation = job.options.zero > 0 ? "dp" : "tp";
  return fault;
}

Truth truth_of(const Drill& drill, const Fault& fault, const Played& good, const Played& played) {
  const Kind& kind = kind_of(fault.kind);
  const Job& job = drill.job;
  Truth truth{.kind = fault.kind,
              .rank = fault.rank < 0 ? "all" : std::to_string(fault.rank),
              .operation = fault.operation,
              .unit = kind.unit,
              .tolerance = kind.tolerance};
  if (fault.is("straggler")) {
    truth.evidence = use_of(analysis::why(played.outcome.trace), fault.rank).arithmetic;
  } else if (fault.is("slow-loader")) {
    truth.operation = "data";
    truth.evidence = use_of(analysis::why(played.outcome.trace), fault.rank).loading;
  } else if (fault.is("long-warm-up") || fault.is("short-warm-up")) {
    say_of_schedule(job, fault, truth);
  } else if (fault.is("crossed-microbatches")) {
    truth.operation = to_string(Step{Work::forward, fault.microbatch + 1});
    truth.evidence = first_other_loss(job, good, played);
  } else if (fault.is("lost-message")) {
    truth.operation = to_string(Step{Work::forward, job.options.microbatches - 1});
    truth.evidence = fault.step + 1;
  } else if (fault.is("mesh-order")) {
    say_of_mesh(job, played, truth);
  } else if (fault.is("sync-in-no-sync")) {
    truth.operation = "ring_all_reduce";
    truth.evidence = static_cast<double>(played.outcome.ledgers.front().traffic.bytes_sent);
  } else if (fault.is("norm-not-summed")) {
    truth.evidence = first_step(played, 0).norm;
  } else if (fault.is("same-data")) {
    truth.operation = "data";
    truth.evidence = first_step(played, fault.rank).loss;
  } else {
    const Collective& c = collective_at(played, fault);
    truth.operation = fmt::format("all_reduce {}", c.number);
    truth.evidence = fault.is("flipped-bit") ? c.step + 1 : static_cast<double>(c.bytes);
  }
  return truth;
}

}  // namespace lockstep::drill
