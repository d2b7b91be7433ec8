// Given: what the layers of 23.4 and those of 23.5 have in common. Both keep a part of the vocabulary, and tell which
// of a block's gradients are complete.
#pragma once

#include "common/gpt/model/layers.hpp"
#include "labs/week23_tensor_parallel/tensor_block.hpp"

namespace lockstep::week23 {

/// Weight and bias of one layer, among a block's tensors.
inline LinearTensors pair(const BlockTensors& tensors, BlockPart::Index weight, BlockPart::Index bias) {
  return {tensors[weight], tensors[bias]};
}

class ShardedLayers : public Layers {
 public:
  ShardedLayers(const TensorParallel& tp, std::size_t vocabulary)
      : tp_(tp), shard_(vocabulary_shard(vocabulary, tp.group.rank(), tp.group.size())) {}

  void loss(Rank, Slice loss, Slice logits, Slice targets, float factor, Slice gradient_scale) const override {
    parallel_cross_entropy(tp_, loss, logits, targets, shard_, factor, gradient_scale, false);
  }
  void validation_loss(Rank, Slice loss, Slice logits, Slice targets, float factor) const override {
    parallel_cross_entropy(tp_, loss, logits, targets, shard_, factor, {}, true);
  }

 protected:
  using P = BlockPart;

  static void attention_ready(const BlockPartReady& ready) {
    for (P::Index part : {P::projection_bias, P::projection_weight, P::qkv_bias, P::qkv_weight}) ready(part);
  }
  static void mlp_ready(const BlockPartReady& ready) {
    for (P::Index part : {P::down_bias, P::down_weight, P::up_bias, P::up_weight}) ready(part);
  }

  TensorParallel tp_;
  VocabularyShard shard_;
};

}  // namespace lockstep::week23
