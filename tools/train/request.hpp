// The options of ./lab train. tools/train/options.cpp has a row for each option.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/support/json/results.hpp"

namespace lockstep::train {

/// The options as typed; 0 or empty: the default, which make_plan chooses.
struct TrainRequest {
  std::string backend;  // empty: this program's
  int ranks = 0;
  std::string model = "small";
  std::size_t layers = 0, heads = 0, d_model = 0;
  bool untied = false;
  std::string attention = "flash";
  std::string data;
  std::string tokens = "byte";
  double load_rate = 0;  // tokens per second that each rank's loader delivers; 0: as they are read
  int load_ahead = 0;    // batches
  int steps = 200;
  std::size_t batch = 64;
  std::size_t sequence = 0;
  int microbatches = 0;  // 1, of a pipeline four a stage
  double learning_rate = 3e-3;
  std::string optimizer = "adamw";  // or sgd
  std::string lr_scaling = "none";  // none, linear or sqrt, from base_batch
  std::size_t base_batch = 0;       // for which learning_rate is right
  int warmup = 20;
  std::optional<double> weight_decay;  // by default 0.1; of sgd 0
  double clip = 1.0;
  double dropout = 0;  // probability; 0: none
  std::uint64_t seed = 1;
  std::string precision = "fp32";
  bool fp32_gradients = false;
  std::string reduce;                  // type in which gradients are summed over ranks; by default that of precision
  std::string loss_scale = "dynamic";  // of fp16: dynamic, off, or where the dynamic one begins
  int loss_scale_interval = 2000;
  std::string recompute = "none";
  int dp = 0;  // replicas; 0: as many as there are ranks for
  int cp = 1, tp = 1, pp = 1;
  std::string schedule = "1f1b";
  int chunks = 0;  // 1, interleaved 2
  bool sequence_parallel = false, overlap_scatter = false;
  std::string bucket_bytes;
  int zero = 0;
  int shard_group = 0;
  std::string wrap = "block";
  int prefetch = 1;
  bool overlap_gather = false;
  bool no_overlap = false;
  std::string compress;  // topk:DENSITY, int8, int8-two-step or topk+int8:DENSITY
  bool no_feedback = false;
  int outer_steps = 0;  // H: each rank takes so many of its own between two outer ones; 0: none, gradients are summed
  double outer_learning_rate = 0.7, outer_momentum = 0.9;
  double capacity_factor = 0, balance_loss = 0;  // of a mixture; 0: none
  std::string machine = "laptop";
  std::string emulate;
  bool phantom = false;
  bool every_rank = false;  // of a phantom mesh
  bool tf32 = false;
  bool check_races = false;
  int threads = 0;
  int log_every = 0;
  int validate_every = 0;
  std::size_t sample = 300;
  std::string prompt;
  std::string csv, trace, json;
  std::string explain_as;          // a program in whose words the run is printed instead
  std::string checkpoint, resume;  // directories of checkpoints
  int checkpoint_every = 0;
  std::string init;  // a file of weights to begin with
  std::string on_save_error = "continue";

  std::string command_line;        // that repeats it
  std::vector<std::string> typed;  // options that the command line or --config has: "--wrap"
  bool asks(std::string_view option) const { return std::find(typed.begin(), typed.end(), option) != typed.end(); }
};

/// Parses the command line. Returns an exit code where there is nothing to run: 0 after --help, 2 after a mistake.
/// Only the process that judges prints, as the `command` that was typed. `any_backend`: --backend may name another than
/// this program's.
std::optional<int> parse(int argc, char** argv, TrainRequest& request, bool any_backend = false,
                         const std::string& command = "lab train");

/// The same run on one rank: options that only several ranks need have their defaults.
TrainRequest for_one_rank(TrainRequest request);

/// Sets the fields of results that say what was asked for: those of a run's row, or of its context.
void set_asked(Row& row, const TrainRequest& request, bool in_context = false);

}  // namespace lockstep::train
