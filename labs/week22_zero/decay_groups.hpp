// Exercise 22.10: groups of decay in flat shards. AdamW decays matrices and leaves gains and biases alone, but a shard
// of one flat array begins and ends anywhere.
//
// Follows Loshchilov and Hutter, "Decoupled Weight Decay Regularization", ICLR 2019 (arXiv 1711.05101), for the step;
// Rajbhandari et al., "ZeRO", SC'20 (arXiv 1910.02054), section 5.1, and Zhao et al., "PyTorch FSDP", VLDB 2023 (arXiv
// 2304.11277), for shards of a flat array. PyTorch: use_orig_params and clip_grad_norm_ of FullyShardedDataParallel.
#pragma once

#include <vector>

#include "common/arithmetic.hpp"
#include "common/chunk.hpp"

namespace lockstep::week22 {

/// AdamW's options for the tensors of a group.
struct DecayGroup {
  float weight_decay = 0.1f;
  float rate = 1;  ///< times the step's learning rate
};

/// One tensor: elements [offset, offset + size) of the flat array, size ≥ 1.
struct GroupedTensor {
  std::size_t offset = 0, size = 1;
  int group = 0;  ///< its index in the list of groups
};

/// Elements [offset, offset + size) of one rank's shard, counted from the shard's first element; all of one group.
struct Interval {
  std::size_t offset = 0, size = 0;
  int group = 0;
};

/// a: the elements of `shard`, which is a range of the flat array and may be empty, by group. The tensors are in order
/// and do not overlap. Elements of no tensor are padding and are in no interval. The intervals are in order, not empty,
/// and as few as possible: neighbours of the same group are one.
std::vector<Interval> intervals_of(const std::vector<GroupedTensor>& tensors, ChunkRange shard);

/// One rank's shard of the flat arrays: four slices of f32, equally long, possibly empty.
struct FlatShard {
  Slice values, gradients, m, v;
};

/// b: one AdamW step on this rank's shard, in which each interval has its group's weight decay and rate; the rest is as
/// `options` says, and `gradient_factor` as of adamw. Padding remains as it is. The result is bit for bit that of adamw
/// on each tensor as a whole.
void step_groups(Rank me, const FlatShard& shard, const std::vector<Interval>& intervals,
                 const std::vector<DecayGroup>& groups, const AdamW& options, Slice gradient_factor);

/// c: factor[0] = what scales the gradients to a norm of at most max_norm; sum[0] = their squared norm, in which every
/// element counts once. Both are one f32, and the same on every rank. `gradients` is this rank's shard, of which only
/// the intervals count, since padding may hold anything. `replicated` are further gradients (f32, or empty), which
/// every rank has whole and with the same values. Only one f32 is all-reduced, with 21.2's ring.
void clip_groups(Rank dp, Slice factor, Slice sum, Slice gradients, const std::vector<Interval>& intervals,
                 Slice replicated, float max_norm);

}  // namespace lockstep::week22
