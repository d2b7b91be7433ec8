#include "tools/plan/published.hpp"

#include <functional>

#include "common/error.hpp"
#include "common/runtime/dry_run/dry_run.hpp"
#include "labs/trainer/plan/search.hpp"
#include "labs/week23_tensor_parallel/sequence_parallel.hpp"
#include "labs/week23_tensor_parallel/tensor_block.hpp"

namespace lockstep::plan {

namespace {

Machine slowed(Machine machine, Slower by) {
  for (double& peak : machine.peak_flop_per_second) peak /= by.products;
  machine.memory_bytes_per_second /= by.others;
  return machine;
}

/// x in [low, high] where the growing f is `value`.
double solve(const std::function<double(double)>& f, double value, double low, double high) {
  for (int i = 0; i < 24; ++i) (f((low + high) / 2) < value ? low : high) = (low + high) / 2;
  return low;
}

}  // namespace

std::vector<Published> megatron_iterations() {
  return {{"gpt-22b", "dgx-a100x1", 4, {.tp = 8, .microbatch = 4}, 1.42, 1.10},
          {"gpt3-175b", "dgx-a100x8", 64, {.tp = 8, .pp = 8, .schedule = "interleaved", .chunks = 3}, 18.13, 13.75},
          {"gpt-530b", "dgx-a100x35", 280, {.tp = 8, .pp = 35, .schedule = "interleaved", .chunks = 3}, 49.05, 37.83},
          {"gpt-1t", "dgx-a100x64", 512, {.tp = 8, .pp = 64}, 94.42, 71.49}};
}

double predicted_seconds(const Published& p, bool recompute, Slower by, const std::string& machines) {
  Task task = preset_task(p.model, p.cluster, p.batch, machines);
  task.cluster.machine = slowed(task.cluster.machine, by);
  week25::Strategy strategy = p.strategy;
  strategy.recompute = recompute;
  strategy.sequence_parallel = !recompute;
  if (const auto refusal = why_not(task, strategy)) throw Error(Verdict::usage, refusal->sentence);
  return Predictor(task).rate(strategy).time.total();
}

double layer_seconds(const std::string& machines, Slower by, bool recompute) {
  const Task task = preset_task("gpt-22b", "dgx-a100x1", 4, machines);
  const Machine machine = slowed(task.cluster.machine, by);
  DryRun dry_run(machine, {.ranks = 8, .alpha = machine.alpha(0), .beta = machine.beta(0)});
  Rank me = dry_run.rank();
  GptConfig config = task.model;
  config.layers = 1;
  config.tensor = {0, 8, !recompute};
  Gpt gpt(me, config, 1);
  const week23::TensorParallel tp = week23::make_tensor_parallel(me);
  gpt.use(recompute ? week23::make_tensor_layers(tp, config.vocabulary)
                    : week23::make_sequence_layers(tp, config.vocabulary));
  Activations saved = gpt.allocate_activations(me, 4, 2048);
  const double begin = dry_run.seconds();
  gpt.forward_block(me, 0, saved);
  if (recompute) gpt.forward_block(me, 0, saved);
  gpt.backward_block(me, 0, saved, {});
  return dry_run.seconds() - begin;
}

Slower slower_by_one_layer(const std::string& machines) {
  const auto products = [&](double others) {
    return solve([&](double x) { return layer_seconds(machines, {x, others}, false); }, 19.0e-3, 0.2, 4);
  };
  const double others = solve([&](double x) { return layer_seconds(machines, {products(x), x}, true); }, 27.2e-3, 1, 5);
  return {products(others), others};
}

}  // namespace lockstep::plan
