// The plan of a run: a request, applied to a model, a text and a machine.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <vector>

#include "common/gpt/data/corpus.hpp"
#include "common/runtime/ledger/ledger.hpp"
#include "common/runtime/run.hpp"
#include "labs/trainer/options_3d.hpp"
#include "labs/week21_data_parallel/compression.hpp"
#include "labs/week21_data_parallel/local_sgd.hpp"
#include "tools/train/request.hpp"

namespace lockstep::train {

/// A category of a rank's memory that is reported, and its name in a result's fields; the rest is buffers.
struct State {
  Category category;
  const char* field;
};
inline constexpr std::array<State, 4> kState = {{{Category::parameter, "parameter"},
                                                 {Category::gradient, "gradient"},
                                                 {Category::optimizer, "optimizer"},
                                                 {Category::activation, "activation"}}};

/// The number of ranks that --ranks or the axes of the mesh ask for; 0: neither is given. Throws Error(usage) where
/// they contradict each other.
int ranks_asked_for(const TrainRequest& request);

/// Keeps the host of a rank's queue busy for so many seconds, as a slow loader does.
using PassTime = void (*)(Rank, double);
/// In virtual time in the simulator, elsewhere by sleeping: ./lab train's programs link one or the other.
void pass_loading_time(Rank me, double seconds);

/// Everything that can be decided, and refused, before a rank starts; never changed after make_plan.
struct TrainPlan {
  TrainRequest request;    // as asked
  week25::Options3d step;  // what each step is
  std::string data;        // file of the text
  int log_every = 0, validate_every = 0;
  std::string checkpoint;        // directory, without a slash at its end; empty: none is written
  std::optional<Corpus> corpus;  // none in a phantom run
  std::vector<float> initial;    // with --init: the serial model's values to begin with
  RunOptions run;
  week21::Compression compression;  // of gradients; the ring: none
  std::optional<week21::OuterSgd> outer;
  PassTime pass_time = nullptr;  // with --load-rate: pass_loading_time

  /// The serial program: one rank, and nothing that needs the 3D step.
  bool serial() const { return run.ranks == 1 && step.zero == 0 && !step.loss_scale; }
  /// The part of the model of the rank with the most parameters, which is one of the first or last stage.
  std::size_t own_parameters() const;
  /// Elements of each gradient bucket, where nothing shares the model.
  std::vector<std::size_t> buckets() const;
  /// With --compress: what a rank sends a step for the gradients, the mean over ranks. Top-k chooses in each bucket, at
  /// least one element.
  double compressed_bytes() const;
  /// For which --load-rate keeps a rank's host busy with `rows` sequences.
  double loading_seconds(std::size_t rows) const {
    return request.load_rate > 0 ? static_cast<double>(rows * step.sequence) / request.load_rate : 0;
  }
  std::size_t tokens_per_step() const { return step.batch * step.sequence; }
  bool sample() const { return request.sample > 0 && !request.phantom; }

  /// The most that a rank holds while it trains, of each category: what a dry run of one rank of each stage holds. None
  /// of a run that is_folded.
  Memory training_peak;
  Memory peak;  // the same with the sample, for which rank 0 has the whole model
};

/// Checks everything and reads the text. `available_ranks` as of Session. Throws Error(usage) with one sentence.
TrainPlan make_plan(const TrainRequest& request, int available_ranks);

/// A sentence for each option that was asked for and does nothing in this run.
std::vector<std::string> without_effect(const TrainPlan& plan);

/// Linear warm-up, then a cosine down to a tenth (21.8), scaled by --lr-scaling: warm-up then begins at --lr, else at
/// 0. `step` counts from 0.
float learning_rate(int step, const TrainRequest& request);
/// The same as the optimizer wants it.
float optimizer_rate(int step, const TrainRequest& request);

}  // namespace lockstep::train
