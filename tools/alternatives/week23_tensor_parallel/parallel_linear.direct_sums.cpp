// 23.1 with sums of its own: every rank sends each other rank its chunk at once, adds what it gets, and gives its chunk
// of the sum to all. f's backward calls the same sum on either queue.
#include "labs/week23_tensor_parallel/parallel_linear.hpp"

#include <utility>
#include <vector>

#include "common/chunk.hpp"
#include "common/gpt/model/block.hpp"

namespace lockstep::week23 {
namespace {

std::vector<int> others(Rank queue) {
  std::vector<int> peers;
  for (int peer = 0; peer < queue.size(); ++peer)
    if (peer != queue.rank()) peers.push_back(peer);
  return peers;
}

void sum(Rank queue, const Slice& data, const char* place) {
  Scope scope = queue.region(place, data.bytes());
  const int p = queue.size();
  Slice own = chunk(data, queue.rank(), p);
  std::vector<Slice> received;
  std::vector<Transfer> scatter, gather;
  for (int peer : others(queue)) {
    received.push_back(queue.allocate(own.size(), data.dtype(), Category::buffer));
    scatter.push_back(receive(peer, received.back()));
    scatter.push_back(send(peer, chunk(data, peer, p)));
    gather.push_back(send(peer, own));
    gather.push_back(receive(peer, chunk(data, peer, p)));
  }
  queue.exchange(scatter);
  for (const Slice& part : received) add(queue, own, part);
  queue.exchange(gather);
}

}  // namespace

TensorParallel make_tensor_parallel(Rank group, bool overlap) {
  return {group, overlap ? group.stream("tp") : group, overlap};
}

void g_forward(const TensorParallel& tp, Slice y, const char* place) { sum(tp.group, y, place); }

Ticket f_backward(const TensorParallel& tp, Slice dx, const char* place) {
  Rank main = tp.group;
  if (tp.overlap) return main.run(tp.comm, [=](Rank queue) { sum(queue, dx, place); });
  sum(main, dx, place);
  return Ticket();
}

void column_forward(const TensorParallel& tp, Slice y, Slice x, const LinearTensors& values, std::size_t rows) {
  linear(tp.group, y, x, values.weight, values.bias, rows);
}

void column_backward(const TensorParallel& tp, Slice dx, const LinearTensors& gradients, Slice dy, Slice x,
                     const LinearTensors& values, std::size_t rows, const char* place) {
  Rank main = tp.group;
  linear_backward_input(main, dx, dy, values.weight, rows);
  const Ticket summed = f_backward(tp, dx, place);
  linear_backward_weight(main, gradients.weight, gradients.bias, dy, x, rows);
  main.wait(summed);
}

void row_forward(const TensorParallel& tp, Slice y, Slice x, const LinearTensors& values, std::size_t rows,
                 const char* place) {
  const bool last = tp.group.rank() + 1 == tp.group.size();
  linear(tp.group, y, x, values.weight, last ? values.bias : Slice(), rows);
  sum(tp.group, y, place);
}

void row_backward(const TensorParallel& tp, Slice dx, const LinearTensors& gradients, Slice dy, Slice x,
                  const LinearTensors& values, std::size_t rows) {
  linear_backward_weight(tp.group, gradients.weight, gradients.bias, dy, x, rows);
  linear_backward_input(tp.group, dx, dy, values.weight, rows);
}

LayerPart column_part(std::size_t out, std::size_t in, int rank, int ranks) {
  LayerPart part{.rows = equal_part(out, rank, ranks), .columns = {}, .bias = {}};
  part.columns.size = in;
  part.bias = part.rows;
  return part;
}

LayerPart row_part(std::size_t out, std::size_t in, int rank, int ranks) {
  LayerPart part = column_part(in, out, rank, ranks);  // of the transposed weight
  std::swap(part.rows, part.columns);
  part.bias = part.rows;
  return part;
}

}  // namespace lockstep::week23
