#include "tools/plan/refine.hpp"

#include <algorithm>
#include <map>
#include <tuple>

#include "common/error.hpp"
#include "labs/trainer/plan/simulate.hpp"

namespace lockstep::plan {

namespace {

using week25::Rated;
using week25::Strategy;
using Mesh = std::tuple<int, int, int, int>;
Mesh mesh_of(const Strategy& s) { return {s.dp, s.cp, s.tp, s.pp}; }

std::optional<week25::PhantomStep> play(const Task& task, const week25::Strategy& strategy) {
  try {
    return week25::phantom_step(options_of(task, strategy), task.cluster.machine, /*trace=*/false);
  } catch (const Error& error) {
    if (error.verdict() == Verdict::usage) return std::nullopt;
    throw;
  }
}

/// The fastest of each mesh, fastest first.
std::vector<Refined> sorted(const std::map<Mesh, Refined>& meshes) {
  std::vector<Refined> all;
  for (const auto& [mesh, refined] : meshes) all.push_back(refined);
  std::stable_sort(all.begin(), all.end(),
                   [](const Refined& a, const Refined& b) { return a.seconds() < b.seconds(); });
  return all;
}

/// The ranking that is known so far.
class Ranking {
 public:
  Ranking(const Task& task, std::size_t count, double most) : task_(task), count_(count), budget_(most) {}

  bool exhausted() const { return budget_ <= 0; }
  /// True if a strategy with this prediction may be among the best.
  bool hopes(const Rated& rated) const { return last_ == 0 || rated.time.total() < last_; }

  void play(const Rated& rated) {
    const Strategy& s = rated.strategy;
    ++played_;
    budget_ -= static_cast<double>(s.pp) * s.chunks * microbatches(task_, s);
    const Refined refined{rated, plan::play(task_, s)};
    if (refined.played && refined.played->peak_bytes() > task_.memory_bytes) return;
    const auto [known, is_new] = meshes_.try_emplace(mesh_of(s), refined);
    if (!is_new && refined.seconds() < known->second.seconds()) known->second = refined;
    if (meshes_.size() >= count_) last_ = sorted(meshes_)[count_ - 1].seconds();
  }
  /// The best, with their hops apart from the bubble.
  Refinement result(bool all) const {
    Refinement result{sorted(meshes_), played_, all};
    if (result.best.size() > count_) result.best.resize(count_);
    Predictor predictor(task_);
    for (Refined& refined : result.best) refined.rated = predictor.rate(refined.rated.strategy);
    return result;
  }

 private:
  const Task& task_;
  std::size_t count_;
  double budget_;
  double last_ = 0;  // of the best `count_`, once there are so many
  int played_ = 0;
  std::map<Mesh, Refined> meshes_;
};

}  // namespace

Refinement refine(const Task& task, const std::vector<Rated>& fitting, std::size_t count, double most) {
  Ranking ranking(task, count, most);
  std::vector<bool> played(fitting.size(), false);
  bool all = true;
  for (const int variants : {4, 24}) {
    std::map<Mesh, int> seen;
    all = true;
    for (std::size_t i = 0; i < fitting.size() && ranking.hopes(fitting[i]); ++i) {
      if (seen[mesh_of(fitting[i].strategy)]++ >= variants) {
        all = false;
        continue;
      }
      if (played[i]) continue;
      if (ranking.exhausted()) return ranking.result(false);
      played[i] = true;
      ranking.play(fitting[i]);
    }
  }
  return ranking.result(all);
}

std::vector<Refined> rank_by_simulator(const Task& task, Search& found) {
  constexpr std::size_t kMost = 10;
  const std::size_t listed = found.best.size();
  std::vector<Refined> ranked = refine(task, found.fitting, std::min(kMost, listed)).best;
  const auto mesh = [](const Rated& rated) { return mesh_of(rated.strategy); };
  std::vector<Rated> plans;
  for (const Refined& plan : ranked) plans.push_back(plan.rated);
  for (const Rated& other : found.best)
    if (plans.size() < listed &&
        std::none_of(ranked.begin(), ranked.end(), [&](const Refined& r) { return mesh(r.rated) == mesh(other); }))
      plans.push_back(other);
  found.best = std::move(plans);
  return ranked;
}

}  // namespace lockstep::plan
