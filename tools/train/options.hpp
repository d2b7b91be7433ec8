// What ./lab train can be asked for, and what it means for a model, a text and a machine.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/gpt/data/corpus.hpp"
#include "common/gpt/model/config.hpp"
#include "common/runtime/ledger/ledger.hpp"
#include "common/runtime/run.hpp"
#include "labs/trainer/options_3d.hpp"
#include "labs/week21_data_parallel/compression.hpp"
#include "labs/week21_data_parallel/local_sgd.hpp"

namespace lockstep::train {

/// Gradients in fp16 that overflow even at this loss scale are beyond 10^12: the run has diverged.
inline constexpr float kLeastLossScale = 0x1p-24f;

/// What of a rank's memory is reported, and how a result's fields name it; the rest is buffers.
struct State {
  Category category;
  const char* field;
};
inline constexpr std::array<State, 4> kState = {{{Category::parameter, "parameter"},
                                                 {Category::gradient, "gradient"},
                                                 {Category::optimizer, "optimizer"},
                                                 {Category::activation, "activation"}}};

/// As typed; 0 or empty: by default. make_plan completes what a 3D run is asked to be by the words that stand for it.
struct TrainOptions : week25::Options3d {
  TrainOptions() {
    batch = 64;
    mesh.dp = 0;       // as many replicas as there are ranks for
    microbatches = 0;  // 1, of a pipeline four a stage
    chunks = 0;        // 1, interleaved 2
  }

  struct Words {
    std::string model = "small";
    std::string attention = "flash";
    std::string precision = "fp32";
    std::string reduce;                  // type in which gradients are summed over ranks; by default that of precision
    std::string loss_scale = "dynamic";  // of fp16: dynamic, off, or where the dynamic one begins
    std::string recompute = "none";
    std::string bucket_bytes;
    std::string wrap = "block";
  } words;
  std::string backend;  // empty: this program's
  int ranks = 0;
  std::size_t layers = 0, heads = 0, d_model = 0;
  bool untied = false;
  int steps = 200;
  double learning_rate = 3e-3;
  std::string optimizer = "adamw";  // or sgd
  std::string lr_scaling = "none";  // none, linear or sqrt, from base_batch
  std::size_t base_batch = 0;       // for which learning_rate is right
  int warmup = 20;
  std::optional<double> weight_decay;  // by default 0.1; of sgd 0
  double clip = 1.0;
  std::string data;
  std::string tokens = "byte";
  bool no_overlap = false;
  std::string compress;  // topk:DENSITY, int8 or int8-two-step
  bool no_feedback = false;
  int outer_steps =
      0;  // H: ranks take so many steps of their own between two outer ones; 0: none, gradients are summed
  double outer_learning_rate = 0.7, outer_momentum = 0.9;
  std::string machine = "laptop";
  std::string emulate;
  bool phantom = false;
  bool every_rank = false;  // of a phantom mesh
  bool tf32 = false;
  bool check_races = false;
  int threads = 0;
  int log_every = 0;
  int validate_every = 0;
  int checkpoint_every = 0;
  std::string csv, trace, json;
  std::string checkpoint, resume;  // directories of checkpoints
  std::string init;                // a file of weights to begin with
  std::string on_save_error = "go-on";
  std::string explain_as;  // a program in whose words the run is printed instead
  std::size_t sample = 300;
  std::string prompt;
  std::vector<std::string> typed;  // of the options that may do nothing, those that were asked for: "--wrap"

  bool asks(std::string_view option) const { return std::find(typed.begin(), typed.end(), option) != typed.end(); }
};

/// Parses the command line. Returns an exit code where there is nothing to run: 0 after --help, 2 after a mistake.
/// Only the process that judges prints.
std::optional<int> parse(int argc, char** argv, TrainOptions& options);
/// The same for whichever backend is named: what ./lab has to start is not this program, maybe.
std::optional<int> parse_for_any_backend(int argc, char** argv, TrainOptions& options);

/// How many ranks the options ask for, by --ranks or the axes of the mesh; 0: neither is given. Throws Error(usage)
/// where they contradict each other.
int ranks_asked_for(const TrainOptions& options);

/// Everything that can be decided, and refused, before a rank starts.
struct Plan {
  TrainOptions options;          // complete
  std::optional<Corpus> corpus;  // none in a phantom run
  std::vector<float> initial;    // with --init: the serial model's values to begin with
  RunOptions run;
  week21::Compression compression;  // of gradients; the ring: none
  std::optional<week21::OuterSgd> outer;

  int replicas() const { return options.mesh.dp; }
  /// The serial program: one rank, and nothing that needs the 3D step.
  bool serial() const { return run.ranks == 1 && options.zero == 0 && !options.loss_scale; }
  /// The part of the model of the rank with the most parameters, which is one of the first or last stage.
  std::size_t own_parameters() const;
  /// Of each gradient bucket, in elements, where nothing shares the model.
  std::vector<std::size_t> buckets() const;
  /// With --compress: what a rank sends a step for the gradients, the mean over ranks. Top-k chooses in each bucket, at
  /// least one element.
  double compressed_bytes() const;
  std::size_t tokens_per_step() const { return options.batch * options.sequence; }
  bool sample() const { return options.sample > 0 && !options.phantom; }

  /// The most that a rank holds while it trains, of each category: what a dry run of one rank of each stage holds. None
  /// of a run that is_folded.
  Memory training_peak;
  Memory peak;  // the same with the sample, for which rank 0 has the whole model
};

/// Checks everything and reads the text. `available_ranks` as of Session. Throws Error(usage) with one sentence.
Plan make_plan(TrainOptions options, int available_ranks);

/// A sentence for each option that was asked for and does nothing in this run.
std::vector<std::string> without_effect(const Plan& plan);

/// Linear warm-up, then a cosine down to a tenth (21.8), scaled by --lr-scaling: warm-up then begins at --lr, else at
/// 0. `step` counts from 0.
float learning_rate(int step, const TrainOptions& options);
/// The same as the optimizer wants it.
float optimizer_rate(int step, const TrainOptions& options);

}  // namespace lockstep::train
