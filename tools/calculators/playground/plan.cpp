// The best layouts of a small cluster: what `./lab plan --fast` ranks, by the planner of 25.3 and 25.6.
#include <algorithm>
#include <bit>
#include <map>
#include <optional>
#include <tuple>

#include "labs/trainer/plan/search.hpp"
#include "tools/analyse/view/json_text.hpp"
#include "tools/calculators/playground/answer.hpp"
#include "tools/calculators/playground/planned.hpp"

namespace lockstep::playground {

namespace {

using plan::Search;
using plan::Task;
using week25::Axis;
using week25::Rated;
using week25::Strategy;

/// A power of two, as are all numbers of GPUs and sequences for which the page has costs.
int power_of_two(const Request& request, const std::string& name, int most) {
  const int value = request.count(name, most);
  if (!std::has_single_bit(static_cast<unsigned>(value)))
    throw Error(Verdict::usage, fmt::format("{} is {}, not a power of two", name, value));
  return value;
}

/// The first `gpus` of as many nodes as they need.
plan::Cluster cluster_of(const std::string& name, int gpus) {
  if (std::none_of(kPlannedMachines.begin(), kPlannedMachines.end(), [&](const auto& m) { return name == m.file; }))
    throw Error(Verdict::usage, fmt::format("there is no machine '{}' here", name));
  plan::Cluster cluster{.name = name, .machine = planned_machine(name), .gpus = gpus};
  const int node = cluster.machine.levels.at(cluster.machine.levels.size() - 2).ranks;
  cluster.nodes = (gpus + node - 1) / node;
  return cluster;
}

Task task_of(const Request& request) {
  const std::string& model = request.text("model");
  if (std::none_of(kPlannedModels.begin(), kPlannedModels.end(), [&](const auto& name) { return model == name; }))
    throw Error(Verdict::usage, fmt::format("there is no model '{}' here", model));
  Task task{.model_name = model, .model = gpt_preset(model)};
  task.model.storage = DType::bf16;
  task.cluster = cluster_of(request.text("machine"), power_of_two(request, "gpus", kMostPlannedGpus));
  task.global_batch = power_of_two(request, "batch", kMostPlannedSequences);
  task.length = task.model.context;
  task.memory_bytes = task.cluster.machine.memory_bytes;
  return task;
}

/// The ZeRO stage and recomputation asked for; "any" lets the planner choose.
class Wish {
 public:
  explicit Wish(const Request& request) : zero_(choice(request, "zero", 3)), again_(choice(request, "again", 1)) {}
  bool met(const Strategy& s) const {
    return (zero_ < 0 || s.zero == zero_) && (again_ < 0 || s.recompute == (again_ > 0));
  }
  /// A strategy of the same mesh that meets it, and may make no sense.
  Strategy of(Strategy s) const {
    if (zero_ >= 0) s.zero = zero_;
    if (again_ >= 0) s.recompute = again_ > 0;
    return s;
  }

