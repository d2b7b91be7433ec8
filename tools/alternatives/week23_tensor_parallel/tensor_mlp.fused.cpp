// 23.2 from the serial layer's products, those that have the GELU in them included, and f and g alone of 23.1.
#include "labs/week23_tensor_parallel/tensor_mlp.hpp"

#include <cstdlib>
#include <string>

#include "common/gpt/model/block.hpp"

namespace lockstep::week23 {

void parallel_mlp_forward(const TensorParallel& tp, const MlpTensors& values, MlpSaved& saved, Slice y,
                          std::size_t rows) {
  linear_gelu(tp.group, saved.gelu, saved.up, saved.input, values.up.weight, values.up.bias, rows);
  const bool has_bias = tp.group.rank() == 0;
  linear(tp.group, y, saved.gelu, values.down.weight, has_bias ? values.down.bias : Slice(), rows);
  g_forward(tp, y, "mlp forward");
}

void parallel_mlp_backward(const TensorParallel& tp, const MlpTensors& values, const MlpTensors& gradients,
                           const MlpSaved& saved, Slice wide, Slice dx, Slice dy, std::size_t rows) {
  Rank main = tp.group;
  linear_gelu_backward_input(main, wide, dy, values.down.weight, saved.up, rows);
  linear_backward_input(main, dx, wide, values.up.weight, rows);
  const Ticket summed = f_backward(tp, dx, "mlp backward");
  linear_backward_weight(main, gradients.up.weight, gradients.up.bias, wide, saved.input, rows);
  linear_backward_weight(main, gradients.down.weight, gradients.down.bias, dy, saved.gelu, rows);
  main.wait(summed);
}

std::array<RowRange, 3> qkv_rows(std::size_t heads, std::size_t head_size, int rank, int ranks) {
  const auto divided = std::div(static_cast<long>(heads), static_cast<long>(ranks));
  if (divided.rem != 0) {
    const std::string all = std::to_string(heads) + " heads", places = std::to_string(ranks) + " ranks";
    usage_error(all + " do not fit on " + places);
  }
  const RowRange q{static_cast<std::size_t>(divided.quot * rank) * head_size,
                   static_cast<std::size_t>(divided.quot) * head_size};
  const std::size_t width = heads * head_size;
  return {q, {width + q.first, q.count}, {width + width + q.first, q.count}};
}

}  // namespace lockstep::week23
