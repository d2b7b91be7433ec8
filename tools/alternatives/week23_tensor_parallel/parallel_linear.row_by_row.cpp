// 23.1 row by row: each row of the input is a product of its own. The sum is 21.2's two halves, one after the other.
#include "labs/week23_tensor_parallel/parallel_linear.hpp"

#include <string>

#include "common/gpt/model/block.hpp"
#include "labs/week21_data_parallel/ring_all_reduce.hpp"

namespace lockstep::week23 {
namespace {

/// Row `n` of an array of `rows` rows.
Slice row_of(const Slice& array, std::size_t n, std::size_t rows) {
  const std::size_t width = array.size() / rows;
  return array.cut(n * width, width);
}

void scatter_and_gather(Rank queue, const Slice& data, const char* place) {
  Scope scope = queue.region(place, data.bytes());
  week21::ring_reduce_scatter(queue, data);
  week21::ring_all_gather(queue, data);
}

void inputs_gradient(Rank main, const Slice& dx, const Slice& dy, const Slice& weight, std::size_t rows) {
  for (std::size_t n = rows; n-- > 0;) linear_backward_input(main, row_of(dx, n, rows), row_of(dy, n, rows), weight, 1);
}

void weights_gradient(Rank main, const LinearTensors& gradients, const Slice& dy, const Slice& x, std::size_t rows) {
  for (std::size_t n = 0; n < rows; ++n)
    linear_backward_weight(main, gradients.weight, gradients.bias, row_of(dy, n, rows), row_of(x, n, rows), 1);
}

}  // namespace

TensorParallel make_tensor_parallel(Rank group, bool overlap) {
  TensorParallel tp{.group = group, .comm = group, .overlap = overlap};
  if (overlap) tp.comm = group.stream("tp");
  return tp;
}

void g_forward(const TensorParallel& tp, Slice y, const char* place) { scatter_and_gather(tp.group, y, place); }

Ticket f_backward(const TensorParallel& tp, Slice dx, const char* place) {
  Rank main = tp.group;
  if (!tp.overlap) {
    scatter_and_gather(main, dx, place);
    return {};
  }
  return main.run(tp.comm, [dx, place](Rank queue) { scatter_and_gather(queue, dx, place); });
}

void column_forward(const TensorParallel& tp, Slice y, Slice x, const LinearTensors& values, std::size_t rows) {
  for (std::size_t n = 0; n < rows; ++n)
    linear(tp.group, row_of(y, n, rows), row_of(x, n, rows), values.weight, values.bias, 1);
}

void column_backward(const TensorParallel& tp, Slice dx, const LinearTensors& gradients, Slice dy, Slice x,
                     const LinearTensors& values, std::size_t rows, const char* place) {
  Rank main = tp.group;
  inputs_gradient(main, dx, dy, values.weight, rows);
  const Ticket summed = f_backward(tp, dx, place);
  weights_gradient(main, gradients, dy, x, rows);
  main.wait(summed);
}

void row_forward(const TensorParallel& tp, Slice y, Slice x, const LinearTensors& values, std::size_t rows,
                 const char* place) {
  const Slice bias = tp.group.rank() > 0 ? Slice() : values.bias;
  for (std::size_t n = rows; n-- > 0;) linear(tp.group, row_of(y, n, rows), row_of(x, n, rows), values.weight, bias, 1);
  scatter_and_gather(tp.group, y, place);
}

void row_backward(const TensorParallel& tp, Slice dx, const LinearTensors& gradients, Slice dy, Slice x,
                  const LinearTensors& values, std::size_t rows) {
  weights_gradient(tp.group, gradients, dy, x, rows);
  inputs_gradient(tp.group, dx, dy, values.weight, rows);
}

LayerPart column_part(std::size_t out, std::size_t in, int rank, int ranks) {
  const auto p = static_cast<std::size_t>(ranks), r = static_cast<std::size_t>(rank);
  if (out % p != 0)
    usage_error("a layer of " + std::to_string(out) + " output features on " + std::to_string(ranks) + " ranks");
  return {{r * (out / p), out / p}, {0, in}, {r * (out / p), out / p}};
}

LayerPart row_part(std::size_t out, std::size_t in, int rank, int ranks) {
  const auto p = static_cast<std::size_t>(ranks), r = static_cast<std::size_t>(rank);
  if (in % p != 0)
    usage_error("a layer of " + std::to_string(in) + " input features on " + std::to_string(ranks) + " ranks");
  return {{0, out}, {r * (in / p), in / p}, {0, out}};
}

}  // namespace lockstep::week23