 private:
  static int choice(const Request& request, const std::string& name, int most) {
    return request.text(name) == "any" ? -1 : request.whole(name, 0, most);
  }
  int zero_, again_;
};

/// One mesh, and the best that the planner finds for it: the fastest that fits, or what needs the least memory.
struct Layout {
  Strategy mesh;
  std::optional<Rated> rated;  ///< nothing where no strategy is valid
  bool fits = false;
  std::string refused;  ///< why nothing fits, or is valid
};

Layout layout_of(plan::Predictor& predictor, const Wish& wish, const std::vector<Strategy>& of_mesh) {
  std::vector<Strategy> wished;
  std::copy_if(of_mesh.begin(), of_mesh.end(), std::back_inserter(wished), [&](const auto& s) { return wish.met(s); });
  if (wished.empty()) wished.push_back(wish.of(of_mesh.front()));
  const Search found = plan::search(predictor, wished, 1);
  Layout layout{of_mesh.front(), {}, !found.best.empty(), {}};
  if (layout.fits)
    layout.rated = found.best.front();
  else if (found.rated > 0)
    layout.rated = found.smallest.front();
  if (layout.fits) return layout;
  layout.refused = layout.rated ? predictor.too_large(*layout.rated)->sentence : found.refused.begin()->second.sentence;
  return layout;
}

/// Fastest first; then what does not fit, smallest first; then what is not valid.
std::vector<Layout> layouts_of(plan::Predictor& predictor, const Wish& wish) {
  std::map<std::tuple<int, int, int>, std::vector<Strategy>> meshes;
  for (const Strategy& s : plan::strategies(predictor.task())) meshes[{s.tp, s.pp, s.dp}].push_back(s);
  std::vector<Layout> all;
  for (const auto& [mesh, of_mesh] : meshes) all.push_back(layout_of(predictor, wish, of_mesh));
  const auto order = [](const Layout& layout) {
    if (!layout.rated) return std::tuple(2, 0.0);
    return layout.fits ? std::tuple(0, layout.rated->time.total()) : std::tuple(1, layout.rated->memory.total_bytes());
  };
  std::stable_sort(all.begin(), all.end(), [&](const auto& a, const auto& b) { return order(a) < order(b); });
  return all;
}

/// "over NVLink": the slowest link that a ring along the axis crosses.
std::string links_of(const Task& task, const Strategy& s, Axis axis) {
  const int level =
      week25::slowest_level(task.cluster.machine, {.dp = s.dp, .tp = s.tp, .pp = s.pp}, week25::kMegatronOrder, axis);
  return level < 0 ? "" : " over " + task.cluster.machine.levels[static_cast<std::size_t>(level)].name;
}

/// A step's largest overhead, in words that continue "loses 12% to …".
std::string loss(const Task& task, const Rated& rated) {
  const Strategy& s = rated.strategy;
  const std::string name = week25::largest_overhead(rated.time).name;
  if (name == "tensor parallelism")
    return fmt::format("{} between the {} GPUs that share each layer{}",
                       s.sequence_parallel ? "gathers and scatters" : "all-reduces", s.tp, links_of(task, s, Axis::tp));
  if (name == "data parallelism")
    return fmt::format("{} between {} replicas{}",
                       s.zero == 3 ? "gathering parameters and reducing gradients" : "reducing gradients", s.dp,
                       links_of(task, s, Axis::dp));
  if (name == "bubble")
    return fmt::format("the bubble of {} stages with {} microbatches", s.pp, plan::microbatches(task, s));
  if (name == "pipeline hops") return fmt::format("messages between {} stages{}", s.pp, links_of(task, s, Axis::pp));
  return name == "recomputation" ? "recomputing activations, which saves memory" : "the optimizer's update";
}

std::string numbers(const std::vector<double>& all) {
  return view::list(all, [](double value) { return fmt::format("{}", value); });
}

std::string rated_json(const Task& task, const Rated& rated) {
  const Strategy& s = rated.strategy;
  const week25::StepTime& t = rated.time;
  const week25::StageBytes& m = rated.memory;
  return fmt::format(
      R"("words":{},"seconds":{},"tokens_per_second":{},"parts":{},"bytes":{},"memory":{},"lost":{},"to":{},"loss":{},)",
      view::text(plan::format_strategy(s)), t.total(), task.global_batch * static_cast<double>(task.length) / t.total(),
      numbers({t.compute, t.recomputed, t.tensor, t.bubble, t.hops, t.data, t.update}), m.total_bytes(),
      numbers({m.state.parameter_bytes, m.state.gradient_bytes, m.state.optimizer_bytes, m.activation_bytes}),
      week25::largest_overhead(t).seconds / t.total(), view::text(week25::largest_overhead(t).name),
      view::text(loss(task, rated)));
}

/// The lowest ZeRO stage with which data parallelism alone fits; −1: none.
int first_stage(plan::Predictor& predictor) {
  const std::vector<Strategy> all = plan::strategies(predictor.task());
  for (int zero = 0; zero <= 3; ++zero) {
    std::vector<Strategy> alone;
    std::copy_if(all.begin(), all.end(), std::back_inserter(alone),
                 [zero](const Strategy& s) { return s.tp == 1 && s.pp == 1 && s.zero == zero; });
    if (!plan::search(predictor, alone, 1).best.empty()) return zero;
  }
  return -1;
}

}  // namespace

std::string plan_layouts(const Request& request) {
  const Wish wish(request);
  plan::Predictor predictor(task_of(request));
  const Task& task = predictor.task();
  const std::vector<Layout> layouts = layouts_of(predictor, wish);
  return fmt::format(R"({{"limit":{},"nodes":{},"first_stage":{},"layouts":{}}})", task.memory_bytes,
                     task.cluster.nodes, first_stage(predictor), view::list(layouts, [&](const Layout& layout) {
                       const Strategy& s = layout.mesh;
                       return fmt::format(R"({{"dp":{},"tp":{},"pp":{},{}"fits":{},"refused":{}}})", s.dp, s.tp, s.pp,
                                          layout.rated ? rated_json(task, *layout.rated) : "", layout.fits,
                                          view::text(layout.refused));
                     }));
}

}  // namespace lockstep::playground
