// Checkpoints: fp32 values, AdamW's m and v, and the step, in one file that is either whole or not there.
#pragma once

#include <string>
#include <vector>

#include "common/model/gpt.hpp"
#include "common/model/optimizer.hpp"
#include "labs/week22_zero/mixed_precision.hpp"

namespace lockstep::train {

struct Checkpoint {
  int step = 0;       // steps done
  std::string model;  // the sizes that values depend on, in words; of a rank's share also which it is
  std::vector<float> values, m, v;
  float loss_scale = 0;  // of fp16 with a loss scale; 0: none
  int good_steps = 0;    // of it
  int skipped = 0;
};

/// "4 layers, 6 heads, …": two models are exchangeable where this is equal.
std::string describe_model(const GptConfig& config);

/// To a file beside `path`, then renamed. Throws Error(usage) where it cannot be written.
void write_checkpoint(const std::string& path, const Checkpoint& checkpoint);
/// Throws Error(usage) with one sentence: no such file, not a checkpoint, cut short, or of another model.
Checkpoint read_checkpoint(const std::string& path, const GptConfig& config);

/// With ZeRO each rank saves and reads its own share, `elements` of each kind, as a file for itself.
struct ShareOf {
  int stage = 1;
  int rank = 0, ranks = 1;
  std::string wrap;  // of stages 2 and 3; buckets of stage 1
  std::size_t elements = 0;
};
std::string share_path(const std::string& path, int rank);
/// Also refuses a share of another number of ranks, stage or wrapping.
Checkpoint read_share(const std::string& path, const GptConfig& config, const ShareOf& share);
Checkpoint take_share(Rank me, const GptConfig& config, const ShareOf& share, const std::vector<Optimizer*>& optimizers,
                      const week22::LossScaler* scaler);
void restore_share(Rank me, const std::vector<Optimizer*>& optimizers, const Checkpoint& checkpoint);

/// A run without a loss scale gives none.
Checkpoint take_checkpoint(Rank me, const Gpt& gpt, const Optimizer& optimizer, const week22::LossScaler* scaler);
void restore(Rank me, Optimizer& optimizer, const Checkpoint& checkpoint);
/// Goes on with the scale and the counts of the checkpoint, where it has a scale.
void restore(Rank me, week22::LossScaler& scaler, const Checkpoint& checkpoint);

}  // namespace lockstep::train
