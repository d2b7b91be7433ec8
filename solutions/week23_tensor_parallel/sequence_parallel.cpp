// Exercise 23.5: sequence parallelism. Read labs/week23_tensor_parallel/sequence_parallel.hpp first.
#include "labs/week23_tensor_parallel/sequence_parallel.hpp"

#include "labs/week21_data_parallel/ring_all_reduce.hpp"
#include "labs/week23_tensor_parallel/sequence_layers.hpp"

namespace lockstep::week23 {

void gather_rows(Rank group, Slice whole, Slice own, const char* place) {
  Scope scope = group.region(place, whole.bytes());
  // lab 23.5a begin: `whole` has the rows of all ranks, each in its place
  copy(group, chunk(whole, group.rank(), group.size()), own);
  week21::ring_all_gather(group, whole);
  // lab end
}

void scatter_rows(Rank group, Slice own, Slice whole, const char* place) {
  Scope scope = group.region(place, whole.bytes());
  // lab 23.5a begin: `own` has this rank's rows of the sum of all ranks' `whole`, which may be overwritten
  week21::ring_reduce_scatter(group, whole);
  copy(group, own, chunk(whole, group.rank(), group.size()));
  // lab end
}

void column_backward_rows(const TensorParallel& tp, Slice dx, const LinearTensors& gradients, Slice dy, Slice x,
                          const LinearTensors& values, std::size_t rows, const char* gather, const char* scatter) {
  Rank me = tp.group;
  Slice whole = whole_rows(tp, x), dwhole = whole_rows(tp, x);
  // lab 23.5b begin: dx has this rank's rows of the sum over tp, and the gradients of weight and bias are those of all
  // rows. With tp.overlap the rows of x arrive on tp.comm while main computes what needs none of them
  Ticket gathered;
  if (tp.overlap)
    gathered = me.run(tp.comm, [whole, x, gather](Rank queue) { gather_rows(queue, whole, x, gather); });
  else
    gather_rows(me, whole, x, gather);
  linear_backward_input(me, dwhole, dy, values.weight, rows);
  me.wait(gathered);
  linear_backward_weight(me, gradients.weight, gradients.bias, dy, whole, rows);
  scatter_rows(me, dx, dwhole, scatter);
  // lab end
}

void row_forward_rows(const TensorParallel& tp, Slice y, Slice x, const LinearTensors& values, std::size_t rows,
                      const char* place) {
  Slice whole = whole_rows(tp, y);
  // lab 23.5b begin: y has this rank's rows of the sum of all partial products, which contains the bias once
  linear(tp.group, whole, x, values.weight, tp.group.rank() == 0 ? values.bias : Slice(), rows);
  scatter_rows(tp.group, y, whole, place);
  // lab end
}

void sum_norm_gradients(const TensorParallel& tp, const std::vector<Slice>& norms) {
  Rank me = tp.group;
  if (norms.empty()) return;
  std::size_t count = 0;
  for (const Slice& norm : norms) count += norm.size();
  Slice all = me.allocate(count, norms.front().dtype(), Category::buffer);
  std::vector<Slice> places;  // by norm, in `all`
  for (std::size_t i = 0, at = 0; i < norms.size(); at += norms[i].size(), ++i)
    places.push_back(all.cut(at, norms[i].size()));
  // lab 23.5c begin: each gradient of `norms` becomes its sum over tp, all of them in one all-reduce, of `all`, in the
  // region "norm gradients"
  for (std::size_t i = 0; i < norms.size(); ++i) copy(me, places[i], norms[i]);
  g_forward(tp, all, "norm gradients");
  for (std::size_t i = 0; i < norms.size(); ++i) copy(me, norms[i], places[i]);
  // lab end
}

std::shared_ptr<const Layers> make_sequence_layers(const TensorParallel& tp, std::size_t vocabulary) {
  return std::make_shared<SequenceLayers>(tp, vocabulary);
}

}  // namespace lockstep::week23
