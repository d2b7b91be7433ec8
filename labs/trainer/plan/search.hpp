// All strategies for a task: which are valid, how long each takes, and which are best.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "labs/trainer/plan/cluster.hpp"
#include "labs/trainer/plan/offload.hpp"
#include "labs/trainer/plan/pieces.hpp"
#include "labs/trainer/refusals.hpp"
#include "labs/week25_3d/step_time.hpp"

namespace lockstep::plan {

struct Task {
  std::string model_name;
  GptConfig model;  ///< stored in 16 bits; its gradients may be fp32
  Cluster cluster;
  int global_batch = 0;          ///< sequences per step
  std::size_t length = 0;        ///< tokens per sequence
  std::vector<int> cps{1};       ///< candidates for the number of ranks that share each sequence
  double memory_bytes = 0;       ///< of one GPU
  std::string units = "block";   ///< unit that ZeRO-2 and 3 reduce and gather at once: block, or layer (22.9a)
  int shard_group = 0;           ///< ranks that hold one copy of ZeRO-3's state (22.8); 0: all of dp
  bool overlap = true;           ///< hide gradient reductions behind the last backward, as in 21.7 and week 22
  bool overlap_tensor = true;    ///< hide tensor-parallel collectives behind products, as in 23.1d
  bool overlap_scatter = false;  ///< with sequence parallelism, also hide those of the backward
  bool overlap_gather = false;   ///< ZeRO-1 and 2: gather new values behind the next forward
  bool stops_early = false;      ///< recomputing a block ends when all that its backward reads is there
  bool fp32_reduction = false;   ///< ZeRO-2 and 3: 16-bit gradients are cast to be reduced, as by FSDP, not by the labs
  double copied_bytes = 0;  ///< read and written per parameter and microbatch, to copy what is gathered or scattered
  Unfused unfused;          ///< passes over memory that the labs do not make
  double gathered = 1;      ///< share of 16 bits in which ZeRO-3 gathers values, where that is hidden
  double imbalance = 1;     ///< of experts: the rows of the busiest rank / the average
  bool keeps_products = false;  ///< as PriceOptions': PyTorch's selective checkpointing of operations
  bool one_pool = false;        ///< a stage's chunks share memory, as with PyTorch's allocator, and never in the labs
  Offload offload = Offload::none;  ///< the states on the hosts, which the machine file must describe
  double load_rate = 0;  ///< tokens per second that each rank's loader delivers, ahead of use; 0: as many as are needed
};

/// GPUs that share a host.
inline int gpus_of_host(const Task& task) { return task.cluster.gpus / task.cluster.nodes; }

/// Returns a task for a preset in bf16 at its own context on a cluster (find_cluster), which may use all of a GPU's
/// memory.
Task preset_task(const std::string& model, const std::string& cluster, int batch, const std::string& machines);

using week25::Refusal;
inline constexpr const char* kMemory = "does not fit the memory";
inline constexpr const char* kHostMemory = "does not fit the host's memory";
inline constexpr const char* kNotOffloaded = "a ZeRO stage that is not offloaded";

/// Returns nothing if the strategy is valid. Does not check memory.
std::optional<Refusal> why_not(const Task& task, const week25::Strategy& strategy);
/// Returns m for a valid strategy.
int microbatches(const Task& task, const week25::Strategy& strategy);

/// Number of replicas: dp divided by the number of ranks that share a sequence.
inline int replicas(const week25::Strategy& strategy) { return strategy.dp / strategy.cp; }

/// Tokens that each rank loads for a step: its replica's.
inline double loaded_tokens(const Task& task, const week25::Strategy& strategy) {
  return static_cast<double>(task.global_batch) / replicas(strategy) * static_cast<double>(task.length);
}

/// Number of ranks that hold one copy of the state.
inline int holders(const Task& task, const week25::Strategy& strategy) {
  const bool groups = strategy.zero == 3 && task.shard_group > 0 && task.shard_group < strategy.dp;
  return groups ? task.shard_group : strategy.dp;
}

/// Returns "dp 8 · tp 8 · pp 16 · microbatch 1 · interleaved, 3 chunks · ZeRO-1 · recomputation · sequence
/// parallelism".
std::string format_strategy(const week25::Strategy& strategy);

/// Predicts strategies of one task; prices their common parts only once.
class Predictor {
 public:
  explicit Predictor(const Task& task)
      : task_(task),
        pricer_(task.model, task.cluster.machine, task.length,
                {task.units == "layer", task.overlap_tensor, task.overlap_scatter, task.overlap_gather,
                 task.stops_early, task.unfused, task.imbalance, task.keeps_products}) {}
  /// Rates a valid strategy, with gradients of the model's type. Unless `hops_apart`, hops are part of the bubble, and
  /// the pipeline is not played again without them: half the work.
  week25::Rated rate(const week25::Strategy& asked, bool hops_apart = true);
  /// Returns the reason if the strategy needs too much memory.
  std::optional<Refusal> too_large(const week25::Rated& rated);
  /// Cost of offloading, on top of a valid strategy's step.
  HostCost on_host(const week25::Strategy& strategy);
  const Task& task() const { return task_; }
  Pricer& pricer() { return pricer_; }

 private:
  struct Pipelines {
    week25::Pipeline pipeline;
    std::optional<week25::Pipeline> without_hops;
  };
  /// Exposed seconds per step in which the copies of the state average a shard of its gradients. The last backward
  /// hides the rest, in the time that the group's own gathers and reductions leave; the hidden part slows that backward
  /// by the fraction of the GPU that it occupies.
  double exposed_rail(const week25::Strategy& strategy, const week25::Strategy& group, const week25::Workload& work,
                      const week25::StageWork& stage);
  /// Seconds by which a stage's collectives along dp, with the library's prices, slow down the work that hides them.
  double slowed(const week25::Strategy& group, const week25::Workload& work, const week25::StageWork& stage) const;
  /// Returns the pipelines, which do not depend on the ZeRO stage.
  const Pipelines& pipelines(const week25::Strategy& strategy, const week25::Workload& work, bool hops_apart);

  Task task_;
  Pricer pricer_;
  std::map<std::tuple<int, int, int, int, std::string, int, int, bool, int>, Pipelines> pipelines_;
};

struct Refused {
  std::size_t count = 0;
  std::string example;   ///< a rejected strategy, in words
  std::string sentence;  ///< the reason
};

struct Search {
  std::vector<week25::Rated> best;         ///< by week25::choose
  std::vector<week25::Rated> fitting;      ///< all that fit, fastest first; hops are part of the bubble
  std::vector<week25::Rated> unlimited;    ///< the fastest if memory were unlimited; at most one
  std::vector<week25::Rated> smallest;     ///< the one with the least memory, whether it fits or not; at most one
  std::map<std::string, Refused> refused;  ///< by reason
  std::size_t candidates = 0;              ///< strategies considered, rejected ones included
  std::size_t rated = 0;                   ///< those that were priced
  double seconds = 0;                      ///< time the search took
};

/// Returns all strategies in a task's grid; an invalid mesh occurs once.
std::vector<week25::Strategy> strategies(const Task& task);

/// Rates all of them. Returns the `count` best.
Search search(Predictor& predictor, const std::vector<week25::Strategy>& strategies, std::size_t count);

}  // namespace lockstep::plan
