// Exercise 23.1: column- and row-parallel linear. Read labs/week23_tensor_parallel/parallel_linear.hpp first.
//
// Given are the serial layer's three products (common/gpt/model/block.hpp): linear, linear_backward_input,
// linear_backward_weight; and week21::ring_all_reduce, of 21.2.
#include "labs/week23_tensor_parallel/parallel_linear.hpp"

#include "common/gpt/model/block.hpp"
#include "labs/week21_data_parallel/ring_all_reduce.hpp"

namespace lockstep::week23 {

TensorParallel make_tensor_parallel(Rank group, bool overlap) {
  return {group, overlap ? group.stream("tp") : group, overlap};
}

void g_forward(const TensorParallel& tp, Slice y, const char* place) {
  // lab 23.1a begin: sum y over the group, in a region named `place`
  Rank group = tp.group;
  Scope scope = group.region(place, y.bytes());
  week21::ring_all_reduce(group, y);
  // lab end
}

Ticket f_backward(const TensorParallel& tp, Slice dx, const char* place) {
  if (!tp.overlap) {
    // lab 23.1a begin: sum dx over the group, in a region named `place`
    g_forward(tp, dx, place);
    // lab end
    return {};  // nothing to wait for
  }
  // lab 23.1d begin: the same, run on the queue tp.comm: main continues, and waits for the ticket when it needs dx
  Rank main = tp.group;
  return main.run(tp.comm, [dx, place](Rank queue) {
    Scope scope = queue.region(place, dx.bytes());
    week21::ring_all_reduce(queue, dx);
  });
  // lab end
}

void column_forward(const TensorParallel& tp, Slice y, Slice x, const LinearTensors& values, std::size_t rows) {
  // lab 23.1b begin: this rank's output features of the layer; x is whole on every rank
  linear(tp.group, y, x, values.weight, values.bias, rows);
  // lab end
}

void column_backward(const TensorParallel& tp, Slice dx, const LinearTensors& gradients, Slice dy, Slice x,
                     const LinearTensors& values, std::size_t rows, const char* place) {
  Rank me = tp.group;
  // lab 23.1b begin: dx, summed over the group, and the gradients of weight and bias, which can be computed while the
  // sum is in flight. All are complete on return
  linear_backward_input(me, dx, dy, values.weight, rows);
  const Ticket summed = f_backward(tp, dx, place);
  linear_backward_weight(me, gradients.weight, gradients.bias, dy, x, rows);
  me.wait(summed);
  // lab end
}

void row_forward(const TensorParallel& tp, Slice y, Slice x, const LinearTensors& values, std::size_t rows,
                 const char* place) {
  // lab 23.1c begin: the partial product of this rank's input features, and g. Every rank has the bias, but the sum may
  // contain it only once
  linear(tp.group, y, x, values.weight, tp.group.rank() == 0 ? values.bias : Slice(), rows);
  g_forward(tp, y, place);
  // lab end
}

void row_backward(const TensorParallel& tp, Slice dx, const LinearTensors& gradients, Slice dy, Slice x,
                  const LinearTensors& values, std::size_t rows) {
  // lab 23.1c begin: dy is whole on every rank: the gradients of input, weight and bias, and nothing to sum
  linear_backward_input(tp.group, dx, dy, values.weight, rows);
  linear_backward_weight(tp.group, gradients.weight, gradients.bias, dy, x, rows);
  // lab end
}

LayerPart column_part(std::size_t out, std::size_t in, int rank, int ranks) {
  // lab 23.1e begin: which of W's rows, of its columns, and which elements of the bias does this rank's y need?
  const ChunkRange own = equal_part(out, rank, ranks);
  return {.rows = own, .columns = {0, in}, .bias = own};
  // lab end
}

LayerPart row_part(std::size_t out, std::size_t in, int rank, int ranks) {
  // lab 23.1e begin: and which of them multiply this rank's share of x? See row_forward for the bias
  return {.rows = {0, out}, .columns = equal_part(in, rank, ranks), .bias = {0, out}};
  // lab end
}

}  // namespace lockstep::week23
