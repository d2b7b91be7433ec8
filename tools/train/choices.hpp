// Reads the words of the command line: a type, a rule, a method. All throw Error(usage) with one sentence that lists
// the choices.
#pragma once

#include <optional>
#include <string>

#include "common/gpt/data/corpus.hpp"
#include "common/gpt/model/config.hpp"
#include "labs/week21_data_parallel/compression.hpp"
#include "labs/week21_data_parallel/large_batch.hpp"
#include "labs/week21_data_parallel/local_sgd.hpp"
#include "labs/week22_zero/checkpointing.hpp"
#include "labs/week22_zero/mixed_precision.hpp"
#include "tools/train/request.hpp"

namespace lockstep::train {

/// Gradients in fp16 that overflow even at this loss scale are beyond 10^12: the run has diverged.
inline constexpr float kLeastLossScale = 0x1p-24f;

[[noreturn]] void refuse(const std::string& sentence);

/// --precision and --reduce.
week22::Precision precision_of(const TrainRequest& r);
/// --recompute, with what --attention keeps.
week22::Recompute recompute_of(const TrainRequest& r);
AttentionKind attention_of(const std::string& name);
/// The first loss scale; none without fp16, or if it is off.
std::optional<float> loss_scale_of(const TrainRequest& r);
/// --lr-scaling.
week21::RateRule rate_rule_of(const std::string& name);
/// --compress and --no-feedback, which a mesh may not allow; over `data_ranks`.
week21::Compression compression_of(const TrainRequest& r, int data_ranks);
/// --outer-steps and what goes with it.
std::optional<week21::OuterSgd> outer_of(const TrainRequest& r, int data_ranks);
/// --tokens.
TokenKind token_kind_of(const std::string& name);
/// --optimizer and --weight-decay.
AdamW optimizer_of(const TrainRequest& r);

}  // namespace lockstep::train
