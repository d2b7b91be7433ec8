// Shared by the tests of 25.6: the tasks, and orders of strategies.
#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include "labs/trainer/plan/search.hpp"
#include "labs/week25_3d/step_time.hpp"

namespace lockstep::week25 {

/// On nodes of eight A100 with 80 GB each, in bf16.
inline plan::Task task_on(const std::string& cluster, const std::string& name, const GptConfig& model,
                          std::size_t global_batch, std::size_t length) {
  plan::Task task{.model_name = name, .model = model};
  task.model.storage = DType::bf16;
  task.cluster = plan::find_cluster(cluster, LOCKSTEP_SOURCE_DIR "/bench/machines");
  task.global_batch = global_batch;
  task.length = length;
  task.memory_bytes = 80e9;
  return task;
}

inline plan::Task gpt3_on_1024_a100() {
  return task_on("dgx-a100x128", "gpt3-175b", gpt_preset("gpt3-175b"), 1536, 2048);
}

/// Two nodes of 8, and a model that is small enough for every rank of every strategy to be simulated.
inline plan::Task two_nodes() {
  return task_on("dgx-a100x2", "8 layers of 2048",
                 {.layers = 8, .heads = 16, .d_model = 2048, .vocabulary = 50257, .context = 1024}, 32, 1024);
}

inline std::vector<double> places(const std::vector<double>& values) {
  std::vector<double> places;
  for (const double value : values)
    places.push_back(
        static_cast<double>(std::count_if(values.begin(), values.end(), [&](double x) { return x < value; })));
  return places;
}

/// Spearman's: 1 where both put everything in the same order.
inline double rank_correlation(const std::vector<double>& a, const std::vector<double>& b) {
  const std::vector<double> x = places(a), y = places(b);
  const double n = static_cast<double>(x.size());
  double squares = 0;
  for (std::size_t i = 0; i < x.size(); ++i) squares += (x[i] - y[i]) * (x[i] - y[i]);
  return 1 - 6 * squares / (n * (n * n - 1));
}

}  // namespace lockstep::week25
