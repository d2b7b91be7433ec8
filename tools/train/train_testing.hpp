// Shared by the tests of ./lab train: a run that takes a second at most, and its results.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "common/support/tests/folder_testing.hpp"
#include "tools/train/program.hpp"

namespace lockstep::train {

inline TrainRequest small_run() {
  TrainRequest options;
  options.model = "tiny";
  options.steps = 8;
  options.warmup = 100;  // the learning rate then does not depend on the number of steps
  options.batch = 7;
  options.sequence = 16;
  options.sample = 0;
  options.threads = 1;
  return options;
}

inline void set_mesh(TrainRequest& options, int dp, int tp, int pp) {
  options.dp = dp;
  options.tp = tp;
  options.pp = pp;
}

struct Trained {
  std::vector<double> losses, norms;
  std::vector<double> bytes_sent;  // by rank 0, of each step
  double validation = 0;
  Values squares;  // of the parameters, by rank
  Outcome outcome;
  Row row;  // what --json says
  std::vector<std::string> complaints;
  bool saved = true, diverged = false;
  int stop_code = 0;
};

/// An outcome that is not a pass is left for the caller to judge with outcome.check().
inline Trained try_to_train(const TrainRequest& options, checkpoint::Files& files, std::FILE* out = nullptr) {
  TrainRequest checked = options;
  checked.check_races = true;
  TrainPlan plan = make_plan(checked, 0);
  plan.pass_time = pass_loading_time;
  TrainLog log(plan, out);
  Trained result;
  StopSignals signals(!options.checkpoint.empty());
  result.outcome = run(plan.run, [&](Rank me) { return train_rank(me, plan, log, files, signals); });
  result.diverged = log.has_diverged();
  result.stop_code = log.stop_code();
  for (const StepRecord& record : log.records()) {
    result.losses.push_back(record.loss);
    result.norms.push_back(record.gradient_norm);
    result.bytes_sent.push_back(record.bytes_sent);
  }
  if (!log.validations().empty()) result.validation = log.validations().back().loss;
  if (result.outcome.passed() && !result.outcome.values[0].empty())
    for (const Values& values : result.outcome.values) result.squares.push_back(values.at(0));
  if (result.outcome.passed() && !log.records().empty()) result.row = log.result_row(result.outcome);
  result.complaints = log.complaints();
  result.saved = log.saved();
  return result;
}

inline Trained train(const TrainRequest& options) {
  checkpoint::Disk disk;
  Trained result = try_to_train(options, disk);
  result.outcome.check();
  return result;
}

class Folder : public TestFolder {
 protected:
  std::string path(const std::string& name) const { return file(name); }
};

}  // namespace lockstep::train
