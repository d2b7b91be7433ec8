#include "labs/trainer/plan/search.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <numeric>

#include "common/gpt/data/model_file.hpp"
#include "common/support/text/counted.hpp"
#include "labs/week22_zero/checkpointing.hpp"
#include "labs/week24_pipeline/schedules_by_name.hpp"

namespace lockstep::plan {

using week25::Rated;
using week25::Strategy;

namespace {

constexpr int kMostSequences = 64;  // limit for a microbatch: larger products are no faster
constexpr int kMostChunks = 16;

std::vector<int> divisors(int n) {
  std::vector<int> all;
  for (int d = 1; d <= n; ++d)
    if (n % d == 0) all.push_back(d);
  return all;
}

/// Rejects what a mixture of experts cannot do (23.7).
std::optional<Refusal> wrong_experts(const GptConfig& model, const Strategy& s) {
  const auto experts = static_cast<int>(model.architecture.experts);
  if (experts == 0 ? s.ep != 1 : s.ep < 1 || experts % s.ep != 0 || s.dp * s.tp % s.ep != 0)
    return Refusal{"ep does not divide the experts and dp · tp",
                   fmt::format("{} experts, and dp {} · tp {}, do not divide over ep {}", experts, s.dp, s.tp, s.ep)};
  if (experts > 0 && s.tp > 1 && !s.sequence_parallel)
    return Refusal{"experts with tensor parallelism alone",
                   fmt::format("tp {}: ranks have rows of their own only with sequence parallelism", s.tp)};
  if (experts > 0 && week24::splits_backwards(s.schedule))
    return Refusal{"zero bubble with experts", s.schedule + ": gradients of experts' weights are not delayed"};
  return std::nullopt;
}

std::optional<Refusal> wrong_mesh(const Task& task, const Strategy& s) {
  const GptConfig& model = task.model;
  if (static_cast<long long>(s.dp) * s.tp * s.pp != task.cluster.gpus)
    return Refusal{"not the cluster's number of GPUs",
                   fmt::format("dp {}{} × tp {} × pp {} is {} GPUs, and {} has {}", replicas(s),
                               s.cp == 1 ? "" : fmt::format(" × cp {}", s.cp), s.tp, s.pp,
                               static_cast<long long>(s.dp) * s.tp * s.pp, task.cluster.name, task.cluster.gpus)};
  if (model.heads % static_cast<std::size_t>(s.tp) != 0)
    return Refusal{"tp does not divide the heads",
                   fmt::format("{} heads do not divide over tp {}: a head is never split", model.heads, s.tp)};
  if (const std::size_t kv_heads = model.architecture.key_value_heads(model.heads);
      kv_heads % static_cast<std::size_t>(s.tp) != 0)
    return Refusal{
        "tp does not divide the key-value heads",
        fmt::format("{} key-value heads do not divide over tp {}: a head is never split or copied", kv_heads, s.tp)};
  if (model.mlp_width() % static_cast<std::size_t>(s.tp) != 0)
    return Refusal{"tp does not divide the MLP",
                   fmt::format("an MLP {} wide does not divide over tp {}", model.mlp_width(), s.tp)};
  if (s.cp < 1 || s.dp % s.cp != 0)
    return Refusal{
        "cp does not divide the ranks",
        fmt::format("{} ranks besides tp {} and pp {} do not divide into replicas of {} that share their sequences",
                    s.dp, s.tp, s.pp, s.cp)};
  if (task.global_batch % replicas(s) != 0)
    return Refusal{"dp does not divide the global batch",
                   fmt::format("{} {} not divide over dp {}", counted(task.global_batch, "sequence"),
                               task.global_batch == 1 ? "does" : "do", replicas(s))};
  return week25::wrong_shape(model, task.length, s);
}

}  // namespace

Task preset_task(const std::string& model, const std::string& cluster, int batch, const std::string& machines) {
  Task task{.model_name = model, .model = find_model(model)};
  task.model.storage = DType::bf16;
  task.cluster = find_cluster(cluster, machines);
  task.global_batch = batch;
  task.length = task.model.context;
  task.memory_bytes = task.cluster.machine.memory_bytes;
  return task;
}

std::optional<Refusal> why_not(const Task& task, const Strategy& s) {
  if (auto refusal = wrong_mesh(task, s)) return refusal;
  if (task.offload != Offload::none && s.zero < least_zero(task.offload))
    return Refusal{kNotOffloaded,
                   fmt::format("ZeRO-{} has what is to be offloaded on every GPU: {}", s.zero,
                               task.offload == Offload::optimizer ? "use ZeRO-2 or 3"
                                                                  : "only ZeRO-3 gathers parameters for each layer")};
  if (auto refusal = wrong_experts(task.model, s)) return refusal;
  const int replica = task.global_batch / replicas(s);
  if (replica % s.microbatch != 0)
    return Refusal{"the microbatch does not divide a replica's batch",
                   fmt::format("a replica has {} of the {} sequences, and microbatches of {} do not divide them",
                               replica, task.global_batch, s.microbatch)};
  const int m = replica / s.microbatch;
  if (s.pp == 1 && s.schedule != "1f1b")
    return Refusal{"a schedule without a pipeline", fmt::format("{} with pp 1: there are no stages", s.schedule)};
  if (s.schedule == "interleaved" && s.chunks < 2)
    return Refusal{"interleaving without chunks", "interleaved with one chunk per stage is 1f1b"};
  if (auto refusal = week25::wrong_schedule(s, m)) return refusal;
  if (s.selective && (s.recompute || task.model.attention == AttentionKind::flash))
    return Refusal{"selective recomputation of what is not kept",
                   s.recompute
                       ? "either whole blocks or only their probabilities are recomputed, not both"
                       : "selective recomputes probabilities, which flash attention does not keep: none or full, "
                         "or --attention materialised"};
  if (auto refusal = week25::wrong_sharding(task.model, s, holders(task, s))) return refusal;
  const std::size_t rows = static_cast<std::size_t>(s.microbatch) * task.length / static_cast<std::size_t>(s.cp);
  if (s.sequence_parallel && rows % static_cast<std::size_t>(s.tp) != 0)
    return Refusal{"tp does not divide the rows",
                   fmt::format("sequence parallelism cannot shard {} rows of a microbatch over tp {}", rows, s.tp)};
  return std::nullopt;
}

int microbatches(const Task& task, const Strategy& strategy) {
  return task.global_batch / replicas(strategy) / strategy.microbatch;
}

std::string format_strategy(const Strategy& s) {
  std::string text = fmt::format("dp {}{} · tp {} · pp {} · microbatch {}", replicas(s),
                                 s.cp > 1 ? fmt::format(" · cp {}", s.cp) : "", s.tp, s.pp, s.microbatch);
  if (s.ep > 1) text += fmt::format(" · ep {}", s.ep);
  if (s.pp > 1) text += " · " + s.schedule;
  if (s.chunks > 1) text += fmt::format(", {} chunks", s.chunks);
  if (s.zero > 0) text += fmt::format(" · ZeRO-{}", s.zero);
  if (s.recompute || s.selective) text += s.selective ? " · selective recomputation" : " · recomputation";
  if (s.sequence_parallel) text += " · sequence parallelism";
  return text;
}

namespace {

/// By stage: the most that all its chunks together hold at one time; m beyond 3p does not change it.
std::vector<double> in_flight_together(const Strategy& strategy, int microbatches) {
  const PipelineShape shape =
      week24::shape_of(strategy.schedule, strategy.pp, std::min(microbatches, 3 * strategy.pp), strategy.chunks);
  std::vector<double> most;
  for (const StageSchedule& stage : week24::make_schedule(strategy.schedule, shape))
    most.push_back(static_cast<double>(peak_in_flight(stage)) / strategy.chunks);
  return most;
}

}  // namespace

const Predictor::Pipelines& Predictor::pipelines(const Strategy& strategy, const week25::Workload& work,
                                                 bool hops_apart) {
  const auto key =
      std::tuple(strategy.cp, strategy.tp, strategy.pp, strategy.microbatch, strategy.schedule, strategy.chunks,
                 strategy.recompute   ? 2
                 : strategy.selective ? 1
                                      : 0,
                 strategy.sequence_parallel, strategy.ep);
  const auto [known, is_new] = pipelines_.try_emplace(key);
  Pipelines& played = known->second;
  if (is_new) {
    played.pipeline = week25::pipeline(strategy, work);
    if (task_.one_pool && strategy.chunks > 1)
      played.pipeline.in_flight = in_flight_together(strategy, work.microbatches);
  }
  if (hops_apart && !played.without_hops) {
    week25::Workload still = work;
    for (week25::StageWork& stage : still.stages) stage.hop = stage.hop_occupied = 0;
    played.without_hops = week25::pipeline(strategy, still);
  }
  return played;
}

Rated Predictor::rate(const Strategy& asked, bool hops_apart) {
  Strategy strategy = asked;
  strategy.fp32_gradients = task_.model.fp32_gradients || (task_.fp32_reduction && strategy.zero > 1);
  Strategy group = strategy;  // the ranks that shard the state
  group.dp = holders(task_, strategy);
  week25::Workload work = pricer_.work(strategy, microbatches(task_, strategy), group.dp);
  for (week25::StageWork& stage : work.stages) {
    if (!task_.overlap) stage.window = 0;
    stage.after += slowed(group, work, stage);
    stage.after += work.microbatches * task_.copied_bytes * stage.parameters / work.memory_bytes_per_second;
    if (group.dp < strategy.dp) stage.after += exposed_rail(strategy, group, work, stage);
  }
  Strategy own = strategy;  // of a mixture: dp ranks have the same experts, and tp neighbours all of them
  own.dp = strategy.dp * strategy.tp / strategy.ep, own.tp = strategy.ep;
  week25::Workload experts;
  if (task_.model.architecture.experts > 0) experts = pricer_.experts(strategy, own, work);
  for (std::size_t s = 0; s < experts.stages.size(); ++s)
    work.stages[s].after += experts.stages[s].after + week25::exposed_data(own, experts, experts.stages[s]) +
                            slowed(own, experts, experts.stages[s]);
  const Pipelines& played = pipelines(strategy, work, hops_apart);
  const week25::Pipeline& pipeline = played.pipeline;
  const week25::Pipeline& without_hops = hops_apart ? *played.without_hops : pipeline;
  Rated rated{strategy, week25::step_time(group, work, pipeline, without_hops), {}};
  if (experts.stages.empty())
    rated.memory = week25::largest_memory(group, work, pipeline);
  else
    rated.time.update += week25::step_time(own, experts, pipeline, without_hops).update;
  for (std::size_t s = 0; s < experts.stages.size(); ++s) {
    week25::StageBytes bytes = largest_memory(group, {.stages = {work.stages[s]}}, {{}, {pipeline.in_flight[s]}});
    const week22::ModelState more = largest_memory(own, {.stages = {experts.stages[s]}}, {{}, {0}}).state;
    bytes.state.parameter_bytes += more.parameter_bytes, bytes.state.gradient_bytes += more.gradient_bytes;
    bytes.state.optimizer_bytes += more.optimizer_bytes;
    if (bytes.total_bytes() > rated.memory.total_bytes()) rated.memory = bytes;
  }
  if (task_.offload != Offload::none) {
    rated.time.update = work.norm;
    rated.time.host = on_host(strategy).seconds();
    rated.memory.state.gradient_bytes = rated.memory.state.optimizer_bytes = 0;
    if (task_.offload == Offload::parameters) rated.memory.state.parameter_bytes = 0;
  }
  if (task_.load_rate > 0)  // the next batch is loaded while a step computes
    rated.time.input = std::max(0.0, loaded_tokens(task_, strategy) / task_.load_rate - rated.time.total());
  return rated;
}

HostCost Predictor::on_host(const Strategy& strategy) {
  const int m = microbatches(task_, strategy), ranks = holders(task_, strategy);
  const week25::StageWork stage = pricer_.work(strategy, m, ranks).stages.front();  // ZeRO-2 and 3 have no other
  const double window = task_.overlap ? stage.window : 0;
  return host_cost(*task_.cluster.machine.host, task_.offload,
                   {.elements = stage.parameters / ranks,
                    .late = stage.late / ranks,
                    .microbatches = m,
                    .forward = window * stage.forward / stage.backward,
                    .backward = window,
                    .gpus = gpus_of_host(task_)});
}

double Predictor::slowed(const Strategy& group, const week25::Workload& work, const week25::StageWork& stage) const {
  const double share = data_share(task_.cluster.machine, group);
  if (share == 0 || group.dp == 1) return 0;
  const double m = work.microbatches, v = group.chunks, others = stage.parameters - stage.late;
  const double scatter = week25::scatter_seconds(group, work, others);
  const double gather = task_.gathered * week25::gather_seconds(group, work, others);
  const double forward = stage.backward > 0 ? stage.window * stage.forward / stage.backward : 0;
  const double last = stage.window * (1 + (v - 1) * group.pp) / v;
  // Seconds by which `hidden` seconds of collectives lengthen `window` seconds of work.
  const auto longer = [share](double hidden, double window) {
    const double exposed = std::max(0.0, hidden - window);
    return window > 0 ? std::max(share * hidden, exposed) - exposed : 0;
  };
  switch (group.zero) {
    case 0: return longer(scatter + gather, last);
    case 1: return longer(scatter, last);
    case 2: return m * longer(scatter, stage.window);
    default: return m * (longer(gather, forward) + longer(gather + scatter, stage.window));
  }
}

double Predictor::exposed_rail(const Strategy& strategy, const Strategy& group, const week25::Workload& work,
                               const week25::StageWork& stage) {
  const int copies = strategy.dp / group.dp;
  const week21::CostModel rail = ring_prices(
      task_.cluster.machine, {.dp = copies, .tp = strategy.tp * group.dp, .pp = strategy.pp}, week25::Axis::dp);
  const double seconds = week21::ring_all_reduce_seconds(rail, copies, 2 * stage.parameters / group.dp);
  const double inside =
      week25::gather_seconds(group, work, stage.parameters) + week25::scatter_seconds(group, work, stage.parameters);
  const double exposed = std::max(0.0, seconds - std::max(0.0, stage.window - inside));
  return exposed + data_share(task_.cluster.machine, strategy) * (seconds - exposed);
}

std::optional<Refusal> Predictor::too_large(const Rated& rated) {
  const double needed = rated.memory.total_bytes();
  if (needed <= task_.memory_bytes && task_.offload != Offload::none) {
    const double of_host = on_host(rated.strategy).bytes * gpus_of_host(task_);
    if (const double has = task_.cluster.machine.host->memory_bytes; of_host > has)
      return Refusal{kHostMemory, fmt::format("{} need {:.4g} GB of their host's {:.4g}",
                                              counted(gpus_of_host(task_), "GPU"), of_host / 1e9, has / 1e9)};
  }
  if (needed <= task_.memory_bytes) return std::nullopt;
  return Refusal{kMemory,
                 fmt::format("needs {:.1f} GB of a GPU's {:.1f}: parameters {:.1f}, gradients {:.1f}, optimizer "
                             "{:.1f}, activations {:.1f}",
                             needed / 1e9, task_.memory_bytes / 1e9, rated.memory.state.parameter_bytes / 1e9,
                             rated.memory.state.gradient_bytes / 1e9, rated.memory.state.optimizer_bytes / 1e9,
                             rated.memory.activation_bytes / 1e9)};
}

namespace {

/// Appends all variants of a mesh and microbatch.
void vary(const Task& task, Strategy mesh, std::vector<Strategy>& all) {
  std::vector<std::pair<std::string, int>> schedules{{"1f1b", 1}};
  if (mesh.pp > 1) schedules.insert(schedules.end(), {{"gpipe", 1}, {"zb-h1", 1}});
  const int pieces = static_cast<int>(task.model.layers) + 2;
  if (mesh.pp > 1 && 2 * mesh.pp <= pieces) schedules.emplace_back("zb-v", 2);
  for (int v = 2; mesh.pp > 1 && v <= kMostChunks && v * mesh.pp <= pieces; ++v)
    schedules.emplace_back("interleaved", v);
  using week22::Recompute;
  std::vector<Recompute> kinds{Recompute::none, Recompute::full};
  if (task.model.attention == AttentionKind::materialised) kinds.push_back(Recompute::selective);
  for (const auto& [schedule, chunks] : schedules)
    for (int zero = 0; zero <= (mesh.pp > 1 ? 1 : 3); ++zero)
      for (const week22::Recompute recompute : kinds)
        for (const bool sequence_parallel : {false, true}) {
          if (sequence_parallel && mesh.tp == 1) continue;
          Strategy strategy = mesh;
          strategy.schedule = schedule;
          strategy.chunks = chunks;
          strategy.zero = zero;
          strategy.recompute = recompute == week22::Recompute::full;
          strategy.selective = recompute == week22::Recompute::selective;
          strategy.sequence_parallel = sequence_parallel;
          all.push_back(std::move(strategy));
        }
}

}  // namespace

std::vector<Strategy> strategies(const Task& task) {
  std::vector<Strategy> all;
  const int experts = std::max(1, static_cast<int>(task.model.architecture.experts));
  for (const int tp : divisors(task.cluster.gpus))
    for (const int pp : divisors(task.cluster.gpus / tp))
      for (const int cp : task.cps) {
        Strategy mesh{.dp = task.cluster.gpus / tp / pp, .tp = tp, .pp = pp};
        if (mesh.dp % cp != 0) continue;  // too few ranks to share a sequence
        mesh.cp = cp;
        if (wrong_mesh(task, mesh)) {
          all.push_back(mesh);  // reported once, as rejected
          continue;
        }
        for (const int b : divisors(task.global_batch / replicas(mesh))) {
          if (b > kMostSequences) break;
          mesh.microbatch = b;
          for (const int ep : divisors(std::gcd(experts, mesh.dp * mesh.tp))) {
            mesh.ep = ep;
            vary(task, mesh, all);
          }
        }
      }
  return all;
}

namespace {

/// The fastest strategy of each (dp, cp, tp, pp): variants of one mesh would fill the list.
std::vector<Rated> best_of_each_mesh(std::vector<Rated> all) {
  std::map<std::tuple<int, int, int, int>, Rated> best;
  for (Rated& rated : all) {
    const Strategy& s = rated.strategy;
    const auto [known, is_new] = best.try_emplace({s.dp, s.cp, s.tp, s.pp}, rated);
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
    const Rated rated = predictor.rate(strategy, /*hops_apart=*/false);
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
  for (std::vector<Rated>* shown : {&result.best, &result.unlimited, &result.smallest})
    for (Rated& rated : *shown) rated = predictor.rate(rated.strategy);
  result.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  return result;
}

}  // namespace lockstep::plan
