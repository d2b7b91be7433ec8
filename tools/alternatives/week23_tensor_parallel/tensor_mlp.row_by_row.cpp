// 23.2 with the way there row by row, and one sum of all rows. On the way back the GELU goes row by row as well, from
// the last.
#include "labs/week23_tensor_parallel/tensor_mlp.hpp"

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

}  // namespace lockstep::week23
