#include "labs/trainer/plan/search.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>

namespace lockstep::plan {

using week25::Rated;
using week25::Strategy;

namespace {

constexpr int kMostSequences = 64;  // of a microbatch: beyond that no product gets faster
constexpr int kMostChunks = 16;

std::vector<int> divisors(int n) {
  std::vector<int> all;
  for (int d = 1; d <= n; ++d)
    if (n % d == 0) all.push_back(d);
  return all;
}

std::optional<Refusal> wrong_mesh(const Task& task, const Strategy& s) {
  const GptConfig& model = task.model;
  if (static_cast<long long>(s.dp) * s.tp * s.pp != task.cluster.gpus)
    return Refusal{"not the cluster's number of GPUs",
                   fmt::format("dp {} × tp {} × pp {} is {} GPUs, and {} has {}", s.dp, s.tp, s.pp,
                               static_cast<long long>(s.dp) * s.tp * s.pp, task.cluster.name, task.cluster.gpus)};
  if (model.heads % static_cast<std::size_t>(s.tp) != 0)
    return Refusal{"tp does not divide the heads",
                   fmt::format("{} heads do not divide over tp {}: a head is never split", model.heads, s.tp)};
  if (task.global_batch % s.dp != 0)
    return Refusal{"dp does not divide the global batch",
                   fmt::format("{} sequences do not divide over dp {}", task.global_batch, s.dp)};
  const auto parts = static_cast<std::size_t>(s.pp) * static_cast<std::size_t>(s.chunks);
  if (model.layers + 2 < parts)
    return Refusal{"more parts of the pipeline than layers",
                   fmt::format("{} layers, embedding and head cannot fill {} parts (pp {} × {} chunk{})", model.layers,
                               parts, s.pp, s.chunks, s.chunks == 1 ? "" : "s")};
  return std::nullopt;
}

}  // namespace

Task preset_task(const std::string& model, const std::string& cluster, int batch, const std::string& machines) {
  Task task{.model_name = model, .model = gpt_preset(model)};
  task.model.storage = DType::bf16;
  task.cluster = find_cluster(cluster, machines);
  task.global_batch = batch;
  task.length = task.model.context;
  task.memory_bytes = task.cluster.machine.memory_bytes;
  return task;
}

std::optional<Refusal> why_not(const Task& task, const Strategy& s) {
  if (auto refusal = wrong_mesh(task, s)) return refusal;
  const int replica = task.global_batch / s.dp;
  if (replica % s.microbatch != 0)
    return Refusal{"the microbatch does not divide a replica's batch",
                   fmt::format("a replica has {} of the {} sequences, and microbatches of {} do not divide them",
                               replica, task.global_batch, s.microbatch)};
  const int m = replica / s.microbatch;
  if (s.pp == 1 && s.schedule != "1f1b")
    return Refusal{"a schedule without a pipeline", fmt::format("{} with pp 1: there are no stages", s.schedule)};
  if (s.chunks > 1 && s.schedule != "interleaved")
    return Refusal{"chunks without interleaving",
                   fmt::format("{} has one chunk a stage, not {}", s.schedule, s.chunks)};
  if (s.schedule == "interleaved" && s.chunks < 2)
    return Refusal{"interleaving without chunks", "interleaved with one chunk a stage is 1f1b"};
  if (s.schedule == "interleaved" && m % s.pp != 0)
    return Refusal{"interleaving wants whole groups of microbatches",
                   fmt::format("{} microbatches are no multiple of pp {}", m, s.pp)};
  if (s.schedule == "zb-h1" && s.tp > 1)
    return Refusal{"zero bubble with tensor parallelism",
                   fmt::format("zb-h1 with tp {}: the layers hide their sums behind the gradients of weights, which "
                               "therefore cannot wait",
                               s.tp)};
  if (s.schedule == "zb-h1" && s.recompute)
    return Refusal{"zero bubble with recomputation",
                   "zb-h1 with recomputation: the weights' half would keep what recomputation is to save"};
  if (s.zero > 1 && s.pp > 1)
    return Refusal{
        "ZeRO-2 and 3 with a pipeline",
        fmt::format("ZeRO-{} would sum gradients, or gather parameters, of each of {} microbatches on each of "
                    "{} stages: 0 or 1 with a pipeline",
                    s.zero, m, s.pp)};
  if (s.sequence_parallel && s.tp == 1)
    return Refusal{"sequence parallelism without tensor parallelism",
                   "sequence parallelism with tp 1 has no rows to cut"};
  const std::size_t rows = static_cast<std::size_t>(s.microbatch) * task.length;
  if (s.sequence_parallel && rows % static_cast<std::size_t>(s.tp) != 0)
    return Refusal{"tp does not divide the rows",
                   fmt::format("sequence parallelism cuts {} rows of a microbatch over tp {}", rows, s.tp)};
  return std::nullopt;
}

int microbatches(const Task& task, const Strategy& strategy) {
  return task.global_batch / strategy.dp / strategy.microbatch;
}

std::string format_strategy(const Strategy& s) {
  std::string text = fmt::format("dp {} · tp {} · pp {} · microbatch {}", s.dp, s.tp, s.pp, s.microbatch);
  if (s.pp > 1) text += " · " + s.schedule;
  if (s.chunks > 1) text += fmt::format(", {} chunks", s.chunks);
  if (s.zero > 0) text += fmt::format(" · ZeRO-{}", s.zero);
  if (s.recompute) text += " · recomputation";
  if (s.sequence_parallel) text += " · sequence parallelism";
  return text;
}

const Predictor::Pipelines& Predictor::pipelines(const Strategy& strategy, const week25::Workload& work) {
  const auto key = std::tuple(strategy.tp, strategy.pp, strategy.microbatch, strategy.schedule, strategy.chunks,
                              strategy.recompute, strategy.sequence_parallel);
  if (const auto known = pipelines_.find(key); known != pipelines_.end()) return known->second;
  week25::Workload still = work;
  for (week25::StageWork& stage : still.stages) stage.hop = 0;
  return pipelines_[key] = {week25::pipeline(strategy, work), week25::pipeline(strategy, still)};
}

Rated Predictor::rate(const Strategy& strategy) {
  week25::Workload work = pricer_.work(strategy, microbatches(task_, strategy));
  for (week25::StageWork& stage : work.stages)
    if (!task_.overlap) stage.window = 0;
  const auto& [pipeline, without_hops] = pipelines(strategy, work);
  return {strategy, week25::step_time(strategy, work, pipeline, without_hops),
          week25::largest_memory(strategy, work, pipeline)};
}

std::optional<Refusal> Predictor::too_large(const Rated& rated) const {
  const double needed = rated.memory.total_bytes();
  if (needed <= task_.memory_bytes) return std::nullopt;
  return Refusal{kMemory,
                 fmt::format("needs {:.1f} GB of a GPU's {:.1f}: parameters {:.1f}, gradients {:.1f}, optimizer "
                             "{:.1f}, activations {:.1f}",
                             needed / 1e9, task_.memory_bytes / 1e9, rated.memory.state.parameter_bytes / 1e9,
                             rated.memory.state.gradient_bytes / 1e9, rated.memory.state.optimizer_bytes / 1e9,
                             rated.memory.activation_bytes / 1e9)};
}

namespace {

/// Appends what a mesh and a microbatch can vary.
void vary(const Task& task, Strategy mesh, std::vector<Strategy>& all) {
  std::vector<std::pair<std::string, int>> schedules{{"1f1b", 1}};
  if (mesh.pp > 1) schedules.insert(schedules.end(), {{"gpipe", 1}, {"zb-h1", 1}});
  for (int v = 2; mesh.pp > 1 && v <= kMostChunks && v * mesh.pp <= static_cast<int>(task.model.layers) + 2; ++v)
    schedules.emplace_back("interleaved", v);
  for (const auto& [schedule, chunks] : schedules)
    for (int zero = 0; zero <= (mesh.pp > 1 ? 1 : 3); ++zero)
      for (const bool recompute : {false, true})
        for (const bool sequence_parallel : {false, true}) {
          if (sequence_parallel && mesh.tp == 1) continue;
          Strategy strategy = mesh;
          strategy.schedule = schedule;
          strategy.chunks = chunks;
          strategy.zero = zero;
          strategy.recompute = recompute;
          strategy.sequence_parallel = sequence_parallel;
          all.push_back(std::move(strategy));
        }
}

}  // namespace

std::vector<Strategy> strategies(const Task& task) {
  std::vector<Strategy> all;
  for (const int tp : divisors(task.cluster.gpus))
    for (const int pp : divisors(task.cluster.gpus / tp)) {
      Strategy mesh{.dp = task.cluster.gpus / tp / pp, .tp = tp, .pp = pp};
      if (wrong_mesh(task, mesh)) {
        all.push_back(mesh);  // to be refused, once
        continue;
      }
      for (const int b : divisors(task.global_batch / mesh.dp)) {
        if (b > kMostSequences) break;
        mesh.microbatch = b;
        vary(task, mesh, all);
      }
    }
  return all;
}

namespace {

/// The fastest of each (dp, tp, pp): a list of variants of one mesh helps nobody.
std::vector<Rated> best_of_each_mesh(std::vector<Rated> all) {
  std::map<std::tuple<int, int, int>, Rated> best;
  for (Rated& rated : all) {
    const Strategy& s = rated.strategy;
    const auto [known, is_new] = best.try_emplace({s.dp, s.tp, s.pp}, rated);
    if (!is_new && rated.time.total() < known->second.time.total()) known->second = std::move(rated);
  }
  std::vector<Rated> meshes;
  for (auto& [mesh, rated] : best) meshes.push_back(std::move(rated));
  return meshes;
}

}  // namespace

Search search(Predictor& predictor, const std::vector<Strategy>& strategies, std::size_t count) {
  const auto begin = std::chrono::steady_clock::now();
  Search result;
  std::vector<Rated> fitting;
  const auto refuse = [&](const Strategy& strategy, const Refusal& refusal) {
    Refused& refused = result.refused[refusal.reason];
    if (refused.count++ == 0) refused = {1, format_strategy(strategy), refusal.sentence};
  };
  const auto keep = [](std::vector<Rated>& best, const Rated& rated, double value, double of_best) {
    if (best.empty())
      best.push_back(rated);
    else if (value < of_best)
      best.front() = rated;
  };
  for (const Strategy& strategy : strategies) {
    ++result.candidates;
    if (const auto refusal = why_not(predictor.task(), strategy)) {
      refuse(strategy, *refusal);
      continue;
    }
    const Rated rated = predictor.rate(strategy);
    ++result.rated;
    keep(result.unlimited, rated, rated.time.total(),
         result.unlimited.empty() ? 0 : result.unlimited.front().time.total());
    keep(result.smallest, rated, rated.memory.total_bytes(),
         result.smallest.empty() ? 0 : result.smallest.front().memory.total_bytes());
    if (const auto refusal = predictor.too_large(rated))
      refuse(strategy, *refusal);
    else
      fitting.push_back(rated);
  }
  result.best = week25::choose(best_of_each_mesh(fitting), predictor.task().memory_bytes, count);
  std::stable_sort(fitting.begin(), fitting.end(),
                   [](const Rated& a, const Rated& b) { return a.time.total() < b.time.total(); });
  result.fitting = std::move(fitting);
  result.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  return result;
}

}  // namespace lockstep::plan
