// Short names for the suite's own functions, with which the pages' numbers are computed.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "common/runtime/machine/machine.hpp"
#include "common/support/tests/program_testing.hpp"
#include "labs/trainer/plan/simulate.hpp"
#include "labs/week21_data_parallel/cost_model.hpp"
#include "labs/week21_data_parallel/scaling_laws.hpp"
#include "labs/week22_zero/memory_calculator.hpp"
#include "labs/week24_pipeline/bubble.hpp"
#include "labs/week24_pipeline/schedules_by_name.hpp"
#include "labs/week25_3d/budget.hpp"
#include "labs/week25_3d/save_interval.hpp"
#include "tools/train/phantom_step.hpp"

namespace lockstep::numbers {

inline const std::string kMachines = LOCKSTEP_SOURCE_DIR "/bench/machines";

/// Bytes that a rank of a ring sends, in arrays: 2(p − 1)/p.
inline double arrays_sent(int ranks) { return week21::bandwidth(ranks, 1, 1).bus; }

/// GB of a rank: AdamW, 16 bits and a master copy.
inline double state_gb(double parameters, int stage, int ranks) {
  return week22::model_state(parameters, stage, ranks, week22::recipe_of(DType::bf16)).total_bytes() / 1e9;
}

/// The makespan of a schedule, in turns' units: forward, input gradient and weight gradient of a stage take 1 each, a
/// hop `hop`.
inline double makespan(const std::string& name, int stages, int microbatches, double hop, int chunks = 0) {
  const PipelineShape shape = week24::shape_of(name, stages, microbatches, chunks);
  const double part = 1.0 / shape.chunks;
  double end = 0;
  for (const auto& stage : time_schedule(week24::make_schedule(name, shape), shape, StepTimes{part, part, part, hop}))
    end = std::max(end, stage.back().end);
  return end;
}

/// The task's step with this strategy, played in the simulator.
inline week25::PhantomStep step_of(const plan::Task& task, const week25::Strategy& strategy) {
  return week25::phantom_step(plan::options_of(task, strategy), task.cluster.machine);
}

/// Exercise 25.4's: a step of GPT-2 355M, 32 sequences, on 1 to 8 A100 of a node and on 16 of two.
inline std::vector<week21::Measurement> strong_scaling() {
  std::vector<week21::Measurement> times;
  for (const int ranks : {1, 2, 4, 8, 16}) {
    const plan::Task task = plan::preset_task("gpt2-355m", ranks == 16 ? "dgx-a100-hdrx2" : "dgx-a100", 32, kMachines);
    times.push_back({ranks, step_of(task, {.dp = ranks, .microbatch = 32 / ranks}).seconds});
  }
  return times;
}

/// Runs a page's command, once, however many tests ask. Returns the first of the rows that it writes with --json in
/// which `where` is so.
class Programs : public ProgramTest {
 protected:
  Json row(const std::string& command, const std::function<bool(const Json&)>& where) {
    static std::map<std::string, Json> documents;
    const auto [document, first] = documents.try_emplace(command);
    if (first) {
      EXPECT_EQ(execute(LOCKSTEP_PROGRAMS "/" + command + " --json " + file("rows.json")), 0) << err_;
      document->second = Json::parse(read(file("rows.json")));
    }
    for (const Json& row : document->second.at("rows"))
      if (where(row)) return row;
    throw Error(Verdict::fail, command + " writes no such row");
  }
  /// A step of GPT-2 355M in bf16, 4 sequences a rank that have so many tokens together: ./lab bench zero.
  Json zero_step(const std::string& machine, int ranks, int tokens, int stage) {
    return row(fmt::format("bench_zero_sim --model gpt2-355m --phantom --machine {} --ranks {} --batch 4 --sequence {}",
                           machine, ranks, tokens / 4),
               [&](const Json& each) { return each.contains("seconds") && each.at("stage") == stage; });
  }
  double of_ddp(const std::string& machine, int ranks, int tokens, int stage) {
    return zero_step(machine, ranks, tokens, stage).at("throughput_of_stage0");
  }
};

/// The shares of a run of exercise 25.5 with one failure every 3.1 hours.
inline const week25::SavingCosts kSaving = {.save = 60, .restart = 600, .mtbf = 3.1 * 3600};

}  // namespace lockstep::numbers
