// Exercise 23.9 in another way: each rank sends its rows, and the sums that it has for others, straight to where they
// are needed; and the ring's time as what it saves of the other order's.
#include "labs/week23_tensor_parallel/overlapped_linear.hpp"

#include <algorithm>

#include "common/gpt/model/block.hpp"

namespace lockstep::week23 {

void column_forward_ring(const TensorParallel& tp, Slice y, Slice x, const LinearTensors& values, std::size_t rows,
                         const char* place) {
  Rank me = tp.group;
  const int p = me.size(), r = me.rank();
  Scope scope = me.region(place, x.bytes() * static_cast<std::size_t>(p));
  Slice blocks[2];
  for (Slice& block : blocks) block = me.allocate(x.size(), x.dtype(), Category::buffer);
  Slice held = x;
  for (int step = 0; step < p; ++step) {
    const int owner = (r + p - step) % p, to = (r + step + 1) % p, from = (r + p - step - 1) % p;
    Ticket passed;
    if (to != r) passed = me.start({send(to, x), receive(from, blocks[step % 2])});
    linear(me, chunk(y, owner, p), held, values.weight, values.bias, rows / static_cast<std::size_t>(p));
    me.wait(passed);
    held = blocks[step % 2];
  }
}

void row_forward_ring(const TensorParallel& tp, Slice y, Slice x, const LinearTensors& values, std::size_t rows,
                      const char* place) {
  Rank me = tp.group;
  const int p = me.size(), r = me.rank();
  Scope scope = me.region(place, y.bytes() * static_cast<std::size_t>(p));
  const std::size_t own = rows / static_cast<std::size_t>(p);
  if (p == 1) return linear(me, y, x, values.weight, values.bias, own);
  Slice sums[2], arriving = me.allocate(y.size(), y.dtype(), Category::buffer);
  for (Slice& sum : sums) sum = me.allocate(y.size(), y.dtype(), Category::buffer);
  Ticket passed;
  for (int step = 1; step < p; ++step) {
    const int to = (r + step) % p, from = (r + p - step) % p;
    linear(me, sums[step % 2], chunk(x, to, p), values.weight, {}, own);
    me.wait(passed);
    if (step > 2) add(me, y, arriving);
    passed = me.start({send(to, sums[step % 2]), receive(from, step == 1 ? y : arriving)});
  }
  linear(me, sums[p % 2], chunk(x, r, p), values.weight, values.bias, own);
  me.wait(passed);
  if (p > 2) add(me, y, arriving);
  add(me, y, sums[p % 2]);
}

namespace {

double saved_seconds(const StepTimes& t, int ranks) {
  return t.copy + t.whole - ranks * t.chunk + (ranks - 1) * std::min(t.chunk, t.message);
}

}  // namespace

double in_turn_seconds(const StepTimes& times, int ranks) {
  double seconds = times.copy + times.whole;
  for (int step = 1; step < ranks; ++step) seconds += times.add + times.message;
  return seconds;
}
double ring_seconds(const StepTimes& times, int ranks) {
  return in_turn_seconds(times, ranks) - saved_seconds(times, ranks);
}

std::size_t rows_to_pay(const Machine& machine, int ranks, RankProduct product) {
  std::size_t own = 1;
  const auto saved = [&] {
    product.rows = own * static_cast<std::size_t>(ranks);
    return saved_seconds(times_of(machine, ranks, product), ranks);
  };
  while (own <= kMostRows && !(saved() > 0)) own *= 2;
  return own <= kMostRows ? own : 0;
}

}  // namespace lockstep::week23
