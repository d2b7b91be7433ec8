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
  todo("23.1a", "sum y over the group, in a region named `place`");
}

Ticket f_backward(const TensorParallel& tp, Slice dx, const char* place) {
  if (!tp.overlap) {
    todo("23.1a", "sum dx over the group, in a region named `place`");
    return {};  // nothing to wait for
  }
  todo("23.1d", "the same, run on the queue tp.comm: main continues, and waits for the ticket when it needs dx");
}

void column_forward(const TensorParallel& tp, Slice y, Slice x, const LinearTensors& values, std::size_t rows) {
  todo("23.1b", "this rank's output features of the layer; x is whole on every rank");
}

void column_backward(const TensorParallel& tp, Slice dx, const LinearTensors& gradients, Slice dy, Slice x,
                     const LinearTensors& values, std::size_t rows, const char* place) {
  Rank me = tp.group;
  todo("23.1b",
       "dx, summed over the group, and the gradients of weight and bias, which can be computed while the sum is in "
       "flight. All are complete on return");
}

void row_forward(const TensorParallel& tp, Slice y, Slice x, const LinearTensors& values, std::size_t rows,
                 const char* place) {
  todo("23.1c",
       "the partial product of this rank's input features, and g. Every rank has the bias, but the sum may contain "
       "it only once");
}

void row_backward(const TensorParallel& tp, Slice dx, const LinearTensors& gradients, Slice dy, Slice x,
                  const LinearTensors& values, std::size_t rows) {
  todo("23.1c", "dy is whole on every rank: the gradients of input, weight and bias, and nothing to sum");
}

LayerPart column_part(std::size_t out, std::size_t in, int rank, int ranks) {
  todo("23.1e", "which of W's rows, of its columns, and which elements of the bias does this rank's y need?");
}

LayerPart row_part(std::size_t out, std::size_t in, int rank, int ranks) {
  todo("23.1e", "and which of them multiply this rank's share of x? See row_forward for the bias");
}

}  // namespace lockstep::week23
