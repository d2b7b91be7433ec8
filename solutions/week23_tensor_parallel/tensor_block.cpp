// Exercise 23.4: the whole GPT on p ranks. Read labs/week23_tensor_parallel/tensor_block.hpp first.
//
// The block, which calls 23.2 and 23.3, is given in tensor_layers.hpp; ring_all_gather is 21.2's.
#include "labs/week23_tensor_parallel/tensor_block.hpp"

#include <algorithm>

#include "labs/week21_data_parallel/ring_all_reduce.hpp"
#include "labs/week23_tensor_parallel/tensor_layers.hpp"

namespace lockstep::week23 {

VocabularyShard vocabulary_shard(std::size_t vocabulary, int rank, int ranks) {
  const auto r = static_cast<std::size_t>(rank), p = static_cast<std::size_t>(ranks);
  const std::size_t rows = (vocabulary + p - 1) / p, first = std::min(vocabulary, r * rows);
  return {first, std::min(rows, vocabulary - first)};
}

void parallel_embedding(const TensorParallel& tp, Slice y, Slice tokens, Slice table, Slice positions,
                        std::size_t sequence, VocabularyShard shard) {
  Rank me = tp.group;
  Slice own = me.allocate(tokens.size(), DType::i32, Category::buffer);
  // lab 23.4a begin: y has the row of every token, on every rank, though a rank's table has only some. The positions
  // count once
  shard_tokens(me, own, tokens, shard);
  embedding(me, y, own, table, me.rank() == 0 ? positions : Slice(), sequence);
  g_forward(tp, y, "embedding forward");
  // lab end
}

void parallel_embedding_backward(const TensorParallel& tp, Slice dtable, Slice dpositions, Slice dy, Slice tokens,
                                 std::size_t sequence, VocabularyShard shard) {
  Rank me = tp.group;
  Slice own = me.allocate(tokens.size(), DType::i32, Category::buffer);
  // lab 23.4a begin: the gradients of this rank's rows of the table, and of the positions
  shard_tokens(me, own, tokens, shard);
  embedding_backward(me, dtable, dpositions, dy, own, sequence);
  // lab end
}

void parallel_cross_entropy(const TensorParallel& tp, Slice loss, Slice logits, Slice targets, VocabularyShard shard,
                            float factor, Slice gradient_scale, bool only_loss) {
  Rank me = tp.group;
  Slice statistics =
      me.allocate(2 * targets.size() * static_cast<std::size_t>(me.size()), DType::f32, Category::buffer);
  // lab 23.4b begin: the loss over the whole vocabulary and, unless only the loss is needed, the gradient of this
  // rank's logits. What ranks exchange are the statistics, in a region "loss"
  cross_entropy_statistics(me, chunk(statistics, me.rank(), me.size()), logits, targets, shard);
  {
    Scope scope = me.region("loss", statistics.bytes());
    week21::ring_all_gather(me, statistics);
  }
  cross_entropy_shard(me, loss, only_loss ? Slice() : logits, statistics, targets, shard, factor, gradient_scale);
  // lab end
}

namespace {

class TensorLayers final : public TensorBlockLayers {
 public:
  using TensorBlockLayers::TensorBlockLayers;

  void logits(Rank, Slice logits, Slice x, Slice head, std::size_t rows) const override {
    // lab 23.4c begin: the head is a layer whose output features are the vocabulary. It has no bias
    column_forward(tp_, logits, x, {head, {}}, rows);
    // lab end
  }
  void logits_backward(Rank, Slice dx, Slice dhead, Slice dlogits, Slice x, Slice head,
                       std::size_t rows) const override {
    // lab 23.4c begin: and back; its all-reduce is in the region "head backward"
    column_backward(tp_, dx, {dhead, {}}, dlogits, x, {head, {}}, rows, "head backward");
    // lab end
  }
};

}  // namespace

std::shared_ptr<const Layers> make_tensor_layers(const TensorParallel& tp, std::size_t vocabulary) {
  return std::make_shared<TensorLayers>(tp, vocabulary);
}

}  // namespace lockstep::week23
