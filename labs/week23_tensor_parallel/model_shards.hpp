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

/// Shards like CutTensor: `own` is a tensor of gpt_parameter_table(config) that is sharded over the ranks.
inline std::vector<TensorRun> cut_tensor(const GptConfig& config, const Parameter& own) {
  const int r = config.tensor.rank, p = config.tensor.ranks;
  const std::size_t c = config.d_model;
  const std::size_t mlp = config.mlp_width();
  const auto is = [&own](const char* layer) { return own.name.find(layer) != own.name.npos; };
  const bool bias = own.name.ends_with(".bias");
  TensorRuns runs;
  const auto add_layer = [&](const LayerPart& part, std::size_t in, std::size_t first = 0) {
    if (bias)
      runs.add(first + part.bias.offset, part.bias.size);
    else
      runs.add_matrix({first + part.rows.offset, part.rows.size}, part.columns, in);
  };
  if (is(".qkv.")) {  // heads of q, and those of k and v, which may be fewer
    const std::size_t kv_heads = config.architecture.key_value_heads(config.heads), head = config.head_size();
    const std::size_t width = bias ? 1 : c;
    const auto queries = qkv_rows(config.heads, head, r, p), keys = qkv_rows(kv_heads, head, r, p);
    runs.add_matrix({queries[0].first, queries[0].count}, {0, width}, width);
    for (const std::size_t part : {1, 2})
      runs.add_matrix({keys[part].first + (config.heads - kv_heads) * head, keys[part].count}, {0, width}, width);
  } else if (is(".up.")) {  // with SwiGLU first the gate, then up
    for (std::size_t first = 0; first < config.up_width(); first += mlp) add_layer(column_part(mlp, c, r, p), c, first);
  } else if (is(".projection.")) {
    add_layer(row_part(c, c, r, p), c);
  } else if (is(".down.")) {
    add_layer(row_part(c, mlp, r, p), mlp);
  } else {
    const VocabularyShard shard = vocabulary_shard(config.vocabulary, r, p);
    runs.add(shard.first * own.columns, shard.count * own.columns);
    runs.pad((own.rows - shard.count) * own.columns);
  }
  return runs.of(own);
}

}  // namespace lockstep::week23
