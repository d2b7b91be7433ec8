// Exercise 23.9 in another way: the ring runs the other way round, and its messages are exchanged on the stream of
// tensor parallelism.
#include "labs/week23_tensor_parallel/overlapped_linear.hpp"

#include <algorithm>

#include "common/gpt/model/block.hpp"

namespace lockstep::week23 {
namespace {

Ticket passed_on(const TensorParallel& tp, Slice held, Slice arriving) {
  Rank me = tp.group;
  const int p = me.size(), to = (me.rank() + p - 1) % p, from = (me.rank() + 1) % p;
  return me.run(tp.comm, [=](Rank queue) { queue.exchange({send(to, held), receive(from, arriving)}); });
}

}  // namespace

void column_forward_ring(const TensorParallel& tp, Slice y, Slice x, const LinearTensors& values, std::size_t rows,
                         const char* place) {
  Rank me = tp.group;
  const int p = me.size(), r = me.rank();
  Scope scope = me.region(place, x.bytes() * static_cast<std::size_t>(p));
  const std::size_t own = rows / static_cast<std::size_t>(p);
  Slice held = x, free;
  for (int step = 0; step < p - 1; ++step) {
    Slice arriving = step < 2 ? me.allocate(x.size(), x.dtype(), Category::buffer) : free;
    const Ticket passed = passed_on(tp, held, arriving);
    linear(me, chunk(y, (r + step) % p, p), held, values.weight, values.bias, own);
    me.wait(passed);
    free = held;
    held = arriving;
  }
  linear(me, chunk(y, (r + p - 1) % p, p), held, values.weight, values.bias, own);
}

void row_forward_ring(const TensorParallel& tp, Slice y, Slice x, const LinearTensors& values, std::size_t rows,
                      const char* place) {
  Rank me = tp.group;
  const int p = me.size(), r = me.rank();
  Scope scope = me.region(place, y.bytes() * static_cast<std::size_t>(p));
  const std::size_t own = rows / static_cast<std::size_t>(p);
  const Slice bias = r == 0 ? values.bias : Slice();
  if (p == 1) return linear(me, y, x, values.weight, bias, own);
  Slice sum = me.allocate(y.size(), y.dtype(), Category::buffer);
  Slice next_sum = me.allocate(y.size(), y.dtype(), Category::buffer);
  Slice arriving = me.allocate(y.size(), y.dtype(), Category::buffer);
  linear(me, sum, chunk(x, (r + 1) % p, p), values.weight, bias, own);
  for (int step = 1; step < p; ++step) {
    const Ticket passed = passed_on(tp, sum, arriving);
    const Slice into = step == p - 1 ? y : next_sum;
    linear(me, into, chunk(x, (r + 1 + step) % p, p), values.weight, bias, own);
    me.wait(passed);
    add(me, into, arriving);
    std::swap(sum, next_sum);
  }
}

double in_turn_seconds(const StepTimes& times, int ranks) {
  return (ranks - 1) * times.add + (ranks - 1) * times.message + times.copy + times.whole;
}

double ring_seconds(const StepTimes& times, int ranks) {
  const double side_by_side = times.chunk < times.message ? times.message : times.chunk;
  return (ranks - 1) * (times.add + side_by_side) + times.chunk;
}

std::size_t rows_to_pay(const Machine& machine, int ranks, RankProduct product) {
  for (std::size_t own = 1; own <= kMostRows; own += own) {
    product.rows = own * static_cast<std::size_t>(ranks);
    const StepTimes times = times_of(machine, ranks, product);
    const double gain = in_turn_seconds(times, ranks) - ring_seconds(times, ranks);
    if (gain > 0) return own;
  }
  return 0;
}

}  // namespace lockstep::week23
