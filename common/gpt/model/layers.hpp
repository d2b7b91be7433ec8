// The parts of a GPT whose work ranks can share. This class computes them on one rank; tensor parallelism (week 23)
// derives from it. Norms, residuals and the order of operations stay in block.cpp and gpt.cpp.
#pragma once

#include "common/gpt/model/block.hpp"

namespace lockstep {

/// Stateless, so one object serves every model. N = shape.rows(); "own" sizes are this rank's (BlockShape).
class Layers {
 public:
  virtual ~Layers() = default;

  /// y = projection(attention(qkv(saved.norm1))); fills saved.qkv, saved.attention and the tensors that attention
  /// keeps.
  virtual void attention_forward(Rank me, const BlockShape& shape, const BlockTensors& values, BlockActivations& saved,
                                 Slice y) const;
  /// Computes dx, the gradient of saved.norm1, from dy. Gradients of parameters accumulate, and `ready` is called for
  /// each.
  virtual void attention_backward(Rank me, const BlockShape& shape, const BlockTensors& values,
                                  const BlockTensors& gradients, const BlockActivations& saved,
                                  BackwardScratch& scratch, Slice dx, Slice dy, const BlockPartReady& ready) const;

  /// y = down(gelu(up(saved.norm2))); fills saved.up and saved.gelu. With an empty y it ends when these are filled.
  virtual void mlp_forward(Rank me, const BlockShape& shape, const BlockTensors& values, BlockActivations& saved,
                           Slice y) const;
  /// Computes dx, the gradient of saved.norm2, from dy; like attention_backward.
  virtual void mlp_backward(Rank me, const BlockShape& shape, const BlockTensors& values, const BlockTensors& gradients,
                            const BlockActivations& saved, BackwardScratch& scratch, Slice dx, Slice dy,
                            const BlockPartReady& ready) const;

  /// y = rows of the table by token, plus positions.
  virtual void embed(Rank me, Slice y, Slice tokens, Slice table, Slice positions, std::size_t sequence) const;
  virtual void embed_backward(Rank me, Slice dtable, Slice dpositions, Slice dy, Slice tokens,
                              std::size_t sequence) const;

  /// logits = x·headᵀ, N rows of this rank's part of the vocabulary.
  virtual void logits(Rank me, Slice logits, Slice x, Slice head, std::size_t rows) const;
  /// Computes dx from the gradient of the logits; dhead accumulates.
  virtual void logits_backward(Rank me, Slice dx, Slice dhead, Slice dlogits, Slice x, Slice head,
                               std::size_t rows) const;

  /// dW += dyᵀ · x and, unless empty, dbias += column sums of dy, for every linear layer here except the head. Nothing
  /// waits for the result, so a pipeline may compute it later.
  virtual void weight_gradient(Rank me, Slice dweight, Slice dbias, Slice dy, Slice x, std::size_t rows) const;

  /// Runs cross_entropy and cross_entropy_loss.
  virtual void loss(Rank me, Slice loss, Slice logits, Slice targets, float factor, Slice gradient_scale) const;
  virtual void validation_loss(Rank me, Slice loss, Slice logits, Slice targets, float factor) const;
};

}  // namespace lockstep
