// 23.3 with one call of the attention for each sequence; and the rows of a rank's heads counted head by head.
#include "labs/week23_tensor_parallel/tensor_attention.hpp"

#include <string>

namespace lockstep::week23 {
namespace {

/// Sequence `b` of an array of a batch.
Slice sequence(const Slice& array, std::size_t b, const AttentionShape& shape) {
  const std::size_t size = array.size() / shape.batch;
  return array.cut(b * size, size);
}

}  // namespace

std::array<RowRange, 3> qkv_rows(std::size_t heads, std::size_t head_size, int rank, int ranks) {
  if (heads % static_cast<std::size_t>(ranks) > 0)
    usage_error("a rank has whole heads: " + std::to_string(heads) + " heads on " + std::to_string(ranks) + " ranks");
  std::array<RowRange, 3> rows;
  for (std::size_t part = 0; part < rows.size(); ++part) {
    rows[part].first = part * heads * head_size;
    for (std::size_t head = 0; head < heads; ++head) {
      const auto owner = static_cast<int>(head * static_cast<std::size_t>(ranks) / heads);
      if (owner < rank) rows[part].first += head_size;
      if (owner == rank) rows[part].count += head_size;
    }
  }
  return rows;
}

void parallel_attention_forward(const TensorParallel& tp, AttentionShape shape, const AttentionTensors& values,
                                AttentionSaved& saved, Slice y) {
  AttentionShape one = shape;
  one.batch = 1;
  for (std::size_t b = 0; b < shape.batch; ++b) {
    const Slice qkv = sequence(saved.qkv, b, shape);
    column_forward(tp, qkv, sequence(saved.input, b, shape), values.qkv, shape.positions);
    attention(tp.group, sequence(saved.attention, b, shape), sequence(saved.statistics, b, shape), qkv, one);
  }
  row_forward(tp, y, saved.attention, values.projection, shape.batch * shape.positions, "attention forward");
}

void parallel_attention_backward(const TensorParallel& tp, AttentionShape shape, const AttentionTensors& values,
                                 const AttentionTensors& gradients, const AttentionSaved& saved, Slice dattention,
                                 Slice dqkv, Slice dx, Slice dy) {
  AttentionShape one = shape;
  one.batch = 1;
  for (std::size_t b = shape.batch; b-- > 0;) {
    const Slice dheads = sequence(dattention, b, shape), heads = sequence(saved.attention, b, shape);
    row_backward(tp, dheads, gradients.projection, sequence(dy, b, shape), heads, values.projection, shape.positions);
    attention_backward(tp.group, sequence(dqkv, b, shape), dheads, heads, sequence(saved.qkv, b, shape),
                       sequence(saved.statistics, b, shape), one);
  }
  column_backward(tp, dx, gradients.qkv, dqkv, saved.input, values.qkv, shape.batch * shape.positions,
                  "attention backward");
}

}  // namespace lockstep::week23
