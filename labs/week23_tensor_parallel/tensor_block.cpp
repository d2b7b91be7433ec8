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
  todo("23.4a",
       "y has the row of every token, on every rank, though a rank's table has only some. The positions count once");
}

void parallel_embedding_backward(const TensorParallel& tp, Slice dtable, Slice dpositions, Slice dy, Slice tokens,
                                 std::size_t sequence, VocabularyShard shard) {
  Rank me = tp.group;
  Slice own = me.allocate(tokens.size(), DType::i32, Category::buffer);
  todo("23.4a", "the gradients of this rank's rows of the table, and of the positions");
}

void parallel_cross_entropy(const TensorParallel& tp, Slice loss, Slice logits, Slice targets, VocabularyShard shard,
                            float factor, Slice gradient_scale, bool only_loss) {
  Rank me = tp.group;
  Slice statistics =
      me.allocate(2 * targets.size() * static_cast<std::size_t>(me.size()), DType::f32, Category::buffer);
  todo("23.4b",
       "the loss over the whole vocabulary and, unless only the loss is needed, the gradient of this rank's logits. "
       "What ranks exchange are the statistics, in a region \"loss\"");
}

namespace {

class TensorLayers final : public TensorBlockLayers {
 public:
  using TensorBlockLayers::TensorBlockLayers;

  void logits(Rank, Slice logits, Slice x, Slice head, std::size_t rows) const override {
    todo("23.4c", "the head is a layer whose output features are the vocabulary. It has no bias");
  }
  void logits_backward(Rank, Slice dx, Slice dhead, Slice dlogits, Slice x, Slice head,
                       std::size_t rows) const override {
    todo("23.4c", "and back; its all-reduce is in the region \"head backward\"");
  }
};

}  // namespace

std::shared_ptr<const Layers> make_tensor_layers(const TensorParallel& tp, std::size_t vocabulary) {
  return std::make_shared<TensorLayers>(tp, vocabulary);
}

}  // namespace lockstep::week23
