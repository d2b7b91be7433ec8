// Given: how the trainer shards a model. Which elements of a serial tensor a rank begins with, saves and reads follows
// from 23.1e (up, down, the projection), 23.2b (QKV) and vocabulary_shard.
#pragma once

#include <string>
#include <vector>

#include "common/gpt/model/gpt.hpp"
#include "labs/week23_tensor_parallel/tensor_block.hpp"
#include "labs/week23_tensor_parallel/tensor_mlp.hpp"

namespace lockstep::week23 {

/// Collects the runs of a rank's tensor, one after the other.
class TensorRuns {
 public:
  void add(std::size_t serial, std::size_t size) {
    if (size > 0) runs_.push_back({next_, serial, size});
    next_ += size;
  }
  void pad(std::size_t size) {
    if (size > 0) runs_.push_back({next_, TensorRun::kPadding, size});
    next_ += size;
  }
  /// Rows and columns of a serial matrix of `width` columns.
  void add_matrix(ChunkRange rows, ChunkRange columns, std::size_t width) {
    if (columns.size == width) return add(rows.offset * width, rows.size * width);
    for (std::size_t row = rows.offset; row < rows.offset + rows.size; ++row)
      add(row * width + columns.offset, columns.size);
  }
  /// All of them, as many elements as the tensor has.
  std::vector<TensorRun> of(const Parameter& own) const {
    if (next_ != own.size)
      usage_error(own.name + ": a rank's part has " + std::to_string(own.size) + " elements, but is cut to " +
                  std::to_string(next_));
    return runs_;
  }

 private:
  std::vector<TensorRun> runs_;
  std::size_t next_ = 0;
};

/// As CutTensor: `own` is a tensor of gpt_parameter_table(config) that is sharded over the ranks.
inline std::vector<TensorRun> cut_tensor(const GptConfig& config, const Parameter& own) {
  const int r = config.tensor.rank, p = config.tensor.ranks;
  const std::size_t c = config.d_model;
  const auto is = [&own](const char* layer) { return own.name.find(layer) != own.name.npos; };
  const bool bias = own.name.ends_with(".bias");
  TensorRuns runs;
  const auto add_layer = [&](const LayerPart& part, std::size_t in) {
    if (bias)
      runs.add(part.bias.offset, part.bias.size);
    else
      runs.add_matrix(part.rows, part.columns, in);
  };
  if (is(".qkv.")) {
    for (const RowRange& rows : qkv_rows(config.heads, config.head_size(), r, p))
      runs.add_matrix({rows.first, rows.count}, {0, bias ? 1 : c}, bias ? 1 : c);
  } else if (is(".up.")) {
    add_layer(column_part(4 * c, c, r, p), c);
  } else if (is(".projection.")) {
    add_layer(row_part(c, c, r, p), c);
  } else if (is(".down.")) {
    add_layer(row_part(c, 4 * c, r, p), 4 * c);
  } else {
    const VocabularyShard shard = vocabulary_shard(config.vocabulary, r, p);
    runs.add(shard.first * own.columns, shard.count * own.columns);
    runs.pad((own.rows - shard.count) * own.columns);
  }
  return runs.of(own);
}

}  // namespace lockstep::week23
