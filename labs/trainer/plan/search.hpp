// All strategies for a task: which of them can be, what each takes, which are best.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "labs/trainer/plan/cluster.hpp"
#include "labs/trainer/plan/pieces.hpp"

namespace lockstep::plan {

struct Task {
  std::string model_name;
  GptConfig model;  ///< stored in 16 bits
  Cluster cluster;
  int global_batch = 0;         ///< sequences of a step
  std::size_t length = 0;       ///< tokens of each
  std::vector<int> cps{1};      ///< how many ranks may share each sequence: those that are looked at
  double memory_bytes = 0;      ///< of one GPU
  std::string units = "block";  ///< what ZeRO-2 and 3 reduce and gather at once: block, or layer (22.4c)
  int shard_group = 0;          ///< ranks that hold ZeRO-3's state once among them (22.8); 0: all of dp
  bool overlap = true;  ///< sums of gradients go on behind the last backward, as 21.7's and 22's do, and those of
                        ///< tensor parallelism behind products, as 23.1d's
  bool overlap_scatter = false;  ///< with sequence parallelism, those of the backward too
  bool overlap_gather = false;   ///< ZeRO-1 and 2 gather new values behind the next forward
  bool one_pool = false;         ///< a stage's chunks share memory, as with PyTorch's allocator; the labs' never do
};

/// A preset in bf16 at its own context on a cluster (find_cluster), which may use all of a GPU's memory.
Task preset_task(const std::string& model, const std::string& cluster, int batch, const std::string& machines);

/// Why a strategy cannot be: of a kind, for counting, and in a sentence with its numbers.
struct Refusal {
  std::string reason;
  std::string sentence;
};
inline constexpr const char* kMemory = "does not fit the memory";

/// Nothing where the strategy can be; memory is not asked for.
std::optional<Refusal> why_not(const Task& task, const week25::Strategy& strategy);
/// m. The strategy can be.
int microbatches(const Task& task, const week25::Strategy& strategy);

/// Replicas: dp without the ranks that share their sequences.
inline int replicas(const week25::Strategy& strategy) { return strategy.dp / strategy.cp; }

/// The ranks that hold the state once among them.
inline int holders(const Task& task, const week25::Strategy& strategy) {
  const bool groups = strategy.zero == 3 && task.shard_group > 0 && task.shard_group < strategy.dp;
  return groups ? task.shard_group : strategy.dp;
}

/// "dp 8 · tp 8 · pp 16 · microbatch 1 · interleaved, 3 chunks · ZeRO-1 · recomputation · sequence parallelism"
std::string format_strategy(const week25::Strategy& strategy);

/// Predicts strategies of one task; what they share is priced once.
class Predictor {
 public:
  explicit Predictor(const Task& task)
      : task_(task),
        pricer_(task.model, task.cluster.machine, task.length,
                {task.units == "layer", task.overlap, task.overlap_scatter, task.overlap_gather}) {}
  /// The strategy can be.
  week25::Rated rate(const week25::Strategy& strategy);
  /// The refusal for memory, if it is one.
  std::optional<Refusal> too_large(const week25::Rated& rated) const;
  const Task& task() const { return task_; }
  Pricer& pricer() { return pricer_; }

 private:
  struct Pipelines {
    week25::Pipeline pipeline;
    week25::Pipeline without_hops;
  };
  /// Seconds in which the copies of the state average a share of its gradients, once a step, behind nothing: what the
  /// group's own gathers and sums leave of the last backward hides the rest, and takes longer by what they hold.
  double exposed_rail(const week25::Strategy& strategy, const week25::Strategy& group, const week25::Workload& work,
                      const week25::StageWork& stage);
  /// Seconds by which a stage's collectives along dp, with the library's prices, lengthen the work that hides them.
  double slowed(const week25::Strategy& group, const week25::Workload& work, const week25::StageWork& stage) const;
  /// The same at every ZeRO stage.
  const Pipelines& pipelines(const week25::Strategy& strategy, const week25::Workload& work);

  Task task_;
  Pricer pricer_;
  std::map<std::tuple<int, int, int, int, std::string, int, int, bool>, Pipelines> pipelines_;
};

struct Refused {
  std::size_t count = 0;
  std::string example;   ///< the strategy's words
  std::string sentence;  ///< and why not
};

struct Search {
  std::vector<week25::Rated> best;         ///< by week25::choose
  std::vector<week25::Rated> fitting;      ///< all that fit, fastest first
  std::vector<week25::Rated> unlimited;    ///< the fastest, if memory were no limit: at most one
  std::vector<week25::Rated> smallest;     ///< that which needs least memory, fitting or not: at most one
  std::map<std::string, Refused> refused;  ///< by reason
  std::size_t candidates = 0;              ///< looked at, refused ones included
  std::size_t rated = 0;                   ///< of them priced
  double seconds = 0;                      ///< of this computer's clock
};

/// All strategies that the grid of a task has, `like` (fields > 0 or not empty) those wanted alone.
std::vector<week25::Strategy> strategies(const Task& task);

/// Looks at all of them. `count` best ones.
Search search(Predictor& predictor, const std::vector<week25::Strategy>& strategies, std::size_t count);

}  // namespace lockstep::plan
