// 23.2 with the way there row by row, and one sum of all rows. On the way back the GELU goes row by row as well, from
// the last. The rows of a rank's heads are counted head by head.
#include "labs/week23_tensor_parallel/tensor_mlp.hpp"

#include <string>

#include "common/gpt/model/block.hpp"

namespace lockstep::week23 {
namespace {

Slice row_of(const Slice& array, std::size_t n, std::size_t rows) {
  return array.cut(n * (array.size() / rows), array.size() / rows);
}

}  // namespace

void parallel_mlp_forward(const TensorParallel& tp, const MlpTensors& values, MlpSaved& saved, Slice y,
                          std::size_t rows) {
  const Slice bias = tp.group.rank() == 0 ? values.down.bias : Slice();
  for (std::size_t n = 0; n < rows; ++n) {
    const Slice up = row_of(saved.up, n, rows), bent = row_of(saved.gelu, n, rows);
    column_forward(tp, up, row_of(saved.input, n, rows), values.up, 1);
    gelu(tp.group, bent, up);
    linear(tp.group, row_of(y, n, rows), bent, values.down.weight, bias, 1);
  }
  g_forward(tp, y, "mlp forward");
}

void parallel_mlp_backward(const TensorParallel& tp, const MlpTensors& values, const MlpTensors& gradients,
                           const MlpSaved& saved, Slice wide, Slice dx, Slice dy, std::size_t rows) {
  row_backward(tp, wide, gradients.down, dy, saved.gelu, values.down, rows);
  for (std::size_t n = rows; n-- > 0;) {
    const Slice row = row_of(wide, n, rows);
    gelu_backward(tp.group, row, row, row_of(saved.up, n, rows));
  }
  column_backward(tp, dx, gradients.up, wide, saved.input, values.up, rows, "mlp backward");
}

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

}  // namespace lockstep::week23
